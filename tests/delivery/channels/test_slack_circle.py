"""End to end in Slack: notifications, answers, waiting agents, closed messages, and answers that do not count."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.delivery.store.links import Links
from assent.people.store.projects import Projects
from tests.db.making import person, stored
from tests.delivery.usecases.delegating import channel, in_state, route
from tests.support.nodes import Node
from tests.support.slack import TEAM, FakeSlack, faking_slack

ANN, STRANGER = "U0ANN", "U0NOBODY"


async def in_slack(node: Node, slack: FakeSlack, *, socket: bool, **more: Any) -> str:
    settings = {"token": "env:SLACK_TOKEN", "room": "C0ROOM", "apiUrl": slack.url} | more
    settings |= {"appToken": "env:SLACK_APP"} if socket else {"signingSecret": "env:SLACK_SIGNING"}
    made = await channel(node, "slack", **settings)
    await route(node, "slack")
    ann = await person(node, "ann", "reviewer")
    await node.assent.database.write(
        lambda tx: tx[Links].link(made, f"{TEAM}:{ANN}", person_id=ann.id, by="test", now=tx.now())
    )
    if socket:
        await slack.until(lambda: slack.connected > 0)
    return made


async def say(node: Node, slack: FakeSlack, channel_id: str, payload: dict[str, Any], *, socket: bool) -> Any:
    """Send a payload as Slack does, over the socket or HTTP, and return the payload of the response."""
    if socket:
        return (await slack.push(payload)).get("payload")
    headers, body = slack.signed(payload)
    answer = await node.client.post(f"/callbacks/{channel_id}", headers=headers, content=body)
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.content else None


async def waited(node: Node, breakpoint_id: str) -> dict[str, Any]:
    """Wait as an agent does, and return the result."""
    agent = await node.token("agent")
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/status?wait=30", agent)
    assert answer.json()["status"] == "released"
    whole = await node.call("GET", f"/api/breakpoints/{breakpoint_id}", agent)
    result: dict[str, Any] = whole.json()["result"]
    return result


@pytest.mark.parametrize("socket", [True, False], ids=["socket", "http"])
async def test_a_button_approval_releases_the_breakpoint_and_closes_the_message(working: Node, socket: bool) -> None:  # noqa: FBT001  # one of two transports
    async with faking_slack() as slack:
        channel_id = await in_slack(working, slack, socket=socket)
        created = await working.create()
        waiting = asyncio.create_task(waited(working, created["id"]))
        message = await slack.posted()
        click = slack.clicked(ANN, message, "Approve")
        await say(working, slack, channel_id, click, socket=socket)
        result = await waiting
        assert (result["approved"], result["respondedBy"], result["via"]) == (True, "ann", "slack")
        await slack.until(lambda: len(slack.updates) > 0)
        assert message.buttons == {}
        assert "pproved by ann" in message.shown
        # Slack sends the same click again if our response was lost.
        await say(working, slack, channel_id, click, socket=socket)
        found = await in_state(working, created["id"], "sent", "answered")
        assert [(each.purpose, each.state) for each in found] == [("ask", "answered"), ("close", "sent")]
        assert (await stored(working, created["id"])).votes == 1


@pytest.mark.parametrize("socket", [True, False], ids=["socket", "http"])
async def test_a_rejection_with_a_reason_is_submitted_in_a_form(working: Node, socket: bool) -> None:  # noqa: FBT001  # one of two transports
    async with faking_slack() as slack:
        channel_id = await in_slack(working, slack, socket=socket)
        created = await working.create()
        message = await slack.posted()
        label = next(each for each in message.buttons if each.startswith("Reject"))
        await say(working, slack, channel_id, slack.clicked(ANN, message, label), socket=socket)
        view = await slack.opened()
        submission = slack.submitted(ANN, view, {"comment": "Not on a Friday."})
        await say(working, slack, channel_id, submission, socket=socket)
        result = await waited(working, created["id"])
        assert (result["approved"], result["feedback"]) == (False, "Not on a Friday.")


def demand_tickets(tags: list[str]) -> Callable[[Transaction], None]:
    def use_case(tx: Transaction) -> None:
        project = tx[Projects].get("default")
        tx[Projects].save(replace(project, policy={**project.policy, "ticketTags": tags}))

    return use_case


async def test_an_approval_without_its_ticket_keeps_its_text_and_can_be_resubmitted(working: Node) -> None:
    async with faking_slack() as slack:
        channel_id = await in_slack(working, slack, socket=False)
        await working.assent.database.write(demand_tickets(["audit"]))
        created = await working.create(tags=["audit"], payload={"question": "Deploy?", "options": ["eu", "us"]})
        message = await slack.posted()
        await say(working, slack, channel_id, slack.clicked(ANN, message, "Approve…"), socket=False)
        view = await slack.opened()
        submission = slack.submitted(ANN, view, {"option": "eu", "comment": "Checked by hand."})
        reply = await say(working, slack, channel_id, submission, socket=False)
        assert reply["response_action"] == "errors"
        assert "ticket" in reply["errors"]["comment"]
        assert (await stored(working, created["id"])).status == "waiting"
        await working.assent.database.write(demand_tickets([]))
        await say(working, slack, channel_id, submission, socket=False)
        result = await waited(working, created["id"])
        assert (result["approved"], result["feedback"]) == (True, "Checked by hand.")


async def test_a_decision_made_elsewhere_closes_the_message(working: Node) -> None:
    async with faking_slack() as slack:
        await in_slack(working, slack, socket=True)
        created = await working.create()
        message = await slack.posted()
        await working.feedback(created["id"], await working.token("reviewer"), approved=False, comment="No.")
        await slack.until(lambda: len(slack.updates) > 0)
        assert message.buttons == {}
        assert "ejected" in message.shown


async def test_unlinked_and_late_answers_get_private_replies(working: Node) -> None:
    async with faking_slack() as slack:
        await in_slack(working, slack, socket=True)
        created = await working.create()
        message = await slack.posted()
        late = slack.clicked(ANN, message, "Approve")
        await slack.push(slack.clicked(STRANGER, message, "Approve"))
        whisper = await slack.whispered()
        assert (whisper["user"], "/link/" in str(whisper)) == (STRANGER, True)
        assert (await stored(working, created["id"])).status == "waiting"
        await working.feedback(created["id"], await working.token("reviewer"), approved=False, comment="No.")
        await slack.push(late)
        whisper = await slack.whispered()
        assert whisper["user"] == ANN
        assert "reject" in str(whisper).lower()
        assert (await stored(working, created["id"])).decision == "rejected"


async def test_a_high_risk_breakpoint_cannot_be_decided_in_slack(working: Node) -> None:
    async with faking_slack() as slack:
        channel_id = await in_slack(working, slack, socket=False)
        ordinary = await working.create()
        usual = await slack.posted()
        risky = await working.create(payload={"question": "Drop it?", "risk": "high"})
        message = await slack.posted()
        assert list(message.buttons) == ["Review"]
        # A correctly signed click on a button that the message does not have.
        forged = slack.clicked(ANN, usual, "Approve")
        forged["actions"][0]["value"] = message.delivery_id
        await say(working, slack, channel_id, forged, socket=False)
        assert "This breakpoint is high risk" in str(await slack.whispered())
        assert (await stored(working, risky["id"])).status == "waiting"
        assert (await stored(working, ordinary["id"])).status == "waiting"
