"""End to end in Jira: an issue is created and moved, the agent is notified, and the issue is closed."""

import asyncio
from typing import Any

import pytest

from assent.delivery.store.links import Links
from tests.db.making import person, stored
from tests.delivery.channels.jira.conftest import HOOK
from tests.delivery.usecases.delegating import channel as set_up
from tests.delivery.usecases.delegating import in_state, route
from tests.support.jira import TOKEN, US, USER, Issue, Jira
from tests.support.nodes import Node
from tests.support.until import until as repeated


async def in_jira(node: Node, jira: Jira, monkeypatch: pytest.MonkeyPatch, **more: Any) -> str:
    monkeypatch.setenv("JIRA_TOKEN", TOKEN)
    monkeypatch.setenv("JIRA_HOOK", HOOK)
    settings: dict[str, Any] = {
        "url": jira.url,
        "project": "OPS",
        "user": USER,
        "token": "env:JIRA_TOKEN",
        "pollSeconds": 0,
    }
    settings |= {"approve": ["Approved"], "reject": ["Declined"], "webhookSecret": "env:JIRA_HOOK"}
    made = await set_up(node, "jira", "jira", **settings | more)
    await route(node, "jira")
    ann = await person(node, "ann", "reviewer")
    await node.assent.database.write(
        lambda tx: tx[Links].link(made, "acc-ann", person_id=ann.id, by="test", now=tx.now())
    )
    return made


async def until(jira: Jira, enough: Any) -> dict[str, Issue]:
    assert await asyncio.to_thread(jira.wait, enough)
    return jira.issues


async def hand_in(node: Node, channel_id: str, jira: Jira, key: str = "OPS-1") -> int:
    """Deliver a webhook as Jira does: retry while the server returns 503 because it is still recording the message."""
    headers, body = jira.hook(key, secret=HOOK)

    async def send() -> int:
        return (await node.client.post(f"/callbacks/{channel_id}", headers=headers, content=body)).status_code

    return await repeated(send, lambda status: status != 503)


async def test_an_approval_by_webhook_releases_the_breakpoint_and_closes_the_issue(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel_id = await in_jira(working, cloud, monkeypatch, closeTransition="Done")
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    cloud.move("OPS-1", "Approved", by="acc-ann")
    assert await hand_in(working, channel_id, cloud) < 300
    assert await hand_in(working, channel_id, cloud) < 300
    whole = await working.call("GET", f"/api/breakpoints/{created['id']}?wait=30", await working.token("agent"))
    result = whole.json()["result"]
    assert (result["approved"], result["respondedBy"], result["via"]) == (True, "ann", "jira")
    await until(cloud, lambda issues: len(issues["OPS-1"].comments) == 1)
    found = await in_state(working, created["id"], "sent", "answered")
    assert [(each.purpose, each.state) for each in found] == [("ask", "answered"), ("close", "sent")]
    assert cloud.issues["OPS-1"].status == "Approved"
    assert (await stored(working, created["id"])).votes == 1


async def test_a_rejection_found_by_polling_ends_the_breakpoint(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_jira(working, cloud, monkeypatch, pollSeconds=1, webhookSecret=None)
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    cloud.move("OPS-1", "Declined", by="acc-ann", comment="Not on a Friday.")
    await until(cloud, lambda issues: any(each["author"] == cloud.person(US) for each in issues["OPS-1"].comments))
    ended = await stored(working, created["id"])
    assert ended.decision == "rejected"
    assert (ended.result or {})["feedback"] == "Not on a Friday."


async def test_a_rejection_with_an_overlong_comment_is_not_lost(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel_id = await in_jira(working, cloud, monkeypatch)
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    await in_state(working, created["id"], "sent")
    cloud.move("OPS-1", "Declined", by="acc-ann", comment="x" * 20_001)
    for _ in range(2):
        assert await hand_in(working, channel_id, cloud, "OPS-1") < 500
    ended = await stored(working, created["id"])
    assert (ended.decision, len((ended.result or {})["feedback"])) == ("rejected", 20_000)
    assert sum("characters of the comment were stored." in each for each in cloud.texts("OPS-1")) == 1


async def test_a_decision_made_elsewhere_closes_the_issue(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_jira(working, cloud, monkeypatch, closeTransition="Done")
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    await working.feedback(created["id"], await working.token("reviewer"), approved=False, comment="No.")
    await until(cloud, lambda issues: issues["OPS-1"].status == "Done")
    assert "Rejected by" in cloud.texts("OPS-1")[0]


async def test_an_unlinked_person_gets_one_reply_and_cannot_decide(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel_id = await in_jira(working, cloud, monkeypatch)
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    cloud.move("OPS-1", "Approved", by="acc-eve")
    headers, body = cloud.hook("OPS-1", secret=HOOK)
    for _ in range(2):
        answer = await working.client.post(f"/callbacks/{channel_id}", headers=headers, content=body)
        assert answer.status_code < 500
    (said,) = cloud.texts("OPS-1")
    assert "this move was not counted. To see why, open Review." in said
    assert (await stored(working, created["id"])).status == "waiting"


async def test_an_issue_created_for_one_breakpoint_cannot_decide_another(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attacker puts one breakpoint's label on another breakpoint's issue and waits for Ann to move that issue."""
    channel_id = await in_jira(working, cloud, monkeypatch)
    harmless, grave = await working.create(), await working.create()
    await until(cloud, lambda issues: len(issues) == 2)
    await in_state(working, harmless["id"], "sent")
    await in_state(working, grave["id"], "sent")
    keys = {issue.fields["labels"][1].removeprefix("bp-"): key for key, issue in cloud.issues.items()}
    lure = cloud.issues[keys[harmless["id"]]]
    lure.fields["labels"] = ["breakpoint", f"bp-{grave['id']}"]
    cloud.move(lure.key, "Approved", by="acc-ann")
    assert await hand_in(working, channel_id, cloud, lure.key) < 500
    assert (await stored(working, grave["id"])).status == "waiting"


async def test_a_lost_response_never_creates_a_second_issue(
    working: Node, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.drop()
    await in_jira(working, cloud, monkeypatch)
    created = await working.create()
    await until(cloud, lambda issues: "OPS-1" in issues)
    (waiting,) = await in_state(working, created["id"], "pending")
    assert "The request to 127.0.0.1 failed" in (waiting.last_error or "")
    assert waiting.next_at - waiting.updated_at >= 30_000_000
    assert len(cloud.issues) == 1
