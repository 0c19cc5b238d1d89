"""End to end by email: notifications, replies, waiting agents, closed threads, and replies that do not count."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.people.usecases.people import PeopleService
from tests.db.making import stored
from tests.delivery.usecases.delegating import channel, in_state, route
from tests.support.mail import Letter, MailServer, mail_server
from tests.support.nodes import Node

BEARER = {"authorization": "Bearer mail-inbound-secret"}
PROOF = "mx.example.com; dmarc=pass header.from=example.com"


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


async def arrived(mail: MailServer, count: int) -> Letter:
    assert await asyncio.to_thread(mail.wait, lambda letters: len(letters) >= count)
    return mail.letters[count - 1]


async def by_mail(node: Node, mail: MailServer) -> str:
    settings = {"host": "127.0.0.1", "port": mail.port, "tls": "none", "from": "assent@example.com"}
    replies = {"replyDomain": "in.example.com", "replySecret": "env:MAIL_REPLY", "inboundSecret": "env:MAIL_INBOUND"}
    made = await channel(node, "mail", "email", **settings, **replies, authserv="mx.example.com")
    for name in ("ann", "bob"):
        await node.assent.database.write(_person(node, name))
    await route(node, "mail", to=["person:ann"])
    return made


def _person(node: Node, name: str) -> Any:
    def use_case(tx: Transaction) -> None:
        roles = frozenset({Role.REVIEWER})
        node.assent[PeopleService].create_person(tx, name, project="default", roles=roles, email=f"{name}@example.com")

    return use_case


def reply(letter: Letter, words: str, *, sender: str = "ann@example.com", proof: str = PROOF) -> bytes:
    lines = [
        f"Authentication-Results: {proof}",
        f"From: {sender}",
        f"To: {letter.message['Reply-To'] or 'assent@in.example.com'}",
        f"Message-ID: <{hash((words, sender, proof))}@example.com>",
    ]
    quoted = "\r\n".join(f"> {each}" for each in letter.text.splitlines())
    return ("\r\n".join(lines) + f"\r\n\r\n{words}\r\n\r\n{quoted}\r\n").encode()


async def hand_in(node: Node, channel_id: str, letter: bytes) -> int:
    return (await node.client.post(f"/callbacks/{channel_id}", headers=BEARER, content=letter)).status_code


async def test_an_approval_by_reply_releases_the_breakpoint_and_closes_the_thread(
    working: Node, mail: MailServer
) -> None:
    channel_id = await by_mail(working, mail)
    created = await working.create()
    first = await arrived(mail, 1)
    assert first.recipients == ("ann@example.com",)
    answer = reply(first, "Approve, well done.")
    assert await hand_in(working, channel_id, answer) < 300
    agent = await working.token("agent")
    whole = await working.call("GET", f"/api/breakpoints/{created['id']}?wait=30", agent)
    result = whole.json()["result"]
    assert (result["approved"], result["respondedBy"], result["via"]) == (True, "ann", "email")
    assert result["feedback"] == "well done."
    closing = await arrived(mail, 2)
    assert "Approved by ann (email)" in closing.text
    assert closing.message["In-Reply-To"] == first.message["Message-ID"]
    # A mail server sends the same email again if our response was lost.
    assert await hand_in(working, channel_id, answer) < 300
    assert (await stored(working, created["id"])).votes == 1
    found = await in_state(working, created["id"], "sent", "answered")
    assert [(each.purpose, each.state) for each in found] == [("ask", "answered"), ("close", "sent")]


async def test_a_decision_made_elsewhere_closes_the_thread(working: Node, mail: MailServer) -> None:
    await by_mail(working, mail)
    created = await working.create()
    first = await arrived(mail, 1)
    await working.feedback(created["id"], await working.token("reviewer"), approved=False, comment="No.")
    closing = await arrived(mail, 2)
    assert "Rejected by" in closing.text
    assert closing.message["References"] == first.message["Message-ID"]


@pytest.mark.parametrize(
    ("sender", "proof"),
    [
        ("bob@example.com", PROOF),
        ("eve@example.com", PROOF),
        ("ann@example.com", PROOF.replace("pass", "fail")),
        ("ann@evil.org", "mx.example.com; dmarc=pass header.from=evil.org"),
    ],
)
async def test_a_reply_from_another_sender_does_not_count_as_a_decision(
    working: Node, mail: MailServer, sender: str, proof: str
) -> None:
    channel_id = await by_mail(working, mail)
    created = await working.create()
    first = await arrived(mail, 1)
    assert await hand_in(working, channel_id, reply(first, "approve", sender=sender, proof=proof)) < 500
    assert (await stored(working, created["id"])).status == "waiting"


async def test_a_high_risk_breakpoint_cannot_be_decided_by_email(working: Node, mail: MailServer) -> None:
    channel_id = await by_mail(working, mail)
    plain = await working.create()
    usual = await arrived(mail, 1)
    risky = await working.create(payload={"question": "Drop it?", "risk": "high"})
    letter = await arrived(mail, 2)
    assert "Reply-To" not in letter.message
    assert await hand_in(working, channel_id, reply(letter, "approve")) < 500
    assert await hand_in(working, channel_id, reply(usual, "reject")) < 500
    told = await arrived(mail, 3)
    assert "Add a reason after “reject”" in told.text
    assert (await stored(working, risky["id"])).status == "waiting"
    assert (await stored(working, plain["id"])).status == "waiting"


async def test_an_email_deferred_by_the_server_is_retried(working: Node, mail: MailServer) -> None:
    mail.answer("451 Try again later")
    await by_mail(working, mail)
    created = await working.create()
    await arrived(mail, 1)
    found = await in_state(working, created["id"], "sent")
    assert [each.attempts for each in found] == [2]


@pytest.mark.parametrize("words", ["Reject: {}", "Approve. {}", "Please explain {}"])
async def test_an_overlong_reply_is_refused_with_a_notice_instead_of_being_truncated(
    working: Node, mail: MailServer, words: str
) -> None:
    channel_id = await by_mail(working, mail)
    created = await working.create()
    letter = reply(await arrived(mail, 1), words.format("x" * 20_001))
    assert await hand_in(working, channel_id, letter) < 300
    refusal = await arrived(mail, 2)
    assert "Your reply was not counted" in refusal.message["Subject"]
    assert "is longer than 20,000 characters" in refusal.text
    whole = (await working.call("GET", f"/api/breakpoints/{created['id']}", await working.token("agent"))).json()
    assert (whole["status"], whole["feedback"]) == ("waiting", [])
