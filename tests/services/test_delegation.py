"""Routes: who is told, reminded and asked in place of others, what a timeout does, and what is closed in the end."""

import asyncio
from dataclasses import replace

import pytest

from assent.domain.access import Principal
from assent.domain.breakpoint import Status
from assent.domain.errors import AlreadyEnded, NotEligible, TicketRequired
from assent.domain.instants import SECOND
from assent.domain.strategies import Decision
from assent.services.addressing import MOST
from assent.settings import Settings
from assent.store.transaction import Transaction
from tests.services.delegating import channel, deliveries, kinds, route, settle, told, wishes
from tests.store.making import adding, create, person, respond, rows, stored
from tests.support.nodes import ManualClock, Node, running_node

MINUTE, HOUR = 60, 3600


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


@pytest.fixture
async def bob(node: Node) -> Principal:
    return await person(node, "bob", "reviewer")


async def findings(node: Node) -> list[str]:
    return [str(each) for check in await node.assent.audit.check() for each in check.findings]


async def test_without_channels_nothing_is_begun(node: Node) -> None:
    await create(node)
    assert await rows(node, "SELECT 1 FROM assent_routings") == []


async def test_without_a_route_nobody_is_told(node: Node) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="deploy.*")
    breakpoint_id = await create(node, {"breakpointId": "pay.now"})
    assert await told(node, breakpoint_id) == []
    assert await rows(node, "SELECT next_at FROM assent_routings") == [(None,)]


async def test_experts_are_told_one_by_one_and_a_place_once(node: Node, ann: Principal, bob: Principal) -> None:
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


async def test_the_first_route_that_matches_counts_and_stays_as_it_was(node: Node, ann: Principal) -> None:
    del ann
    await channel(node, "email")
    await channel(node, "hook", "webhook")
    first = await route(node, "email", pattern="deploy.*", to=["person:ann"], remind=["10m"])
    await route(node, "hook")
    breakpoint_id = await create(node, {"breakpointId": "deploy.api"})
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "pending")]

    def drop(tx: Transaction) -> None:
        tx.routes.remove(first, project="default")

    await node.assent.database.write(drop)
    kept = await rows(node, "SELECT route_id, done FROM assent_routings")
    assert kept == [(first, 1)]


async def test_whoever_has_not_answered_is_reminded(
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


async def test_of_reminders_that_were_missed_only_the_last_is_made_up_for(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    del ann
    await channel(node, "email")
    await route(node, "email", remind=["10m", "20m", "30m"])
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    await settle(node)
    events = await node.assent.inbox.history(breakpoint_id)
    assert [(each.type, each.metadata.get("n")) for each in events[1:]] == [("reminded", 3)]


async def test_escalation_opens_the_seat_to_whoever_it_goes_to(
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
    events = await node.assent.inbox.history(breakpoint_id)
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


async def test_escalation_has_several_levels(node: Node, clock: ManualClock, ann: Principal, bob: Principal) -> None:
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
async def test_a_route_can_end_it_and_never_approves(node: Node, clock: ManualClock, ann: Principal, then: str) -> None:
    await channel(node, "email")
    await route(node, "email", timeout={"after": "4h", "then": then})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(4 * HOUR)
    await settle(node)
    ended = await stored(node, breakpoint_id)
    assert str(ended.ended_by) == "system:route"
    assert ended.result is not None
    assert ended.result["approved"] is False
    expected = (Status.EXPIRED, None) if then == "expire" else (Status.RELEASED, Decision.REJECTED)
    assert (ended.status, ended.decision) == expected
    with pytest.raises(AlreadyEnded):
        await respond(node, breakpoint_id, ann)
    assert await findings(node) == []


async def test_what_was_not_sent_when_it_ends_is_never_sent(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    await respond(node, breakpoint_id, ann)
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "superseded")]


async def test_a_deputy_is_asked_and_may_answer_for_whoever_is_away(node: Node, ann: Principal, bob: Principal) -> None:
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "bob"})
    breakpoint_id = await create(node, {"expert": "ann"})
    assert await told(node, breakpoint_id) == [("email", "person:bob", "ask", "pending")]
    events = await node.assent.inbox.history(breakpoint_id)
    assert [(each.type, dict(each.metadata)) for each in events[1:]] == [("delegated", {"from": "ann", "to": "bob"})]
    await respond(node, breakpoint_id, bob)
    assert (await stored(node, breakpoint_id)).decision is Decision.APPROVED
    assert await findings(node) == []


async def test_a_deputy_without_a_right_is_not_asked(node: Node, ann: Principal) -> None:
    await person(node, "vic", "viewer")
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "vic"})
    breakpoint_id = await create(node, {"expert": "ann"})
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "pending")]


async def test_quiet_hours_are_waited_for_unless_the_route_says_otherwise(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="loud.*", quiet=False)
    await route(node, "email")
    # The clock of these tests stands at 08:00 in UTC.
    await wishes(node, ann.id, quiet={"from": "07:00", "to": "09:30", "timezone": "UTC"})
    quiet, loud = await create(node, {"expert": "ann"}), await create(node, {"expert": "ann", "breakpointId": "loud.x"})
    [late] = await deliveries(node, quiet)
    [soon] = await deliveries(node, loud)
    assert (late.next_at - clock.now()) // SECOND == 90 * MINUTE
    assert soon.next_at <= clock.now()


async def test_a_person_is_reached_as_they_wish(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await channel(node, "private", "email", **{"host": "127.0.0.1", "port": 1, "tls": "none", "from": "a@b.test"})
    await route(node, "email", fallback=["email"])
    await wishes(node, ann.id, channels=["private", "email"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [only] = await deliveries(node, breakpoint_id)
    assert (await told(node, breakpoint_id))[0][0] == "private"
    assert only.fallback == '["email"]'


async def test_too_many_are_told_in_one(node: Node, ann: Principal) -> None:
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


async def test_what_needs_a_ticket_is_not_approved_before_there_is_one(node: Node, ann: Principal) -> None:
    def demand(tx: Transaction) -> None:
        project = tx.projects.get("default")
        tx.projects.save(replace(project, policy={**project.policy, "ticketTags": ["audit"]}))

    await node.assent.database.write(demand)
    await node.assent.database.write(adding(node, "*"))
    breakpoint_id = await create(node, {"tags": ["audit"]})
    assert (await stored(node, breakpoint_id)).status is Status.WAITING, "no rule approves what needs a ticket"
    with pytest.raises(TicketRequired):
        await respond(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, ann, approved=False, comment="Not now.")
    assert (await stored(node, breakpoint_id)).decision is Decision.REJECTED


async def test_two_nodes_tell_everybody_once(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as two:
        await person(one, "ann", "reviewer")
        await channel(one, "hook", "webhook")
        await route(one, "hook", remind=["1s"])
        ids = [await create(one, {"expert": "ann"}) for _ in range(60)]
        await asyncio.gather(*(settle(node) for node in (one, two) * 3))
        found = await deliveries(one)
    asked = [each.breakpoint_id for each in found if each.purpose == "ask"]
    assert sorted(asked) == sorted(ids)
