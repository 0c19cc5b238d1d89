"""Deactivated people, people with several roles in one breakpoint, missing workers, and crashes."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.verify import AuditService
from assent.db.transaction import Transaction
from assent.delivery.channels.jira.reading import Meaning
from assent.delivery.channels.tools import Tools
from assent.delivery.message import Note
from assent.delivery.ports import Channel, Posted
from assent.delivery.store.channels import StoredChannel
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.outbox import DeliveryService, Sent
from assent.delivery.usecases.sender import Courier
from assent.kernel.outbound import Outbound
from assent.kernel.ports import Incoming
from tests.db.making import create, person, respond
from tests.delivery.usecases.delegating import EMAIL, channel, deliveries, route, settle, told, wishes
from tests.delivery.usecases.test_delegation_times import HOUR, MINUTE, NIGHT, attempt
from tests.support.nodes import ManualClock, Node


async def shut_out(node: Node, name: str) -> None:
    def use_case(tx: Transaction) -> None:
        tx.session.write("UPDATE assent_people SET active = 0 WHERE name = :name", [{"name": name}])

    await node.assent.database.write(use_case)


async def test_a_deactivated_person_gets_no_reminder(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email", remind=["30m"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked)
    await shut_out(node, "ann")
    clock.advance(30 * MINUTE)
    assert [each[2] for each in await told(node, breakpoint_id)] == ["ask"]


async def test_a_deactivated_person_gets_no_delayed_notification(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, quiet=NIGHT)
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await shut_out(node, "ann")
    clock.advance(12 * HOUR)
    claim = await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, asked.line, worker="w"))
    assert claim is None, "a deactivated person must not see the question"


async def test_a_deputy_who_is_also_an_expert_does_not_replace_another_expert(node: Node) -> None:
    ann, bob = [await person(node, name, "reviewer") for name in ("ann", "bob")]
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "bob"})
    breakpoint_id = await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all"})
    await settle(node)
    await respond(node, breakpoint_id, bob)
    assert "person:ann" in [each[1] for each in await told(node, breakpoint_id)], (
        "only bob is asked, who cannot answer for ann"
    )


async def test_a_closing_note_states_whether_its_recipient_still_has_access(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    bob = await person(node, "bob", "reviewer")
    await channel(node, "slack", token="env:SLACK_TOKEN", signingSecret="env:SLACK_SIGNING")
    await route(node, "slack", to=["person:ann"])
    told_of, other = await create(node), await create(node)
    for breakpoint_id in (told_of, other):
        [asked] = await deliveries(node, breakpoint_id)
        await attempt(node, asked, error="Slack did not answer in time.", trace=None)
    seen: list[bool] = []
    for breakpoint_id in (told_of, other):
        await respond(node, breakpoint_id, bob)
        clock.advance(MINUTE)
        closing = (await deliveries(node, breakpoint_id))[-1]
        claim = await node.assent.database.write(
            partial(node.assent[DeliveryService].claim, line=closing.line, worker="w")
        )
        assert claim is not None
        assert claim.note is not None
        seen.append(claim.note.may_be_told)
        await shut_out(node, "ann")
    assert seen == [True, False]


@pytest.mark.parametrize(("unsent", "state"), [(True, "superseded"), (False, "sending")])
async def test_a_closing_message_is_sent_only_if_the_question_may_have_arrived(
    node: Node, clock: ManualClock, *, unsent: bool, state: str
) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email", to=["person:ann"])
    breakpoint_id = await create(node)
    [asked] = await deliveries(node, breakpoint_id)
    for _ in range(2):
        await attempt(node, asked, error="There is no connection.", trace=None, unsent=unsent)
        clock.advance(MINUTE)
    await respond(node, breakpoint_id, ann)
    await settle(node)
    claim = await node.assent.database.write(partial(node.assent[DeliveryService].claim, line=asked.line, worker="w"))
    assert (claim is None) is unsent
    [closing] = [each for each in await deliveries(node, breakpoint_id) if each.purpose == "close"]
    assert closing.state == state


async def test_a_deactivated_person_gets_no_digest(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "email", **EMAIL, paceMessages=1, paceSeconds=30)
    await route(node, "email", to=["person:ann"])
    for _ in range(4):
        await create(node)
    held = [each for each in await deliveries(node) if each.digested]
    await shut_out(node, "ann")
    clock.advance(30)
    digest = partial(node.assent[DeliveryService].claim_digest, channel=held[0].channel, recipient=held[0].recipient)
    assert await node.assent.database.write(digest) is None
    assert {each.state for each in await deliveries(node) if each.digested} == {"superseded"}


async def test_delivery_jobs_do_not_accumulate_while_no_worker_runs(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email")
    await create(node, {"expert": "ann"})
    await settle(node)

    before = await node.assent.database.read(waiting)
    for _ in range(10):
        clock.advance(2 * MINUTE)
        await node.assent.database.write(node.assent[DeliveryService].heal)
    assert await node.assent.database.read(waiting) - before <= 1, "each run of heal adds another job"


def waiting(tx: Transaction) -> int:
    table = "dbos.workflow_status" if tx.session.dialect == "postgresql" else "workflow_status"
    test = "status IN ('ENQUEUED', 'DELAYED') AND workflow_uuid LIKE 'deliver:%'"
    return int(tx.session.all(f"SELECT count(*) FROM {table} WHERE {test}", {})[0][0])


async def test_a_failed_resend_of_a_delivered_question_does_not_use_the_fallback(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "email")
    await channel(node, "hook", "webhook")
    await route(node, "hook", fallback=["email"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked)
    admin = replace(ann, roles=(await person(node, "adm", "admin")).roles)
    await node.assent.database.write(partial(node.assent[DeliveryService].retry, delivery_id=asked.id, by=admin))
    await attempt(node, asked, error="Gone.", final=True, trace=None)
    assert [each[0] for each in await told(node, breakpoint_id)] == ["hook"]


def test_only_the_latest_comment_before_a_poll_counts() -> None:
    by = {"accountId": "u1"}
    issue: dict[str, Any] = {"key": "OPS-1", "fields": {"labels": ["breakpoint", "bp-1"], "summary": "x"}}
    comments: list[dict[str, Any]] = [
        {"id": "2", "author": by, "body": "reject: I read it again, no."},
        {"id": "1", "author": by, "body": "approve"},
    ]
    meaning = Meaning({}, {}, words=True)
    heard = [meaning.read(each, "f", me=None) for each in meaning.found(issue, [], comments)]
    assert [each.said["approved"] for each in heard if each is not None] == [False]


async def test_audits_accept_deputies_escalations_digests_and_closing_messages(node: Node, clock: ManualClock) -> None:
    ann, bob, eve = [await person(node, name, "reviewer") for name in ("ann", "bob", "eve")]
    await channel(node, "email")
    await channel(node, "room", "email", **EMAIL, addresses=["ops@example.test"])
    await route(node, "email", "room", remind=["10m"], escalate=[{"after": "1h", "to": ["person:bob"]}])
    await wishes(node, ann.id, away={"deputy": "eve"})
    ids = [await create(node, {"expert": "ann"}) for _ in range(8)]
    await settle(node)
    await respond(node, ids[0], eve)
    clock.advance(HOUR)
    await settle(node)
    await respond(node, ids[1], bob)
    await respond(node, ids[2], ann, approved=False, comment="No.")
    await settle(node)
    assert [str(each) for check in await node.assent[AuditService].check() for each in check.findings] == []


class Answering:
    """A receiver that answers inline."""

    async def send(self, note: Note) -> Posted:
        return Posted({"id": note.id}, 200, Incoming({}, b"approved", note.at))


class Board(Switchboard):
    def channel(self, stored: StoredChannel) -> Channel:
        del stored
        return Answering()  # type: ignore[return-value]


async def test_an_inline_answer_is_not_lost_in_a_crash(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "hook", "webhook")
    await route(node, "hook")
    [asked] = await deliveries(node, await create(node))
    heard: list[Incoming] = []

    async def power_cut(stored: StoredChannel, said: Incoming) -> None:
        del stored, said
        raise SystemError

    async def hear(stored: StoredChannel, said: Incoming) -> None:
        del stored
        heard.append(said)

    courier = Courier(
        node.assent.database,
        node.assent[DeliveryService],
        Outbound(),
        switchboard=Board(Tools(Outbound(), str, clock.now, bytes, "")),
        worker="w",
        metrics=node.assent.metrics,
    )
    courier.on_said = power_cut
    with pytest.raises(SystemError):
        await courier.deliver(asked.line)
    clock.advance(2 * MINUTE)
    courier.on_said = hear
    await courier.deliver(asked.line)
    assert heard, "the inline answer was lost"


async def test_retries_of_a_failing_webhook_eventually_stop(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "hook", "webhook")
    await route(node, "hook")
    breakpoint_id = await create(node)
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, error="500", trace=None)
    await respond(node, breakpoint_id, ann)
    await settle(node)
    service = node.assent[DeliveryService]
    for _ in range(24 * 10):
        clock.advance(2 * HOUR)
        claim = await node.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="w"))
        if claim is None:
            break
        failed = partial(service.record, claim=claim, sent=Sent(500, "500", 1), jitter=0)
        await node.assent.database.write(failed)
    states = {each.state for each in await deliveries(node, breakpoint_id)}
    assert states <= {"dead", "superseded"}, "it is still retried twenty days after the end"


async def test_a_webhook_gets_the_question_and_outcome_of_an_already_ended_breakpoint(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    await channel(node, "hook", "webhook")
    await route(node, "hook")
    breakpoint_id = await create(node)
    await settle(node)
    await respond(node, breakpoint_id, ann)
    found = await told(node, breakpoint_id)
    assert ("hook", "place", "close", "pending") in found, f"neither the question nor the end was sent: {found}"
