"""Digests: messages that list several breakpoints, which can be answered in the digest and are updated when decided."""

import asyncio
from typing import Any

import pytest

from assent.core.access import Role
from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.channels.registry import KINDS
from assent.delivery.message import Purpose
from assent.people.usecases.people import PeopleService
from tests.db.making import stored
from tests.delivery.channels.notes import tools
from tests.delivery.channels.slack_kit import note as slack_note
from tests.delivery.channels.slack_kit import speaking
from tests.delivery.channels.test_slack_circle import ANN, in_slack
from tests.delivery.usecases.delegating import channel, route
from tests.support.mail import mail_server
from tests.support.nodes import Node
from tests.support.slack import FakeSlack, Message, faking_slack


def clicked(slack: FakeSlack, message: Message, block: dict[str, Any], label: str) -> dict[str, Any]:
    """Return the payload that Slack sends when an item's button is clicked, including the button's block."""
    [button] = [each for each in block["elements"] if each["text"]["text"] == label]
    payload = slack.clicked(ANN, message, label)
    payload["actions"][0] |= {key: button[key] for key in ("action_id", "value")} | {"block_id": block["block_id"]}
    return payload


def items(message: Message) -> list[dict[str, Any]]:
    """Return the action blocks of the items that can still be answered."""
    return [block for block in message.blocks if str(block.get("block_id", "")).startswith("digest-")]


async def test_digest_items_can_be_answered_in_slack_and_are_updated_when_decided(working: Node) -> None:
    async with faking_slack() as slack:
        await in_slack(working, slack, socket=True, paceMessages=1, paceSeconds=2)
        first = await working.create()
        alone = await slack.posted()
        ids = [(await working.create(payload={"question": f"Deploy {n}?"}))["id"] for n in range(2)]
        digest = await slack.posted()
        assert "Approve" in alone.buttons
        assert "2 approvals pending." in digest.shown
        assert [[each["text"]["text"] for each in block["elements"]] for block in items(digest)] == [
            ["Approve", "Reject…", "Review"]
        ] * 2
        await slack.push(clicked(slack, digest, items(digest)[0], "Approve"))
        await slack.until(lambda: len(items(digest)) == 1)
        ended = await stored(working, ids[0])
        assert ((ended.result or {})["respondedBy"], ended.decision) == ("ann", "approved")
        assert "Approved by ann (Slack)" in digest.shown
        await working.feedback(ids[1], await working.token("reviewer"), approved=False, comment="No.")
        await slack.until(lambda: items(digest) == [])
        assert "Rejected by" in digest.shown
        assert (await stored(working, first["id"])).status == "waiting"
        assert len(slack.messages) == 2


async def test_digest_items_decided_elsewhere_are_closed_in_the_email_thread(working: Node) -> None:
    def ann(tx: Transaction) -> None:
        roles = frozenset({Role.REVIEWER})
        working.assent[PeopleService].create_person(tx, "ann", project="default", roles=roles, email="ann@example.com")

    with mail_server() as mail:
        settings = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.com"}
        await channel(working, "mail", "email", **settings, paceMessages=1, paceSeconds=2)
        await working.assent.database.write(ann)
        await route(working, "mail", to=["person:ann"])
        ids = [(await working.create(payload={"question": f"Deploy {n}?"}))["id"] for n in range(3)]
        assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) == 2)
        digest = mail.letters[1]
        told = [each for each in ids if f"/breakpoints/{each}" in digest.text]
        assert len(told) == 2
        await working.feedback(told[0], await working.token("reviewer"), approved=True)
        assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) == 3)
        note = mail.letters[2]
        assert note.message["In-Reply-To"] == digest.message["Message-ID"]
        assert "Approved by" in note.text


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.pacing])
@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"paceMessages": 0}, "/settings/paceMessages"),
        ({"paceMessages": "10"}, "/settings/paceMessages"),
        ({"paceSeconds": 3601}, "/settings/paceSeconds"),
        ({"digest": False}, "/settings/digest"),
    ],
)
def test_out_of_range_pacing_settings_are_rejected(kind: str, settings: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest, match=place):
        KINDS[kind].make(settings, tools())


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.pacing is None])
def test_channels_that_notify_programs_have_no_pacing_settings(kind: str) -> None:
    with pytest.raises(InvalidRequest):
        KINDS[kind].make({"paceMessages": 10}, tools())


async def test_a_reminder_in_a_digest_thread_names_its_question() -> None:
    async with speaking() as (slack, channel):
        alone = await channel.send(slack_note())
        for more in ({}, {"digest": "dlv_1"}):
            thread = dict(alone.trace) | more
            await channel.send(slack_note(id=f"dl_{len(more)}", purpose=Purpose.REMIND, thread=thread))
        shown = [each.shown for each in slack.messages[1:]]
        assert ["Deploy to production" in each for each in shown] == [False, True]
