"""Back-tests rules against past breakpoints, compares shadow rules with human decisions, and proposes rules."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec

from assent.audit.store.chains import Audit
from assent.audit.store.retention import Holds
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.core.access import Permission, Principal
from assent.core.breakpoint import Status
from assent.core.canonical import Json
from assent.core.errors import InvalidRequest
from assent.core.patterns.pattern import BREAKPOINT_ATTRIBUTES, parse
from assent.core.rulebook import Rule, RuleAction, Rulebook, RuleMode
from assent.core.rules import propose, subject_of
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.policy.backtest import Effect, Outcome, Past, Trial, mentions
from assent.policy.store.backtest import COLUMN_OF, Alike, Backtests, Group, Member, Named, Shadow, Sieve, Whole, Window
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import Question, stopping_tags

DAY = 24 * 3600 * SECOND
SLICE = 20_000
"""Breakpoints per status in a slice. Reading a slice takes a few tenths of a second without blocking other work."""
CONTENT_SLICE = 2_000
"""Breakpoints per status in a slice if their content must be read."""
CHUNK = 100
"""Number of breakpoints whose content is in memory at the same time; each can be up to one megabyte."""
SHADOWS = 10_000
"""Maximum number of shadow results per read."""
AT_ONCE = 2
"""Maximum number of reader threads for back-tests; the remaining threads are reserved for other requests."""
KEPT = 50_000
"""Maximum number of cached results, one for each kind of breakpoint."""
_EVERYTHING: Final = frozenset(BREAKPOINT_ATTRIBUTES)
_PURGED: Final = frozenset({"payload", "title"})
_EXPERT: Final = frozenset({"expert"})
_ONE_BY_ONE: Final = frozenset({"title", "runId"})
"""Attributes that are different for nearly every breakpoint; used for grouping only if the tested pattern uses them."""
_AFTER_ALL = "~"
"""Sorts after every breakpoint ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    pattern: str
    action: str = RuleAction.AUTO.value
    days: int = 30
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Progress:
    scanned: int
    total: int


@dataclass(slots=True)
class Counts:
    """Counts of the rule's effects and of the actual outcomes, with the newest breakpoint IDs for some outcomes."""

    scanned: int = 0
    effects: Counter[Effect] = field(default_factory=Counter[Effect])
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    listed: dict[Outcome, list[str]] = field(default_factory=dict[Outcome, list[str]])
    days: dict[int, Counter[Outcome]] = field(default_factory=dict[int, Counter[Outcome]])
    """Outcomes by day, keyed by the start of the day in microseconds; only filled on request."""

    def add(self, effect: Effect, outcome: Outcome, count: int = 1, *, day: int | None = None) -> None:
        self.effects[effect] += count
        if effect in _ACTING:
            self.outcomes[outcome] += count
            if day is not None:
                self.days.setdefault(day, Counter())[outcome] += count


_ACTING = frozenset({Effect.ACTS, Effect.UNSURE})


@dataclass(frozen=True, slots=True)
class Report:
    wanted: Wanted
    window: Window
    counts: Counts
    items: Mapping[Outcome, Sequence[Named]]

    @property
    def acting(self) -> int:
        return sum(self.counts.effects[each] for each in _ACTING)

    @property
    def matched(self) -> int:
        return self.acting + self.counts.effects[Effect.STOPPED] + self.counts.effects[Effect.PURGED]

    @property
    def unknown(self) -> int:
        return self.counts.effects[Effect.UNKNOWN] + self.counts.effects[Effect.UNSURE]


@dataclass(frozen=True, slots=True)
class Run:
    """A back-test that is ready to start: the parsed pattern, and the rules that would take precedence."""

    wanted: Wanted
    trial: Trial
    window: Window
    sieve: Sieve
    attributes: frozenset[str]
    total: int

    @property
    def lists(self) -> tuple[Outcome, ...]:
        """The outcomes to list: those that contradict the rule, and pending breakpoints."""
        lists = (Outcome.REJECTED, Outcome.WAITING)
        return (*lists, Outcome.AUTO) if self.trial.action is RuleAction.NEVER else lists


@dataclass(frozen=True, slots=True)
class Proposal:
    run: Run
    may_save: bool


@dataclass(frozen=True, slots=True)
class ShadowAgreement:
    """A shadow rule's recommendations since its pattern or action last changed, compared with actual decisions."""

    rule: Rule
    since: int
    since_version: int
    counts: Counter[str]
    disagreements: Sequence[Named]


class BacktestService:
    """Runs back-tests without blocking writers: a back-test only reads, and reads each time slice from a snapshot."""

    def __init__(self, database: Database[Transaction]) -> None:
        self._database = database
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._books: dict[str, Rulebook] = {}

    async def prepare(self, wanted: Wanted, *, by: Principal) -> Run:
        """Validate the request before any breakpoints are read."""
        return await self._database.read(partial(self._prepare, wanted=wanted, by=by))

    def _prepare(self, tx: Transaction, *, wanted: Wanted, by: Principal) -> Run:
        by.require(Permission.READ_PEOPLE)
        pattern, now = parse(wanted.pattern), tx.now()
        action = RuleAction(wanted.action)
        trial = Trial(pattern, action, self._book(tx, by.project, now), now)
        attributes = _told_apart(trial)
        window = Window(by.project, now - wanted.days * DAY, now + 1)  # `until` is exclusive
        sieve = tx[Backtests].sieve(pattern, attributes, action)
        wanted = replace(wanted, pattern=pattern.source)
        return Run(wanted, trial, window, sieve, attributes, tx[Backtests].count(window))

    def _book(self, tx: Transaction, project: str, now: int) -> Rulebook:
        pages = tx[Rules].pages(project)
        stopping = [
            each
            for each in pages.rules
            if each.action != RuleAction.AUTO and each.mode != RuleMode.SHADOW and each.in_force(now)
        ]
        before = self._books.get(project)
        # `before` contains patterns that have already been parsed.
        book = Rulebook.of(stopping, stopping_tags(pages.policy), before=before)
        self._books[project] = book
        return book

    async def walk(self, run: Run, *, daily: bool = False) -> AsyncGenerator[Progress | Report, None]:
        """Scan backward in time; yield the progress after each slice, and finally yield the report."""
        looking = Looking(run, daily=daily)
        until = run.window.until
        while until > run.window.since:
            async with self._turns:
                until = await self._database.read(partial(looking.slice, until=until))
            yield Progress(looking.counts.scanned, max(run.total, looking.counts.scanned))
        yield await self._database.read(looking.report)

    async def report(self, run: Run, *, daily: bool = False) -> Report:
        *_, last = [each async for each in self.walk(run, daily=daily)]
        assert isinstance(last, Report), "the report comes last"
        return last

    async def propose(self, breakpoint_id: str, *, days: int, limit: int, by: Principal) -> Proposal:
        """Propose a rule that would have approved this breakpoint; nothing is saved."""
        use_case = partial(_proposed, breakpoint_id=breakpoint_id, by=by)
        wanted = Wanted(pattern=await self._database.read(use_case), days=days, limit=limit)
        return Proposal(await self.prepare(wanted, by=by), by.may(Permission.RULES))

    async def shadow(self, rule_id: str, *, days: int, limit: int, by: Principal) -> ShadowAgreement:
        """Compare a shadow rule's recommendations with human decisions."""
        by.require(Permission.READ_PEOPLE)
        rule, version, since = await self._database.read(partial(_shadow_rule, rule_id=rule_id, days=days, by=by))
        counts, disagreements = Counter[str](), list[str]()
        before = _AFTER_ALL
        while before:
            read = partial(_shadows, rule_id=rule_id, before=before)
            async with self._turns:
                rows = await self._database.read(read)
            for each in rows:
                if each.at >= since and each.rule_version >= version:
                    said = _agreement(rule, each)
                    counts.update(said)
                    if "disagreed" in said and len(disagreements) < limit:
                        disagreements.append(each.breakpoint_id)
            before = rows[-1].breakpoint_id if len(rows) == SHADOWS else ""
        named = await self._database.read(lambda tx: tx[Backtests].named(disagreements))
        return ShadowAgreement(rule, since, version, counts, named)


@dataclass(frozen=True, slots=True)
class Closer:
    """The breakpoints in a slice that require another query."""

    unread: set[Alike] = field(default_factory=set[Alike])
    alone: list[str] = field(default_factory=list[str])
    shown: set[Alike] = field(default_factory=set[Alike])


class Looking:
    """A back-test in progress, with the results so far."""

    def __init__(self, run: Run, *, size: int | None = None, daily: bool = False) -> None:
        self.run = run
        self._daily = daily
        self._day: int | None = None
        self._size = size or (CONTENT_SLICE if "payload" in mentions(run.trial.pattern) else SLICE)
        self.counts = Counts(listed={outcome: [] for outcome in run.lists})
        self._steps: dict[Status, int] = {}
        self._judged: dict[tuple[Alike, bool], Effect] = {}

    def slice(self, tx: Transaction, *, until: int) -> int:
        """Evaluate the newest remaining breakpoints, and return the time at which to continue."""
        # Breakpoints must not change between the queries for a slice, or they would be counted twice or not at all.
        tx[Audit].one_moment()
        left = replace(self.run.window, until=until)
        since = tx[Backtests].start_of_slice(left, self._size, self._steps)
        if self._daily:  # limit the slice to one day, so that each count belongs to a single day
            self._day = (until - 1) // DAY * DAY
            since = max(since, self._day)
        window = replace(left, since=since)
        self.counts.scanned += tx[Backtests].count(window)
        closer = Closer()
        for group in tx[Backtests].groups(window, self.run.sieve):
            effect = self._effect(group)
            if effect is not Effect.UNREAD:
                self.counts.add(effect, group.outcome, group.count, day=self._day)
                if effect in _ACTING and group.outcome in self._open():
                    closer.shown.add(group.alike)
            elif group.loud is not None:
                closer.alone.append(group.loud)
            else:
                closer.unread.add(group.alike)
        self._look(tx, window, closer)
        return window.since

    def _effect(self, group: Group) -> Effect:
        key = (group.alike, group.loud is not None)
        found = self._judged.get(key)
        if found is None:
            if len(self._judged) >= KEPT:
                self._judged.clear()
            found = self._judged[key] = self.run.trial.effect(_outlined(self.run, *key))
        return found

    def _open(self) -> tuple[Outcome, ...]:
        return tuple(each for each, ids in self.counts.listed.items() if len(ids) < self.run.wanted.limit)

    def _look(self, tx: Transaction, window: Window, closer: "Closer") -> None:
        """Evaluate the breakpoints whose content is needed, and record the IDs to list."""
        find = partial(tx[Backtests].members, window, self.run.sieve)
        unread = find(closer.unread, outcomes=tuple(Outcome)) if closer.unread else []
        found = self._read(tx, [*closer.alone, *(each.id for each in unread)])
        found += find(closer.shown, outcomes=self._open()) if closer.shown else []
        for each in sorted(found, key=lambda each: (each.created_at, each.id), reverse=True):
            if each.outcome in self._open():
                self.counts.listed[each.outcome].append(each.id)

    def _read(self, tx: Transaction, ids: Sequence[str]) -> list[Member]:
        """Evaluate each breakpoint with its content, and return those that the rule acts on."""
        acting: list[Member] = []
        for start in range(0, len(ids), CHUNK):
            for whole in tx[Backtests].whole(ids[start : start + CHUNK]):
                effect = self.run.trial.effect(_whole(whole))
                self.counts.add(effect, whole.member.outcome, day=self._day)
                acting += [whole.member] if effect in _ACTING else []
        return acting

    def report(self, tx: Transaction) -> Report:
        items = {outcome: tx[Backtests].named(ids) for outcome, ids in self.counts.listed.items()}
        return Report(self.run.wanted, self.run.window, self.counts, items)


def _told_apart(trial: Trial) -> frozenset[str]:
    """Return the attributes by which past breakpoints are grouped; each group is evaluated only once."""
    asked = set(mentions(trial.pattern))
    if trial.action is RuleAction.AUTO:
        asked |= {"risk"}.union(*map(mentions, trial.book.patterns.values())) - _ONE_BY_ONE
        if trial.book.always_break_on:
            asked.add("tags")
    if trial.pattern.glob.text.strip("*") or trial.book.patterns or trial.book.faults:
        asked.add("gate")
    return frozenset(asked & COLUMN_OF.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outline:
    """A row without its content, as a subject for rules."""

    payload: Mapping[str, Json]
    gate: str = ""
    agent_id: str = ""
    run_id: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    strategy: str = ""
    risk: str | None = None
    priority: str = ""


def _outlined(run: Run, alike: Alike, loud: bool) -> Past:  # noqa: FBT001  # called with an unpacked cache key
    values: dict[str, Any] = dict(zip(run.sieve.columns, alike.values, strict=True))
    experts, uncertain = _experts(values.pop("seats", "[]"))
    payload = {"expert": experts, "attempt": values.pop("attempt", None)}
    values["tags"] = tuple(msgspec.json.decode(values.get("tags", "[]")))
    claimed = bool(values.pop("agent_id_claimed", 0))
    subject = subject_of(_Outline(payload=payload, **values), claimed=claimed)
    unread = _EVERYTHING - run.attributes | uncertain
    if not alike.purged:
        return Past(subject=subject, unread=unread, loud=loud)
    gone = _PURGED | uncertain
    return Past(subject=subject, unread=unread - gone, gone=gone, purged=True)


def _whole(whole: Whole) -> Past:
    purged = whole.purged_at is not None
    experts, uncertain = _experts(whole.seats) if purged else ((), frozenset[str]())
    left = {"expert": experts, "attempt": whole.attempt}
    asked = _Outline(
        gate=whole.gate,
        agent_id=whole.agent_id,
        run_id=whole.run_id,
        title=whole.title,
        tags=tuple(msgspec.json.decode(whole.tags)),
        strategy=whole.strategy,
        risk=whole.risk,
        priority=whole.priority,
        payload=left if purged else msgspec.json.decode(whole.payload),
    )
    question = Question.of(asked)
    return Past(
        subject=subject_of(asked, claimed=bool(whole.agent_id_claimed)),
        gone=_PURGED | uncertain if purged else frozenset(),
        purged=purged,
        hard_stop=question.hard_stop,
        plain=question.plain,
    )


def _experts(seats: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the requested experts, and report `expert` as unknown if an added owner may also have been requested."""
    found: list[tuple[str, list[str], bool]] = msgspec.json.decode(seats)
    names = tuple(each for name, absent, _ in found for each in (name, *absent))
    return names, _EXPERT if any(added for _, _, added in found) else frozenset()


def _proposed(tx: Transaction, *, breakpoint_id: str, by: Principal) -> str:
    by.require(Permission.READ_PEOPLE)
    found = tx[Breakpoints].look(breakpoint_id, project=by.project)
    if tx[Holds].purged_at(breakpoint_id, project=by.project) is not None:
        raise InvalidRequest("This breakpoint's content was purged, so a rule cannot be derived from it.")
    if found.payload.get("presentAlwaysApprove") is False:
        raise InvalidRequest(
            "The agent does not allow “Always approve” for this breakpoint (presentAlwaysApprove is false)."
        )
    return propose(subject_of(found, claimed=found.agent_id_claimed))


def _shadow_rule(tx: Transaction, *, rule_id: str, days: int, by: Principal) -> tuple[Rule, int, int]:
    """Return the rule, its first version with the current pattern and action, and the start of the period."""
    rule = tx[Rules].get(rule_id, project=by.project)
    version = rule.version
    for event in reversed(tx[Rules].events(rule_id)):
        said: Mapping[str, Json] = event.metadata["rule"]
        if (said["pattern"], said["action"]) != (rule.pattern, rule.action):
            break
        version = event.seq
    return rule, version, tx.now() - days * DAY


def _shadows(tx: Transaction, *, rule_id: str, before: str) -> list[Shadow]:
    return tx[Backtests].shadows(rule_id, before=before, limit=SHADOWS)


def _agreement(rule: Rule, shadow: Shadow) -> tuple[str, ...]:
    """Return the rule's effect, and whether people agreed, disagreed or did not decide."""
    if rule.action == RuleAction.AUTO and not shadow.recommended:
        return ("stopped",)
    said = "would_approve" if shadow.recommended else "would_stop"
    if shadow.outcome is Outcome.AUTO:
        return said, "auto"
    if shadow.outcome not in {Outcome.APPROVED, Outcome.REJECTED}:
        return said, "undecided"
    return said, "agreed" if (shadow.outcome is Outcome.APPROVED) == shadow.recommended else "disagreed"
