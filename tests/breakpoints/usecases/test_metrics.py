"""Metrics equal the result of a simple scan of all breakpoints, and report when they are based on a sample."""

from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.usecases import metrics
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.breakpoints.usecases.metrics import DAY, HOUR, PERIODS, Insights, MetricsService, Times, times
from assent.core.access import Kind, Principal, Role
from assent.core.errors import Forbidden
from assent.people.usecases.people import PeopleService
from tests.db.making import AGENT, adding, create, person, respond
from tests.support.nodes import ManualClock, Node

VIEWER = Principal(kind=Kind.PERSON, id="per_v", name="vera", project="default", roles=frozenset({Role.VIEWER}))
SECOND = 1_000_000
START = 1_800_000_000 // 86_400 * 86_400
"""Midnight, so that an interval begins at the start of the test."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(at=START * SECOND)


async def insights(node: Node, period: str = "24h") -> Insights:
    return await MetricsService(node.assent.database).insights(PERIODS[period], by=VIEWER)


async def one_of_each(node: Node, clock: ManualClock) -> dict[str, Any]:
    """Create breakpoints over three hours and end them in every possible way; return the reviewers."""
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    await node.assent.database.write(adding(node, "routine.*"))
    for who, seconds, approved in ((ann, 10, True), (ann, 30, True), (bob, 600, False)):
        raised = await create(node, {"breakpointId": "deploy"})
        clock.advance(seconds)
        await respond(node, raised, who, approved=approved, comment="Seen.")
    clock.advance(3600)
    await create(node, {"breakpointId": "routine.star"})
    for on_timeout in ("expire", "reject"):
        due = await create(node, {"breakpointId": "late"}, ttlSeconds=5, onTimeout=on_timeout)
        clock.advance(5)
        use_case = partial(node.assent[BreakpointService].time_out, breakpoint_id=due, project="default")
        await node.assent.database.write(use_case)
    clock.advance(3600)
    gone = await create(node, {"breakpointId": "deploy"})
    await node.assent.database.write(partial(node.assent[BreakpointService].cancel, breakpoint_id=gone, by=AGENT))
    await create(node, {"breakpointId": "deploy"})
    return {"ann": ann, "bob": bob}


async def test_each_breakpoint_is_counted_once_by_its_outcome(node: Node, clock: ManualClock) -> None:
    await one_of_each(node, clock)
    found = await insights(node)
    assert (found.raised, found.looked_at, found.whole.count) == (8, 8, 8)
    assert dict(found.whole.outcomes) == {
        "approved": 2, "rejected": 1, "auto": 1, "expired": 2, "cancelled": 1, "waiting": 1,
    }  # fmt: skip
    assert [each.raised for each in found.steps[-3:]] == [3, 3, 2]
    assert [dict(each.outcomes) for each in found.steps[-3:]] == [
        {"approved": 2, "rejected": 1}, {"auto": 1, "expired": 2}, {"cancelled": 1, "waiting": 1},
    ]  # fmt: skip
    assert found.times == Times(30, 600, 600, 3)
    assert [(each.name, each.count, each.median) for each in found.reviewers] == [("ann", 2, 20), ("bob", 1, 600)]
    assert [(each.name, each.count) for each in found.gates] == [("deploy", 5), ("late", 2), ("routine.star", 1)]


async def test_pending_counts_are_computed_backwards_from_now(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    first = [await create(node) for _ in range(3)]
    clock.advance(3600)
    await respond(node, first[0], ann)
    clock.advance(3600)
    await create(node)
    clock.advance(3600)
    found = await insights(node)
    assert [each.waiting for each in found.steps[-5:]] == [0, 3, 2, 3, 3]
    assert not found.waiting_capped


async def test_purged_breakpoints_are_counted_like_all_others(node: Node, clock: ManualClock) -> None:
    admin = Principal(kind=Kind.PERSON, id="per_a", name="adm", project="default", roles=frozenset({Role.ADMIN}))
    ann = await person(node, "ann", "reviewer")
    await node.assent.database.write(
        partial(node.assent[PeopleService].put_policy, policy={"retentionDays": 1}, by=admin)
    )
    await respond(node, await create(node), ann)
    clock.advance(2 * 86_400)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    found = await insights(node, "7d")
    assert dict(found.whole.outcomes) == {"approved": 1}
    assert {each.waiting for each in found.steps} == {0}


async def test_a_busy_interval_is_sampled_evenly_and_reported_as_sampled(node: Node, clock: ManualClock) -> None:
    for n in range(32):
        await create(node, {"breakpointId": f"minute-{n}"})
        clock.advance(112)
    found = await MetricsService(node.assent.database, looked_at=16).insights(PERIODS["24h"], by=VIEWER)
    assert (found.raised, found.looked_at) == (32, 16)
    minutes = sorted(int(each.name.removeprefix("minute-")) for each in found.gates)
    assert minutes[0] < 4
    assert minutes[-1] == 31, "the sample must cover the whole hour"


async def test_other_projects_and_older_breakpoints_are_not_counted(node: Node, clock: ManualClock) -> None:
    await create(node)
    clock.advance(25 * 3600)
    assert (await insights(node)).raised == 0
    assert (await insights(node, "7d")).raised == 1
    elsewhere = Principal(kind=Kind.PERSON, id="p", name="p", project="other", roles=frozenset({Role.VIEWER}))
    found = await MetricsService(node.assent.database).insights(PERIODS["7d"], by=elsewhere)
    assert (found.raised, found.steps[-1].waiting) == (0, 0)


async def test_agents_cannot_see_metrics(node: Node) -> None:
    service = MetricsService(node.assent.database)
    with pytest.raises(Forbidden):
        await service.insights(PERIODS["24h"], by=AGENT)
    with pytest.raises(Forbidden):
        await service.gates(after="", by=AGENT)


async def test_every_gate_is_listed_once_sorted_by_name(node: Node, clock: ManualClock) -> None:
    names = [f"gate-{n:03}" for n in range(metrics.GATE_PAGE + 3)]
    for name in reversed(names):
        await create(node, {"breakpointId": name})
    service = MetricsService(node.assent.database)
    first = await service.gates(after="", by=VIEWER)
    rest = await service.gates(after=first.lines[-1].gate, by=VIEWER)
    assert (first.more, rest.more) == (True, False)
    assert [each.gate for each in (*first.lines, *rest.lines)] == names
    assert all(each.asked == 1 and each.last_at == clock.now() for each in first.lines)


async def test_gate_statistics_show_shares_decision_times_and_consecutive_approvals(
    node: Node, clock: ManualClock
) -> None:
    await one_of_each(node, clock)
    lines = {each.gate: each for each in (await MetricsService(node.assent.database).gates(after="", by=VIEWER)).lines}
    deploy = lines["deploy"]
    assert (deploy.asked, deploy.capped, deploy.tally.median) == (5, False, 30)
    assert (deploy.tally.share("approved"), deploy.tally.share("rejected")) == (0.4, 0.2)
    assert deploy.streaks == [("agent-1", 0)], "the last decision was a rejection"
    assert lines["late"].tally.share("expired") == 1
    clock.advance(31 * DAY / SECOND)
    later = {each.gate: each for each in (await MetricsService(node.assent.database).gates(after="", by=VIEWER)).lines}
    assert (later["deploy"].asked, later["deploy"].tally.count) == (0, 0)


async def test_a_busy_gates_count_is_exact_but_its_decision_times_are_sampled(node: Node) -> None:
    for _ in range(5):
        await create(node, {"breakpointId": "busy"})
    (line,) = (await MetricsService(node.assent.database, gate_looked_at=3).gates(after="", by=VIEWER)).lines
    assert (line.asked, line.tally.count) == (5, 3)


def test_a_percentile_is_always_an_observed_value() -> None:
    assert times([]) is None
    assert times([5.0]) == Times(5, 5, 5, 1)
    assert times([float(n) for n in range(1, 101)]) == Times(50, 90, 99, 100)


def test_the_periods_are_a_day_a_week_and_a_month() -> None:
    lengths = {name: each.step * each.steps for name, each in PERIODS.items()}
    assert lengths == {"24h": 24 * HOUR, "7d": 7 * DAY, "30d": 30 * DAY}
