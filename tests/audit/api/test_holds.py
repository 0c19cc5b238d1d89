"""Legal holds and retention, over HTTP and in the browser."""

from typing import Any

import pytest

from assent.audit.usecases.retention import RetentionService
from tests.support.nodes import ManualClock, Node
from tests.web.visitors import signed_in

DAY = 24 * 3600


async def admin(node: Node, method: str, path: str, body: Any = None) -> Any:
    return await node.call(method, path, await node.token("admin"), json=body)


async def test_a_hold_can_be_placed_listed_and_lifted(node: Node, clock: ManualClock) -> None:
    created = await node.create()
    placed = await admin(node, "POST", "/api/holds", {"breakpointId": created["id"], "reason": "The court asked."})
    assert placed.status_code == 201
    assert placed.json()["placedBy"] == "person:owner"
    clock.advance(1)
    whole = (await admin(node, "POST", "/api/holds", {"reason": "Everything."})).json()
    assert whole["breakpointId"] is None
    clock.advance(1)
    assert (await admin(node, "DELETE", f"/api/holds/{whole['id']}")).status_code == 204
    assert (await admin(node, "DELETE", f"/api/holds/{whole['id']}")).status_code == 404
    auditor = await node.person("aud", "auditor")
    items = (await node.call("GET", "/api/holds", auditor)).json()["items"]
    assert items[0] == placed.json()
    assert (items[1]["id"], items[1]["liftedBy"]) == (whole["id"], "person:owner")
    assert items[1]["liftedAt"] > items[1]["placedAt"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"reason": ""}, 422),
        ({"reason": "x" * 1001}, 422),
        ({"reason": 5}, 422),
        ({"reason": "x", "until": "2030"}, 422),
        ({"reason": "x", "breakpointId": "bp_none"}, 404),
        ({"reason": "x", "breakpointId": "bp_" + "0" * 26}, 404),
    ],
)
async def test_an_invalid_hold_is_rejected(node: Node, body: dict[str, Any], status: int) -> None:
    assert (await admin(node, "POST", "/api/holds", body)).status_code == status
    assert (await admin(node, "GET", "/api/holds")).json() == {"items": []}


@pytest.mark.parametrize("days", [0, -1, 36_501, 1.5, "30", True])
async def test_an_invalid_retention_period_is_rejected(node: Node, days: Any) -> None:
    assert (await admin(node, "PUT", "/api/policy", {"retentionDays": days})).status_code == 422
    assert (await admin(node, "GET", "/api/policy")).json() == {}


async def test_a_policy_contains_the_retention_period(node: Node) -> None:
    assert (await admin(node, "PUT", "/api/policy", {"retentionDays": 400})).json() == {"retentionDays": 400}
    assert (await admin(node, "GET", "/api/policy")).json() == {"retentionDays": 400}


async def test_a_purged_breakpoints_page_says_that_its_content_was_deleted(node: Node, clock: ManualClock) -> None:
    owner = await node.token("reviewer")
    created = await node.create(payload={"question": "Tell nobody?"})
    await node.feedback(created["id"], owner, approved=True, comment="I will not.")
    await admin(node, "PUT", "/api/policy", {"retentionDays": 1})
    clock.advance(2 * DAY)
    assert await node.assent.database.write(node.assent[RetentionService].purge_due) == 1
    browser = await signed_in(node, "ann")
    shown = await browser.get(f"/breakpoints/{created['id']}")
    assert shown.status_code == 200
    assert "The content was deleted</strong> on <time" in shown.text
    assert ">2027-01-17 08:00:00 UTC</time> because its retention period expired" in shown.text
    assert "Tell nobody?" not in shown.text
    assert "I will not." not in shown.text
    assert "answered no" not in shown.text
