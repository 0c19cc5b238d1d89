"""A back-test counts exactly what a simple scan of all breakpoints counts, without blocking writers."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.store.breakpoints import COLUMNS, breakpoint_of
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal, Role
from assent.core.breakpoint import Breakpoint
from assent.core.errors import Forbidden, NotFound, PatternError
from assent.core.patterns.expressions import And, Expression, Not, Or, Subject
from assent.core.patterns.pattern import Pattern, match, parse
from assent.core.rulebook import Rulebook
from assent.core.rules import STOPS, recommend, subject_of
from assent.core.terms import Terms
from assent.kernel.settings import Settings
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import PeopleService
from assent.policy.backtest import Effect, Outcome
from assent.policy.store.backtest import groups_statement
from assent.policy.store.rules import Rules
from assent.policy.usecases.backtest import BacktestService, Looking, Progress, Report, ShadowAgreement, Wanted
from assent.policy.usecases.rules import RuleService
from tests.core import pattern_language as language
from tests.db.making import AGENT, RITA, adding, create, person, respond, rows
from tests.support.nodes import ManualClock, Node, running_node

DAY = 24 * 3600
VIEWER = Principal(kind=Kind.PERSON, id="per_v", name="vera", project="default", roles=frozenset({Role.VIEWER}))
ADMIN = Principal(kind=Kind.PERSON, id="per_a", name="adm", project="default", roles=frozenset({Role.ADMIN}))
SIZE = 160
NEVER_RULES = (
    "gate.*(tags contains 'high')",
    "a*(payload.b = 1)",
    "x.review(NOT expert = 'ghost')",
    "confirm.*(title = 'it''s')",
    "a.b(runId = 'run-1' OR attempt > 2)",
)
VALUES = (0, 1, -1, 2, 0.1, 1.5, True, False, None, [1, "a"], {"a": 1, "o": {"b": "a"}}, *language.WORDS)
LOUD: tuple[dict[str, Any], ...] = (
    {"hardStop": True},
    {"hardStop": False},
    {"options": ["a", "b"]},
    {"options": []},
    {"form": {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}},
    {"form": {"type": "object", "properties": {"why": {"type": "string"}}}},
    {"note": 'no "hardStop" here'},
)
nodes = language.trees(language.predicates())
patterns = st.builds(
    lambda glob, node, style: glob if node is None else f"{glob}({language.written(node, style)})",
    st.sampled_from(language.GLOBS),
    st.none() | nodes,
    language.styles,
)


def payload_at_random(chance: random.Random) -> dict[str, Any]:
    payload: dict[str, Any] = {"breakpointId": chance.choice(language.GATES)}
    payload |= {name: chance.choice(VALUES) for name in ("a", "b", "not", "o") if chance.random() < 0.4}
    if chance.random() < 0.5:
        names = ["ann", "owner", "ghost", "a", "ab", "it's"]
        payload["expert"] = chance.choice([chance.choice(names), chance.sample(names, chance.randint(1, 3))])
    for name, values in (("risk", ("low", "medium", "high")), ("attempt", (0, 1, 2, 3)), ("title", language.WORDS)):
        if chance.random() < 0.4:
            payload[name] = chance.choice(values)
    if chance.random() < 0.3:
        payload |= chance.choice(LOUD)
    return payload


async def populate(node: Node, clock: ManualClock) -> None:
    """Create breakpoints of every kind with every outcome, many at the same instant, and purge a third of them."""
    chance = random.Random(20261116)
    people = (await person(node, "ann", "reviewer"), await person(node, "eve", "admin"))
    for n in range(SIZE):
        if n == SIZE // 3:
            await purge(node, clock)
        payload = payload_at_random(chance)
        end = chance.choice(["approved", "rejected", "waiting", "expire", "reject", "cancelled", "rule"])
        top: dict[str, Any] = {
            "agentId": chance.choice(["a", "b", "ab"]),
            "runId": chance.choice([None, "run-1", "run-2"]),
            "tags": chance.sample(language.WORDS, chance.randint(0, 3)),
            "priority": chance.choice(["low", "normal", "high"]),
        }
        if end in {"expire", "reject"}:
            top |= {"ttlSeconds": 1, "onTimeout": end}
        await lived(node, payload, top, end=end, people=people)
        if chance.random() < 0.3:
            clock.advance(1.5)
            await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    clock.advance(2)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    for pattern in NEVER_RULES:
        await node.assent.database.write(adding(node, pattern, "never-auto-approve"))
    await node.assent.database.write(adding(node, "*", "never-auto-approve", mode="shadow"))
    await node.assent.database.write(adding(node, "*", "never-auto-approve", enabled=False))


async def purge(node: Node, clock: ManualClock) -> None:
    policy = {"retentionDays": 1, "alwaysBreakOn": ["ä"]}
    await node.assent.database.write(partial(node.assent[PeopleService].put_policy, policy=policy, by=ADMIN))
    clock.advance(2 * DAY)
    await node.assent.database.write(node.assent[RetentionService].purge_due)


async def lived(
    node: Node, payload: dict[str, Any], top: dict[str, Any], *, end: str, people: tuple[Principal, Principal]
) -> None:
    """Create a breakpoint and bring it to the given outcome."""
    if end == "rule":
        made = await node.assent.database.write(adding(node, payload["breakpointId"]))
        await create(node, payload, **top)
        await node.assent.database.write(partial(node.assent[RuleService].remove, rule_id=made.id, by=RITA))
        return
    raised = await create(node, payload, **top)
    if end == "cancelled":
        await node.assent.database.write(partial(node.assent[BreakpointService].cancel, breakpoint_id=raised, by=AGENT))
    elif end in {"approved", "rejected"}:
        how: dict[str, Any] = {"approved": end == "approved", "comment": "Seen."}
        if how["approved"]:
            how |= {"option": "a"} if payload.get("options") else {}
            how |= {"answers": {"why": "so"}} if payload.get("form") else {}
            how |= {"confirm": payload["breakpointId"]} if payload.get("risk") == "high" else {}
        await respond(node, raised, people["expert" in payload], **how)


async def everything(node: Node) -> list[tuple[Breakpoint, int | None, bool]]:
    """Return every breakpoint with its attempt and whether it was purged."""
    found = await rows(node, f"SELECT {', '.join(COLUMNS)}, attempt, purged_at FROM assent_breakpoints")
    return [(breakpoint_of(row[:-2]), row[-2], row[-1] is not None) for row in found]


def outcome(found: Breakpoint) -> str:
    if found.status != "released":
        return found.status.value
    assert found.decision is not None
    assert found.ended_by is not None
    kind = found.ended_by.kind
    return "auto" if kind is Kind.RULE else "timedOut" if kind is Kind.SYSTEM else found.decision.value


async def plainly(
    node: Node, wanted: Wanted, everyone: Iterable[tuple[Breakpoint, int | None, bool]]
) -> tuple[Counter[str], dict[str, list[str]]]:
    """Scan everything with the domain's own functions; return the counts, and the affected breakpoints by outcome."""
    pattern, now = parse(wanted.pattern), node.assent.clock.now()
    standing = await node.assent.database.read(lambda tx: tx[Rules].standing("default"))
    book = Rulebook.of((each for each in standing if each.action == "never-auto-approve"), ["ä"])
    counts: Counter[str] = Counter()
    acting: defaultdict[str, list[str]] = defaultdict(list)
    for found, attempt, purged in sorted(everyone, key=lambda each: (each[0].created_at, each[0].id), reverse=True):
        counts["scanned"] += 1
        subject = subject_of(found, claimed=found.agent_id_claimed)
        loose = wanted.action == "never-auto-approve"
        if purged:
            subject, held = _after_purging(pattern, subject, found, attempt, loose=loose)
        else:
            held = match(pattern, subject, loose=loose)
        counts["unknown"] += held is None
        acts = bool(held)
        if wanted.action == "never-auto-approve":
            acts = held is not False
        elif held:
            hard_stop = found.payload.get("hardStop") is True
            plain = Terms.of(found.gate, found.payload).plain
            told = recommend(book, subject, hard_stop=hard_stop, plain=plain, after_n=None, consecutive=0, now=now)
            acts = told.source not in STOPS and not purged
            counts["stopped"] += told.source in STOPS
            counts["purged"] += told.source not in STOPS and purged
        counts["matched"] += held is not False if wanted.action == "never-auto-approve" else bool(held)
        counts[outcome(found)] += acts
        counts["acts"] += acts
        acting[outcome(found)] += [found.id] if acts else []
    return counts, acting


def _after_purging(
    pattern: Pattern, subject: Subject, found: Breakpoint, attempt: int | None, *, loose: bool
) -> tuple[Subject, bool | None]:
    """Return what remains of a purged breakpoint, and whether the pattern matches regardless of the deleted values."""
    names = [name for seat in found.seats for name in seat.names]
    values = dict(subject.values) | {"attempt": attempt, "expert": names, "payload": {}}
    left = Subject(subject.name, values, subject.claimed)
    gone = {"payload", "title"} | ({"expert"} if any(seat.added for seat in found.seats) else set())
    fits = pattern.glob.matches_loosely if loose else pattern.glob.matches
    if not fits(subject.name):
        return left, False
    reading = "loosely" if loose else "exactly"
    return left, True if pattern.expression is None else _kleene(pattern.expression, left, gone, reading)


UNDER_NOT = {"exactly": "exactly", "loosely": "tightly", "tightly": "loosely"}


def _kleene(expression: Expression, subject: Subject, gone: set[str], reading: str) -> bool | None:
    """Evaluate the tree independently of the code under test; purged values are unknown even to `exists`."""
    if isinstance(expression, Not):
        inner = _kleene(expression.operand, subject, gone, UNDER_NOT[reading])
        return None if inner is None else not inner
    if isinstance(expression, And | Or):
        held = [_kleene(each, subject, gone, reading) for each in expression.operands]
        sure = isinstance(expression, Or)
        return sure if sure in held else None if None in held else not sure
    (asked,) = expression.predicates()
    if asked.path[0] in gone:
        return None
    return {"exactly": asked.holds, "loosely": asked.holds_loosely, "tightly": asked.holds_tightly}[reading](subject)


def counted(report: Report) -> Counter[str]:
    effects, acts = report.counts.effects, report.acting
    counts = {"scanned": report.counts.scanned, "matched": report.matched, "unknown": report.unknown, "acts": acts}
    counts |= {name: effects[Effect(name)] for name in ("stopped", "purged")}
    return Counter(counts) + Counter({each.value: n for each, n in report.counts.outcomes.items()})


async def looked_back(node: Node, wanted: Wanted, *, by: Principal = VIEWER, size: int | None = None) -> Report:
    run = await node.assent[BacktestService].prepare(wanted, by=by)
    if size is None:
        return await node.assent[BacktestService].report(run)
    looking, until = Looking(run, size=size), run.window.until
    while until > run.window.since:
        until = await node.assent.database.read(partial(looking.slice, until=until))
    return await node.assent.database.read(looking.report)


@pytest.mark.timeout(300)
@examples(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    pattern=patterns,
    action=st.sampled_from(["auto-approve", "auto-approve", "never-auto-approve"]),
    size=st.sampled_from([1, 7, 50, None]),
)
async def test_a_back_test_gives_the_same_counts_as_a_simple_scan(
    node: Node, clock: ManualClock, pattern: str, action: str, size: int | None
) -> None:
    everyone = await everything(node)
    if not everyone:
        await populate(node, clock)
        everyone = await everything(node)
    wanted = Wanted(pattern=pattern, action=action, limit=5)
    try:
        parse(pattern)
    except PatternError:
        return
    report = await looked_back(node, wanted, size=size)
    expected, acting = await plainly(node, wanted, everyone)
    assert counted(report) == +expected
    lists = {kind.value: [each.id for each in items] for kind, items in report.items.items()}
    assert lists == {kind: acting[kind][:5] for kind in lists}


async def test_an_owner_added_as_a_substitute_is_not_matched_as_an_expert(node: Node, clock: ManualClock) -> None:
    """For purged breakpoints the result is unknown, because the owner may have been named as an expert."""
    ann = await person(node, "ann", "admin")
    await respond(node, await create(node, {"expert": ["ann", "ghost"]}), ann)
    for pattern, matched in (("expert = 'owner'", 0), ("NOT expert = 'owner'", 1), ("expert in ('ghost', 'x')", 1)):
        assert (await looked_back(node, Wanted(pattern=f"*({pattern})"))).matched == matched, pattern
    await purge(node, clock)
    for pattern in ("expert = 'owner'", "NOT expert = 'owner'", "expert = 'x'", "expert = 'ghost'"):
        found = await looked_back(node, Wanted(pattern=f"*({pattern})"))
        assert (found.matched, found.unknown) == (0, 1), pattern


async def test_the_sample_covers_every_outcome_and_effect(node: Node, clock: ManualClock) -> None:
    await populate(node, clock)
    everyone = await everything(node)
    assert {outcome(found) for found, _, _ in everyone} == {each.value for each in Outcome}
    assert {purged for _, _, purged in everyone} == {True, False}
    assert len({found.created_at for found, _, _ in everyone}) < SIZE / 2, "many breakpoints must share a moment"
    assert {True, False} == {seat.added for found, _, _ in everyone for seat in found.seats}
    report = await looked_back(node, Wanted(pattern="*"))
    assert {each for each, n in report.counts.effects.items() if n} == {Effect.STOPPED, Effect.PURGED, Effect.ACTS}
    assert all(report.counts.outcomes[each] for each in Outcome)


async def test_only_recent_breakpoints_in_the_project_are_scanned(node: Node, clock: ManualClock) -> None:
    await node.assent.database.write(lambda tx: tx[Projects].add(Project("other", "Other", None, {}, clock.now())))
    await create(node, by=replace(AGENT, project="other", id="tok_other"))
    await create(node)
    clock.advance(2 * DAY)
    await create(node)
    for days, scanned in ((1, 1), (2, 2), (3, 2)):
        report = await looked_back(node, Wanted(pattern="*", days=days))
        assert (report.counts.scanned, report.matched) == (scanned, scanned), days


async def test_breakpoints_that_require_a_person_anyway_are_not_approved(node: Node) -> None:
    policy = {"alwaysBreakOn": ["careful"]}
    await node.assent.database.write(partial(node.assent[PeopleService].put_policy, policy=policy, by=ADMIN))
    await node.assent.database.write(adding(node, "*(agentId = 'stopped')", "never-auto-approve"))
    await node.assent.database.write(adding(node, "*(payload.cost > 5)", "never-auto-approve"))
    await create(node, {"cost": 1})
    for payload in ({"risk": "high"}, {"hardStop": True}, {"options": ["a"]}, {"cost": 6}, {"cost": "much"}, {}):
        await create(node, payload)
    await create(node, {"cost": 1}, tags=["careful"])
    await create(node, {"cost": 1}, agentId="stopped")
    report = await looked_back(node, Wanted(pattern="*"))
    assert (report.matched, report.counts.effects[Effect.STOPPED], report.acting) == (9, 8, 1)


async def test_a_breakpoint_that_changes_during_the_scan_is_counted_once(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    ids = []
    for _ in range(6):
        ids.append(await create(node))
        clock.advance(1)
    run = await node.assent[BacktestService].prepare(Wanted(pattern="*"), by=VIEWER)
    looking, until = Looking(run, size=2), run.window.until
    while until > run.window.since:
        until = await node.assent.database.read(partial(looking.slice, until=until))
        # Answer some that were already scanned and some that were not.
        for breakpoint_id in (ids.pop(0), ids.pop()) if ids else ():
            await respond(node, breakpoint_id, ann)
        clock.advance(1)
        await create(node)
    report = await node.assent.database.read(looking.report)
    assert (report.counts.scanned, report.matched, report.counts.outcomes.total()) == (6, 6, 6)


async def test_writers_are_not_blocked_between_the_slices_of_a_scan(node: Node, clock: ManualClock) -> None:
    for _ in range(3):
        await create(node)
        clock.advance(1)
    run = await node.assent[BacktestService].prepare(Wanted(pattern="*"), by=VIEWER)
    steps = node.assent[BacktestService].walk(run)
    first = await anext(steps)
    assert first == Progress(3, 3)
    await asyncio.gather(*(create(node) for _ in range(5)))
    (last,) = [each async for each in steps]
    assert isinstance(last, Report)
    assert last.counts.scanned == 3


async def test_invalid_patterns_and_agents_are_rejected(node: Node) -> None:
    with pytest.raises(PatternError):
        await looked_back(node, Wanted(pattern="a.*((("))
    with pytest.raises(Forbidden):
        await looked_back(node, Wanted(pattern="*"), by=AGENT)


@pytest.mark.parametrize(
    ("pattern", "index"),
    [("deploy.*", "ix_assent_breakpoints_status_created"), ("deploy", "ix_assent_breakpoints_gate")],
)
async def test_counting_similar_breakpoints_uses_an_index(sqlite_settings: Settings, pattern: str, index: str) -> None:
    async with running_node(sqlite_settings) as node:
        run = await node.assent[BacktestService].prepare(Wanted(pattern=pattern), by=VIEWER)
        statement, params = groups_statement(run.window, run.sieve, "sqlite")
        plan = await rows(node, f"EXPLAIN QUERY PLAN {statement}", **params)
    assert f"SEARCH assent_breakpoints USING INDEX {index} (project_id=? AND " in plan[0][-1]
    assert "created_at>? AND created_at<?" in plan[0][-1]


async def shadowed(node: Node, rule_id: str, **options: Any) -> ShadowAgreement:
    asked: dict[str, Any] = {"days": 30, "limit": 50, "by": VIEWER} | options
    return await node.assent[BacktestService].shadow(rule_id, **asked)


async def test_a_shadow_rule_is_compared_with_human_decisions(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    auto = await node.assent.database.write(adding(node, "a.*", mode="shadow"))
    never = await node.assent.database.write(adding(node, "a.*", "never-auto-approve", mode="shadow"))
    live = await node.assent.database.write(adding(node, "a.live"))
    rejected = []
    for approved in (True, True, False):
        raised = await create(node, {"breakpointId": "a.b"})
        await respond(node, raised, ann, approved=approved, comment="Seen.")
        rejected += [] if approved else [raised]
    await create(node, {"breakpointId": "a.b"})
    await create(node, {"breakpointId": "a.b", "hardStop": True})
    await create(node, {"breakpointId": live.pattern})
    clock.advance(1)
    found = await shadowed(node, auto.id)
    assert +found.counts == {"would_approve": 5, "stopped": 1, "agreed": 2, "disagreed": 1, "undecided": 1, "auto": 1}
    assert [(each.id, each.feedback) for each in found.disagreements] == [(rejected[0], "Seen.")]
    assert found.since_version == 1
    found = await shadowed(node, never.id, limit=1)
    assert +found.counts == {"would_stop": 6, "agreed": 1, "disagreed": 2, "undecided": 2, "auto": 1}
    assert len(found.disagreements) == 1


async def test_a_shadow_rules_results_from_before_its_last_change_do_not_count(node: Node, clock: ManualClock) -> None:
    made = await node.assent.database.write(adding(node, "a.*", mode="shadow"))
    await create(node, {"breakpointId": "a.b"})
    change = partial(node.assent[RuleService].change, rule_id=made.id, by=RITA)
    await node.assent.database.write(partial(change, changes={"pattern": "a.b"}))
    await create(node, {"breakpointId": "a.b"})
    await node.assent.database.write(partial(change, changes={"note": "Still the same."}))
    await create(node, {"breakpointId": "a.b"})
    found = await shadowed(node, made.id)
    assert (found.since_version, found.counts["would_approve"]) == (2, 2)
    clock.advance(3 * DAY)
    assert (await shadowed(node, made.id, days=2)).counts["would_approve"] == 0
    with pytest.raises(NotFound):
        await shadowed(node, made.id, by=replace(VIEWER, project="other"))
    with pytest.raises(Forbidden):
        await shadowed(node, made.id, by=AGENT)


async def test_daily_counts_add_up_to_the_total_counts(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    for n in range(6):
        raised = await create(node, {"breakpointId": "a.b"} | ({"options": ["x", "y"]} if n == 5 else {}))
        if n < 4:
            await respond(node, raised, ann, approved=n % 2 == 0, comment="Seen.")
        clock.advance(DAY / 3)
    run = await node.assent[BacktestService].prepare(Wanted(pattern="a.*"), by=VIEWER)
    plain, daily = (
        await node.assent[BacktestService].report(run),
        await node.assent[BacktestService].report(run, daily=True),
    )
    assert counted(daily) == counted(plain)
    assert daily.items == plain.items
    assert sum(daily.counts.days.values(), Counter()) == plain.counts.outcomes
    assert all(first % (DAY * 1_000_000) == 0 for first in daily.counts.days)
    assert len(daily.counts.days) >= 2
    assert plain.counts.days == {}
