"""Answers that must not count, and answers that must not be lost."""

from collections.abc import AsyncIterator
from dataclasses import replace
from email import message_from_string
from functools import partial

import pytest

from assent.core.strategies import Decision
from assent.db.transaction import Transaction
from assent.delivery.channels.email.reply import proven, verdict
from assent.delivery.channels.jira.channel import JiraChannel
from assent.delivery.channels.jira.reading import Meaning
from assent.delivery.store.channels import Channels
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.outbox import DeliveryService, Sent
from assent.delivery.usecases.replies import AnsweringService
from assent.kernel.settings import Settings
from tests.db.making import create, person, respond, stored
from tests.delivery.channels.jira.conftest import cloud
from tests.delivery.channels.jira.test_jira_circle import in_jira
from tests.delivery.channels.test_email_reply import hears, letter, secrets
from tests.delivery.usecases.delegating import EMAIL, channel, deliveries, kinds, route, settle, wishes
from tests.delivery.usecases.test_channel_answers import Desk, add_channel, desk, link
from tests.delivery.usecases.test_delegation_times import HOUR
from tests.support.jira import Jira
from tests.support.nodes import ManualClock, Node, running_node

__all__ = ["cloud", "desk", "secrets"]
ATTACHED = """\
--b
Content-Type: text/html; charset=utf-8

<p>Reject, see what they wrote to me.</p>
--b
Content-Type: message/rfc822
Content-Disposition: attachment; filename="their letter.eml"

From: mallory@evil.test
Content-Type: text/plain

approve
--b--
"""


def test_an_attached_email_is_not_the_senders_answer(secrets: None) -> None:
    del secrets
    heard = hears(letter(ATTACHED, content_type='multipart/mixed; boundary="b"'))
    assert heard.said["approved"] is not True, "an attached email from another person was counted as an approval"


def test_quoted_strings_in_authentication_results_are_not_trusted() -> None:
    forged = (
        'mx.example.com; spf=pass smtp.mailfrom="x; dmarc=pass header.from=example.com; x"@evil.test;'
        " dkim=none header.d=evil.test"
    )
    assert not proven(
        message_from_string(f"Authentication-Results: {forged}\n\n"), authserv="mx.example.com", domain="example.com"
    )


@pytest.mark.parametrize("how", ["disable", "remove"])
async def test_a_channel_that_has_since_been_disabled_or_removed_cannot_decide(desk: Desk, how: str) -> None:
    breakpoint_id, delivery_id = await desk.asked()

    def switch_off(tx: Transaction) -> None:
        if how == "disable":
            tx[Channels].disable(desk.channel.id, because="Its token leaked.", now=tx.now())
        else:
            tx[Channels].remove(desk.channel.id, now=tx.now())

    await desk.node.assent.database.write(switch_off)
    await desk.say(delivery_id=delivery_id, approved=True)
    assert await desk.open(breakpoint_id), "listeners and workers keep using the channel as it was"


async def test_removing_the_answers_as_setting_takes_effect_immediately(desk: Desk) -> None:
    hook = await add_channel(desk.node, "hook", "webhook", settings={"answersAs": "ann"})
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=hook)

    def take_it_back(tx: Transaction) -> None:
        tx[Channels].save(replace(hook, settings={}), now=tx.now())

    await desk.node.assent.database.write(take_it_back)
    await desk.say(on=hook, delivery_id=delivery_id, approved=True)
    assert await desk.open(breakpoint_id), "an inline answer counts for up to 25 seconds after answersAs was removed"


async def test_a_click_from_an_ineligible_admin_is_not_an_override(desk: Desk) -> None:
    admin = await person(desk.node, "adm", "admin")
    await person(desk.node, "bob", "reviewer")
    await link(desk.node, desk.channel, "T1:adm", admin)
    breakpoint_id, delivery_id = await desk.asked({"expert": ["ann", "bob"], "strategy": "collect-all"})
    await desk.say(identity="T1:adm", delivery_id=delivery_id, approved=True)
    assert await desk.open(breakpoint_id), "one click in a room replaced the answers of two experts"


async def test_the_deputy_of_an_escalation_recipient_can_answer(node: Node, clock: ManualClock) -> None:
    _, bob, eve = [await person(node, name, "reviewer") for name in ("ann", "bob", "eve")]
    await channel(node, "room", "email", **EMAIL, addresses=["ops@example.test"])
    await route(node, "room", escalate=[{"after": "1h", "to": ["person:bob"]}])
    await wishes(node, bob.id, away={"deputy": "eve"})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    await settle(node)
    assert "delegated" in await kinds(node, breakpoint_id)
    await respond(node, breakpoint_id, eve)
    assert (await stored(node, breakpoint_id)).decision is Decision.APPROVED


async def test_a_digest_that_repeatedly_crashes_workers_is_not_retried_forever(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    mail = await channel(node, "email")
    await channel(node, "hook", "webhook")
    await route(node, "email", fallback=["hook"])
    for _ in range(5):
        last = await create(node, {"expert": "ann"})
    await settle(node)
    service, deaths = node.assent[DeliveryService], 0
    for _ in range(30):
        clock.advance(200)
        taken = await node.assent.database.write(lambda tx: service.claim_digest(tx, mail, "person:ann"))
        deaths += taken is not None
    assert deaths < 30, "it is retried forever and never falls back"
    del last


async def test_a_fallback_question_for_an_ended_breakpoint_is_never_left_open(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "email")
    hook = await channel(node, "hook", "webhook")
    await route(node, "email", fallback=["hook"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    service = node.assent[DeliveryService]
    claim = await node.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="w"))
    assert claim is not None
    await respond(node, breakpoint_id, ann)
    await settle(node)
    dead = partial(service.record, claim=claim, sent=Sent(550, "No.", 1, final=True), jitter=0)
    await node.assent.database.write(dead)
    found = [each for each in await deliveries(node, breakpoint_id) if each.channel == hook]
    assert [each.purpose for each in found] in ([], ["ask", "close"]), (
        "the fallback was asked but never told of the end"
    )


@pytest.fixture
async def near(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, clock=clock) as node:
        yield node


async def test_a_jira_answer_counts_even_if_the_sending_worker_crashed(
    near: Node, clock: ManualClock, cloud: Jira, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel_id = await in_jira(near, cloud, monkeypatch)
    service = near.assent[DeliveryService]
    breakpoint_id = await create(near)
    [asked] = await deliveries(near, breakpoint_id)
    stored_channel = await near.assent.database.read(lambda tx: tx[Channels].get(channel_id))
    jira = JiraChannel(stored_channel.settings, near.assent[Switchboard]._tools)
    take = partial(near.assent[AnsweringService].take, stored_channel)
    claim = await near.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="w"))
    assert claim is not None
    assert claim.note is not None
    await jira.send(claim.note)
    cloud.move("OPS-1", "Approved", by="acc-ann")
    await jira.look(take)
    clock.advance(90)
    again = await near.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="v"))
    assert again is not None
    assert again.note is not None
    posted = await jira.send(again.note)
    sent = Sent(200, None, 1, trace=posted.trace)
    await near.assent.database.write(partial(service.record, claim=again, sent=sent, jitter=0))
    await jira.look(take)
    assert (await stored(near, breakpoint_id)).decision == "approved", "Ann moved the issue and it is never polled"


@pytest.mark.parametrize(
    "said",
    [
        "Approve this? I would not.",
        "Approve only once legal has signed.",
        "LGTM apart from the migration, do not run it.",
        "Approved by whom? Not by me.",
    ],
)
def test_a_sentence_that_starts_with_a_verdict_is_not_an_approval(said: str) -> None:
    assert verdict(said)[0] is not True
    issue = {"key": "OPS-1", "fields": {"labels": ["breakpoint", "bp-1"], "summary": "x"}}
    comment = {"id": "1", "author": {"accountId": "u1"}, "body": said}
    heard = Meaning({}, {}, words=True).read({"issue": issue, "comment": comment}, "f", me=None)
    assert heard is None or heard.said["approved"] is not True
