"""The ways in which a breakpoint can end, and the actions that are refused afterwards."""

from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node

BY_TIMEOUT = "system:timeout"


async def whole(node: Node, breakpoint_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (
        await node.call("GET", f"/api/breakpoints/{breakpoint_id}", await node.token("reviewer"))
    ).json()
    return found


async def history(node: Node, breakpoint_id: str) -> list[tuple[str, str]]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/events", await node.token("reviewer"))
    return [(each["type"], each["actor"]) for each in answer.json()["items"]]


async def test_a_cancelled_breakpoint_is_not_approved(shared: Node) -> None:
    created = await shared.create()
    answer = await shared.call("POST", f"/api/breakpoints/{created['id']}/cancel", await shared.token("agent"))
    after = answer.json()
    assert (after["status"], after["cancelledAt"]) == ("cancelled", after["updatedAt"])
    assert "decision" not in after
    assert after["result"] == {"approved": False, "status": "cancelled", "auto": False}
    assert (await history(shared, created["id"]))[-1] == ("cancelled", created["createdBy"])
    assert answer.headers["etag"] == '"v2"'


async def test_a_cancellation_by_an_admin_names_the_admin(shared: Node) -> None:
    created = await shared.create()
    await shared.call("POST", f"/api/breakpoints/{created['id']}/cancel", await shared.token("admin"))
    assert (await history(shared, created["id"]))[-1] == ("cancelled", "person:owner")


async def test_an_admin_can_expire_a_breakpoint_early(shared: Node) -> None:
    created = await shared.create(ttlSeconds=3600, onTimeout="expire")
    answer = await shared.call("POST", f"/api/breakpoints/{created['id']}/expire", await shared.token("admin"))
    after = answer.json()
    assert (after["status"], after["expiredAt"]) == ("expired", after["updatedAt"])
    assert after["result"] == {"approved": False, "status": "expired", "auto": False}
    assert (await history(shared, created["id"]))[-1] == ("expired", "person:owner")


ENDINGS: list[tuple[str, dict[str, Any], str]] = [
    ("feedback", {"release": True}, "reviewer"),
    ("feedback", {"approved": False}, "reviewer"),
    ("cancel", {}, "agent"),
    ("expire", {}, "admin"),
]


@pytest.mark.parametrize(("action", "body", "kind"), ENDINGS)
async def test_an_ended_breakpoint_rejects_every_action(
    shared: Node, action: str, body: dict[str, Any], kind: str
) -> None:
    created = await shared.create()
    path = f"/api/breakpoints/{created['id']}"
    assert (await shared.call("POST", f"{path}/{action}", await shared.token(kind), json=body)).status_code == 200
    before = await whole(shared, created["id"])
    for other, other_body, who in [*ENDINGS, ("feedback", {"comment": "?"}, "reviewer")]:
        answer = await shared.call("POST", f"{path}/{other}", await shared.token(who), json=other_body)
        assert (answer.status_code, answer.json()["code"]) == (409, "already_ended")
        assert answer.json()["standing"]["status"] == before["status"]
        assert answer.json()["standing"]["decision"] == before.get("decision")
    assert await whole(shared, created["id"]) == before


LATE: dict[str, tuple[str, dict[str, Any], str]] = {
    "approving": ("feedback", {"release": True}, "reviewer"),
    "rejecting": ("feedback", {"approved": False}, "reviewer"),
    "commenting": ("feedback", {"comment": "Sorry!"}, "reviewer"),
    "commenting as the agent": ("feedback", {"comment": "Hello?"}, "agent"),
    "cancelling": ("cancel", {}, "agent"),
}


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize(
    ("on_timeout", "status", "decision"), [("expire", "expired", None), ("reject", "released", "rejected")]
)
async def test_every_action_after_the_deadline_returns_409_with_the_outcome(
    node: Node, clock: ManualClock, what: str, on_timeout: str, status: str, decision: str | None
) -> None:
    created = await node.create(ttlSeconds=60, onTimeout=on_timeout)
    clock.advance(60)
    action, body, kind = LATE[what]
    answer = await node.call("POST", f"/api/breakpoints/{created['id']}/{action}", await node.token(kind), json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_ended")
    standing = answer.json()["standing"]
    assert (standing["status"], standing["decision"], standing["by"]) == (status, decision, BY_TIMEOUT)
    after = await whole(node, created["id"])
    assert (after["status"], after.get("decision")) == (status, decision)
    assert after["feedback"] == []
    assert after["responses"] == []


async def test_an_answer_just_before_the_deadline_counts(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=60)
    clock.advance(59.999999)
    answer = await node.feedback(created["id"], await node.token("reviewer"), release=True)
    assert answer.json()["decision"] == "approved"
    clock.advance(10)
    assert (await whole(node, created["id"]))["decision"] == "approved"


READS = ["/api/breakpoints/{id}", "/api/breakpoints/{id}/status", "/api/breakpoints/{id}/events", "/api/breakpoints"]


@pytest.mark.parametrize("path", READS)
async def test_the_first_read_after_the_deadline_expires_the_breakpoint(
    node: Node, clock: ManualClock, path: str
) -> None:
    created = await node.create(ttlSeconds=60)
    clock.advance(61)
    seen = (await node.call("GET", path.format(id=created["id"]), await node.token("agent"))).json()
    if path.endswith("/events"):
        assert [each["type"] for each in seen["items"]] == ["created", "expired"]
    else:
        assert (seen["items"][0] if "items" in seen else seen)["status"] == "expired"
    assert await history(node, created["id"]) == [("created", created["createdBy"]), ("expired", BY_TIMEOUT)]


async def test_an_expired_breakpoint_is_not_approved(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=60)
    clock.advance(61)
    after = await whole(node, created["id"])
    assert (after["status"], "decision" in after) == ("expired", False)
    assert after["result"] == {"approved": False, "status": "expired", "auto": False}
    assert after["expiredAt"] == after["updatedAt"]


async def test_a_rejection_by_timeout_names_the_system_as_the_decider(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=60, onTimeout="reject")
    clock.advance(61)
    after = await whole(node, created["id"])
    assert (after["status"], after["decision"], after["decidedBy"]) == ("released", "rejected", BY_TIMEOUT)
    result = after["result"]
    assert (result["approved"], result["decision"], result["status"]) == (False, "rejected", "released")
    assert (await history(node, created["id"]))[-1] == ("released", BY_TIMEOUT)


async def test_an_incomplete_vote_does_not_approve_at_the_deadline(node: Node, clock: ManualClock) -> None:
    first, second = await node.person("olga", "reviewer"), await node.person("paul", "reviewer")
    payload = {"question": "?", "expert": ["olga", "paul"], "strategy": "collect-all"}
    created = await node.create(ttlSeconds=60, payload=payload)
    assert (await node.feedback(created["id"], first, approved=True)).status_code == 200
    clock.advance(60)
    assert (await node.feedback(created["id"], second, approved=True)).status_code == 409
    after = await whole(node, created["id"])
    assert (after["status"], after["result"]["approved"]) == ("expired", False)
    assert [each["respondedBy"] for each in after["responses"]] == ["olga"]


async def test_a_breakpoint_without_a_ttl_never_expires(node: Node, clock: ManualClock) -> None:
    created = await node.create()
    clock.advance(80 * 24 * 3600)
    assert (await whole(node, created["id"]))["status"] == "waiting"
