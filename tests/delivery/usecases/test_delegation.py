"""Routes: notifications, reminders, escalations, deputies, timeouts and closing."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal, Role
from assent.core.breakpoint import NEVER, Status
from assent.core.errors import AlreadyEnded, NotEligible, TicketRequired
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.store.notification_state import Routings
from assent.delivery.store.routes import Routes
from assent.delivery.usecases.outbox import DeliveryService
from assent.delivery.usecases.routes import RouteService
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from assent.policy.store.rules import Rules
from assent.triggers.usecases.remove_projects import ProjectService
from tests.db.making import AGENT, adding, create, person, respond, rows, stored
from tests.delivery.usecases.delegating import EMAIL, channel, deliveries, kinds, route, settle, told, wishes
from tests.policy.usecases.test_receipts import ADMIN
from tests.support.nodes import ManualClock, Node, running_node

MINUTE, HOUR = 60, 3600
MOST = 10
"""The default rate limit: emails per minute to one recipient."""


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


@pytest.fixture
async def bob(node: Node) -> Principal:
    return await person(node, "bob", "reviewer")


async def findings(node: Node) -> list[str]:
    return [str(each) for check in await node.assent[AuditService].check() for each in check.findings]


async def test_no_notifications_are_planned_without_channels(node: Node) -> None:
    await create(node)
    assert await rows(node, "SELECT 1 FROM assent_routings") == []


async def test_no_notifications_are_sent_without_a_matching_route(node: Node) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="deploy.*")
    breakpoint_id = await create(node, {"breakpointId": "pay.now"})
    assert await told(node, breakpoint_id) == []
    assert await rows(node, "SELECT next_at FROM assent_routings") == [(None,)]


async def test_each_expert_is_notified_individually_and_a_webhook_only_once(
    node: Node, ann: Principal, bob: Principal
) -> None:
    del ann, bob
    await channel(node, "email")
    await channel(node, "hook", "webhook")
    await route(node, "email", "hook")
    breakpoint_id = await create(node, {"expert": ["ann", "bob"]})
    assert sorted(await told(node, breakpoint_id)) == [
        ("email", "person:ann", "ask", "pending"),
        ("email", "person:bob", "ask", "pending"),
        ("hook", "place", "ask", "pending"),
    ]


async def test_the_first_matching_route_applies_and_later_changes_do_not_affect_it(node: Node, ann: Principal) -> None:
    del ann
    await channel(node, "email")
    await channel(node, "hook", "webhook")
    first = await route(node, "email", pattern="deploy.*", to=["person:ann"], remind=["10m"])
    await route(node, "hook")
    breakpoint_id = await create(node, {"breakpointId": "deploy.api"})
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "pending")]

    def drop(tx: Transaction) -> None:
        tx[Routes].remove(first, project="default")

    await node.assent.database.write(drop)
    kept = await rows(node, "SELECT route_id, done FROM assent_routings")
    assert kept == [(first, 1)]


async def test_only_experts_who_have_not_answered_are_reminded(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del bob
    await channel(node, "email")
    await route(node, "email", remind=["30m", "2h"])
    breakpoint_id = await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all"})
    await settle(node)
    await respond(node, breakpoint_id, ann)
    clock.advance(30 * MINUTE)
    assert [each for each in await told(node, breakpoint_id) if each[2] == "remind"] == [
        ("email", "person:bob", "remind", "pending")
    ]
    assert await kinds(node, breakpoint_id) == ["created", "responded", "reminded"]
    clock.advance(2 * HOUR)
    await settle(node)
    assert (await kinds(node, breakpoint_id))[3:] == ["reminded"]
    assert await rows(node, "SELECT next_at FROM assent_routings") == [(None,)]
    assert await findings(node) == []


async def test_only_the_last_missed_reminder_is_sent(node: Node, clock: ManualClock, ann: Principal) -> None:
    del ann
    await channel(node, "email")
    await route(node, "email", remind=["10m", "20m", "30m"])
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    await settle(node)
    events = await node.assent[InboxService].history(breakpoint_id)
    assert [(each.type, each.metadata.get("n")) for each in events[1:]] == [("reminded", 3)]


async def test_an_escalation_recipient_can_answer_for_the_expert(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del ann
    await channel(node, "email")
    await route(node, "email", escalate=[{"after": "1h", "to": ["person:bob"]}])
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    with pytest.raises(NotEligible):
        await respond(node, breakpoint_id, bob)
    clock.advance(HOUR)
    assert (await told(node, breakpoint_id))[-1] == ("email", "person:bob", "escalate", "pending")
    events = await node.assent[InboxService].history(breakpoint_id)
    assert [(each.type, str(each.actor), dict(each.metadata)) for each in events[1:]] == [
        ("escalated", "system:route", {"level": 1, "to": ["bob"]})
    ]
    await respond(node, breakpoint_id, bob)
    ended = await stored(node, breakpoint_id)
    assert (ended.decision, ended.result and ended.result["allResponses"][0]["inPlaceOf"]) == (
        Decision.APPROVED,
        ["ann"],
    )
    assert await findings(node) == []


async def test_a_route_can_have_several_escalation_levels(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del ann, bob
    await person(node, "eve", "reviewer")
    await channel(node, "email")
    levels = [{"after": "1h", "to": ["person:bob"]}, {"after": "2h", "to": ["person:eve"]}]
    await route(node, "email", to=["person:ann"], escalate=levels)
    breakpoint_id = await create(node)
    for wanted in (["bob"], ["bob", "eve"]):
        await settle(node)
        clock.advance(HOUR)
        asked = [each[1].removeprefix("person:") for each in await told(node, breakpoint_id) if each[2] == "escalate"]
        assert asked == wanted


@pytest.mark.parametrize("then", ["expire", "reject"])
async def test_a_route_can_end_a_breakpoint_but_never_approve_it(
    node: Node, clock: ManualClock, ann: Principal, then: str
) -> None:
    await channel(node, "email")
    await route(node, "email", timeout={"after": "4h", "then": then})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    waiting = await stored(node, breakpoint_id)
    assert waiting.due_at - waiting.created_at == 4 * HOUR * SECOND
    clock.advance(4 * HOUR)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    ended = await stored(node, breakpoint_id)
    assert str(ended.ended_by) == "system:timeout"
    assert ended.result is not None
    assert ended.result["approved"] is False
    expected = (Status.EXPIRED, None) if then == "expire" else (Status.RELEASED, Decision.REJECTED)
    assert (ended.status, ended.decision) == expected
    with pytest.raises(AlreadyEnded):
        await respond(node, breakpoint_id, ann)
    assert await findings(node) == []


async def test_a_routes_timeout_applies_only_if_the_agent_set_no_deadline(node: Node) -> None:
    await channel(node, "email")
    await route(node, "email", timeout={"after": "1h", "then": "reject"})
    breakpoint_id = await create(node, ttlSeconds=4 * HOUR)
    created = await stored(node, breakpoint_id)
    assert (created.due_at - created.created_at, created.on_timeout) == (4 * HOUR * SECOND, "expire")


async def test_removing_a_route_does_not_change_existing_deadlines(node: Node) -> None:
    await channel(node, "email")
    made = await route(node, "email", timeout={"after": "1h", "then": "reject"})
    before = await stored(node, await create(node))
    await node.assent.database.write(lambda tx: tx[Routes].remove(made, project="default"))
    after = await stored(node, await create(node))
    assert (before.due_at - before.created_at, after.due_at) == (HOUR * SECOND, NEVER)


async def test_the_timeout_comes_from_the_first_matching_route(node: Node) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="calm.*")
    await route(node, "email", timeout={"after": "1h", "then": "expire"})
    calm = await stored(node, await create(node, {"breakpointId": "calm.deploy"}))
    other = await stored(node, await create(node))
    assert (calm.due_at, other.due_at - other.created_at) == (NEVER, HOUR * SECOND)


async def test_an_unreadable_route_is_ignored_when_a_breakpoint_is_created(node: Node) -> None:
    await channel(node, "email")
    made = await route(node, "email", timeout={"after": "1h", "then": "expire"})

    def damage(tx: Transaction) -> None:
        tx.session.change("UPDATE assent_routes SET content = '{\"pattern\": 1}' WHERE id = :id", {"id": made})
        tx[Rules].turn_page("default")

    await node.assent.database.write(damage)
    assert (await stored(node, await create(node))).due_at == NEVER


@pytest.mark.parametrize("then", ["expire", "reject"])
async def test_a_timeout_stored_by_an_earlier_release_ends_the_breakpoint_and_closes_messages(
    node: Node, clock: ManualClock, ann: Principal, then: str
) -> None:
    del ann
    hook = await channel(node, "hook", "webhook")
    await route(node, "hook")
    breakpoint_id = await create(node)
    await settle(node)

    def as_earlier_releases_kept_it(tx: Transaction) -> None:
        kept = tx[Routings].find(breakpoint_id)
        assert kept is not None
        route = msgspec.json.decode(kept.route or "") | {"timeout": {"after": "4h", "then": then}}
        tx[Routings].save(replace(kept, route=msgspec.json.encode(route).decode(), next_at=tx.now()))

    await node.assent.database.write(as_earlier_releases_kept_it)
    await settle(node)
    clock.advance(4 * HOUR)
    await settle(node)
    assert str((await stored(node, breakpoint_id)).ended_by) == "system:timeout"
    found = await deliveries(node, breakpoint_id)
    assert [(each.channel, each.purpose) for each in found] == [(hook, "ask"), (hook, "close")]
    assert await findings(node) == []


async def test_unsent_messages_are_superseded_when_the_breakpoint_ends(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    await respond(node, breakpoint_id, ann)
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "superseded")]


async def test_a_deputy_is_notified_and_can_answer_for_an_absent_expert(
    node: Node, ann: Principal, bob: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "bob"})
    breakpoint_id = await create(node, {"expert": "ann"})
    assert await told(node, breakpoint_id) == [("email", "person:bob", "ask", "pending")]
    events = await node.assent[InboxService].history(breakpoint_id)
    assert [(each.type, dict(each.metadata)) for each in events[1:]] == [("delegated", {"from": "ann", "to": "bob"})]
    await respond(node, breakpoint_id, bob)
    assert (await stored(node, breakpoint_id)).decision is Decision.APPROVED
    assert await findings(node) == []


async def test_an_escalation_to_an_absent_person_records_the_deputy(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del ann
    await person(node, "cid", "reviewer")
    await channel(node, "email")
    await route(node, "email", escalate=[{"after": "1h", "to": ["person:bob"]}])
    await wishes(node, bob.id, away={"deputy": "cid"})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    await settle(node)
    [(deputies,)] = await rows(node, "SELECT deputies FROM assent_routings")
    assert msgspec.json.decode(deputies) == [["cid", "bob"], ["bob", None], ["cid", None]]
    assert (await kinds(node, breakpoint_id))[1:] == ["delegated", "escalated"]
    assert await findings(node) == []


async def test_audits_accept_deputies_of_deputies_and_changed_routes(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    cid = await person(node, "cid", "reviewer")
    await channel(node, "email")
    levels = [{"after": "1h", "to": ["person:bob"]}, {"after": "2h", "to": ["person:ann", "person:cid"]}]
    first = await route(node, "email", pattern="a.*", escalate=levels)
    await wishes(node, ann.id, away={"deputy": "bob"})
    await wishes(node, bob.id, away={"deputy": "cid"})

    async def later(changes: dict[str, Any]) -> None:
        """Create a breakpoint before and after changing the route, and let escalations become due."""
        await create(node, {"expert": "ann", "breakpointId": "a.b"})
        clock.advance(HOUR)
        await settle(node)
        await node.assent.database.write(
            partial(node.assent[RouteService].change, route_id=first, changes=changes, by=ADMIN)
        )
        await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all", "breakpointId": "b.c"})
        clock.advance(3 * HOUR)
        await settle(node)

    await later({"pattern": "b.*"})
    await wishes(node, ann.id)
    await later({"enabled": False})
    await wishes(node, cid.id, away={"deputy": "ann"})
    await later({"enabled": True, "pattern": "*", "escalate": levels[:1]})
    await node.assent.database.write(lambda tx: tx[Routes].remove(first, project="default"))
    await route(node, "email", escalate=levels[1:])
    await create(node, {"expert": "cid"})
    clock.advance(3 * HOUR)
    await settle(node)
    events = await rows(node, "SELECT DISTINCT type FROM assent_events WHERE type IN ('delegated', 'escalated')")
    assert len(events) == 2
    assert await findings(node) == []


async def test_audits_accept_deputies_in_a_removed_project(node: Node, clock: ManualClock, ann: Principal) -> None:
    def open_shop(tx: Transaction) -> None:
        tx[Projects].add(Project("shop", "Shop", None, {}, tx.now()))
        tx[People].grant(ann.id, "shop", {Role.REVIEWER})

    await node.assent.database.write(open_shop)
    await person(node, "sue", "reviewer", project="shop")
    await channel(node, "email", in_project="shop")
    await route(node, "email", project="shop", escalate=[{"after": "1h", "to": ["person:ann"]}])
    await wishes(node, ann.id, away={"deputy": "sue"})
    breakpoint_id = await create(node, {"expert": "ann"}, by=replace(AGENT, project="shop"))
    await settle(node)
    clock.advance(HOUR)
    await settle(node)
    by = replace(ADMIN, project="shop")
    await node.assent.database.write(lambda tx: node.assent[ProjectService].remove(tx, "shop", by=by))
    await node.assent[ProjectService].close_now(node.assent.database)
    assert (await kinds(node, breakpoint_id))[1:] == ["delegated", "delegated", "escalated", "cancelled"]
    assert await findings(node) == []


async def test_a_deputy_who_is_not_a_reviewer_is_not_notified(node: Node, ann: Principal) -> None:
    await person(node, "vic", "viewer")
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "vic"})
    breakpoint_id = await create(node, {"expert": "ann"})
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "pending")]


async def test_quiet_hours_delay_notifications_unless_the_route_disables_them(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="loud.*", quiet=False)
    await route(node, "email")
    # The clock in these tests starts at 08:00 UTC.
    await wishes(node, ann.id, quiet={"from": "07:00", "to": "09:30", "timezone": "UTC"})
    quiet, loud = await create(node, {"expert": "ann"}), await create(node, {"expert": "ann", "breakpointId": "loud.x"})
    [late] = await deliveries(node, quiet)
    [soon] = await deliveries(node, loud)
    assert (late.next_at - clock.now()) // SECOND == 90 * MINUTE
    assert soon.next_at <= clock.now()


async def test_a_persons_preferred_channels_replace_the_routes_channels(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await channel(node, "private", "email", **{"host": "127.0.0.1", "port": 1, "tls": "none", "from": "a@b.test"})
    await route(node, "email", fallback=["email"])
    await wishes(node, ann.id, channels=["private", "email"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [only] = await deliveries(node, breakpoint_id)
    assert (await told(node, breakpoint_id))[0][0] == "private"
    assert only.fallback == '["email"]'


async def test_messages_above_the_rate_limit_are_combined_in_a_digest(node: Node, ann: Principal) -> None:
    del ann
    await channel(node, "email")
    await route(node, "email")
    for _ in range(MOST + 3):
        await create(node, {"expert": "ann"})
    found = await deliveries(node)
    assert sorted(each.digested for each in found) == [0] * MOST + [1] * 3
    assert len({each.next_at for each in found if each.digested}) == 1
    planned = await rows(node, "SELECT count(*) FROM assent_pace WHERE digest_due IS NOT NULL")
    assert planned == [(1,)]


async def test_a_digest_of_only_one_question_is_sent_as_an_ordinary_message(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    del ann
    await channel(node, "email", **EMAIL, paceMessages=2, paceSeconds=30)
    await route(node, "email")
    for _ in range(3):
        await create(node, {"expert": "ann"})
    [held] = [each for each in await deliveries(node) if each.digested]
    assert held.next_at - clock.now() == 30 * SECOND
    clock.advance(30)
    digest = partial(node.assent[DeliveryService].claim_digest, channel=held.channel, recipient=held.recipient)
    assert await node.assent.database.write(digest) is None
    claim = await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, held.line, worker="w"))
    assert claim is not None
    assert (claim.delivery.id, claim.delivery.purpose) == (held.id, "ask")


async def test_if_digests_are_off_questions_are_spread_over_time_windows(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    del ann
    await channel(node, "email", **EMAIL, paceMessages=2, paceSeconds=30, digest="never")
    await route(node, "email")
    for _ in range(6):
        await create(node, {"expert": "ann"})
    found = sorted(await deliveries(node), key=lambda each: each.next_at)
    assert {each.digested for each in found} == {0}
    waits = [(each.next_at - clock.now()) // SECOND for each in found]
    assert waits == [0, 0, 30, 30, 60, 60]
    clock.advance(30)
    third = found[2]
    claim = await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, third.line, worker="w"))
    assert claim is not None, "its slot in the time window is reserved"


async def test_a_breakpoint_that_requires_a_ticket_cannot_be_approved_without_one(node: Node, ann: Principal) -> None:
    def demand(tx: Transaction) -> None:
        project = tx[Projects].get("default")
        tx[Projects].save(replace(project, policy={**project.policy, "ticketTags": ["audit"]}))

    await node.assent.database.write(demand)
    await node.assent.database.write(adding(node, "*"))
    breakpoint_id = await create(node, {"tags": ["audit"]})
    assert (await stored(node, breakpoint_id)).status is Status.WAITING, "a rule approved it without a ticket"
    with pytest.raises(TicketRequired):
        await respond(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, ann, approved=False, comment="Not now.")
    assert (await stored(node, breakpoint_id)).decision is Decision.REJECTED


async def test_two_nodes_notify_each_recipient_only_once(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as two:
        await person(one, "ann", "reviewer")
        await channel(one, "hook", "webhook")
        await route(one, "hook", remind=["1s"])
        ids = [await create(one, {"expert": "ann"}) for _ in range(60)]
        await asyncio.gather(*(settle(node) for node in (one, two) * 3))
        found = await deliveries(one)
    asked = [each.breakpoint_id for each in found if each.purpose == "ask"]
    assert sorted(asked) == sorted(ids)
