"""Read-only metrics: pending breakpoints, decision times, reviewers' decisions, and statistics per gate."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Final

from assent.audit.store.chains import Audit
from assent.breakpoints.store.history import Counted, History
from assent.breakpoints.store.metrics import Metrics, Raised
from assent.breakpoints.usecases.history import is_auto, response_seconds
from assent.core.access import Permission, Principal
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.policy.store.rules import Rules

HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
OUTCOMES: Final = ("approved", "rejected", "auto", "expired", "cancelled", "waiting")
LOOKED_AT: Final = 800
"""Maximum number of breakpoints evaluated per step, so that busy projects do not take longer."""
PARTS: Final = 8
"""Busier steps are sampled evenly from this many parts; otherwise, the last minutes could represent an entire day."""
COUNT_CAP: Final = 100_000
MOST_GATES: Final = 20
GATE_PAGE: Final = 50
GATE_LOOKED_AT: Final = 200
GATE_COUNT_CAP: Final = 10_000
GATE_DAYS: Final = 30
STREAK_CAP: Final = 25
MOST_STREAKS: Final = 3


@dataclass(frozen=True, slots=True)
class Period:
    """The time range of metrics, and the length and number of its steps."""

    name: str
    label: str
    step: int
    steps: int


PERIODS: Final = {
    each.name: each
    for each in (
        Period("24h", "24 hours", HOUR, 24),
        Period("7d", "7 days", 6 * HOUR, 28),
        Period("30d", "30 days", DAY, 30),
    )
}


@dataclass(frozen=True, slots=True)
class Times:
    """Percentiles of people's decision times, in seconds."""

    p50: float
    p90: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """The breakpoints created in a period, and how many were pending at its end."""

    since: int
    until: int
    raised: int
    looked_at: int
    outcomes: Counter[str]
    times: Times | None
    waiting: int


@dataclass(slots=True)
class Tally:
    """Counts for one reviewer or one gate."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])

    @property
    def count(self) -> int:
        return self.outcomes.total()

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    def share(self, outcome: str) -> float:
        return self.outcomes[outcome] / self.count if self.count else 0.0

    def add(self, row: Raised | Counted) -> None:
        self.outcomes[outcome_of(row)] += 1
        seconds = response_seconds(row)
        if seconds is not None:
            self.seconds.append(seconds)


@dataclass(frozen=True, slots=True)
class Insights:
    period: Period
    now: int
    steps: Sequence[Step]
    whole: Tally
    times: Times | None
    reviewers: Sequence[Tally]
    gates: Sequence[Tally]
    more_gates: int
    waiting_capped: bool

    @property
    def raised(self) -> int:
        return sum(each.raised for each in self.steps)

    @property
    def looked_at(self) -> int:
        return sum(each.looked_at for each in self.steps)


@dataclass(frozen=True, slots=True)
class GateLine:
    """A gate in the list; everything except the count comes from its newest breakpoints."""

    gate: str
    asked: int
    capped: bool
    last_at: int
    tally: Tally
    streaks: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class GatePage:
    lines: Sequence[GateLine]
    more: bool
    since: int


class MetricsService:
    def __init__(
        self, database: Database[Transaction], *, looked_at: int = LOOKED_AT, gate_looked_at: int = GATE_LOOKED_AT
    ) -> None:
        self._database = database
        self._looked_at = looked_at
        self._gate_looked_at = gate_looked_at

    async def insights(self, period: Period, *, by: Principal) -> Insights:
        by.require(Permission.READ_PEOPLE)
        return await self._database.read(partial(_insights, period=period, project=by.project, at_most=self._looked_at))

    async def gates(self, *, after: str, by: Principal) -> GatePage:
        """Return a page of the gates that follow `after`, sorted by name."""
        by.require(Permission.READ_PEOPLE)
        return await self._database.read(partial(_gates, after=after, project=by.project, at_most=self._gate_looked_at))


def outcome_of(row: Raised | Counted) -> str:
    """Return a breakpoint's outcome: a person's decision, `auto`, `expired`, or its status."""
    if is_auto(row.ended_by):
        return "auto"
    if row.ended_by is not None and row.ended_by.startswith("system:"):
        return "expired"  # includes rejections at the deadline
    return row.decision or row.status


def times(seconds: Sequence[float]) -> Times | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    at = partial(_percentile, ordered)
    return Times(at(50), at(90), at(99), len(ordered))


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile, which is an actual decision time instead of an interpolated value."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _insights(tx: Transaction, *, period: Period, project: str, at_most: int) -> Insights:
    # The counts and the rows must come from one snapshot to be consistent.
    tx[Audit].one_moment()
    now = tx.now()
    last = now // period.step
    starts = [(last - n) * period.step for n in reversed(range(period.steps))]
    raised = [tx[Metrics].raised(project, since, since + period.step) for since in starts]
    look = partial(_looked_at, tx, project, at_most=at_most)
    rows = [look(since, since + period.step, raised=n) for since, n in zip(starts, raised, strict=True)]
    waiting = tx[Metrics].waiting(project, cap=COUNT_CAP)
    seen = [row for each in rows for row in each]
    ended = _ended(tx, project, starts, period, seen)
    whole, gates = _tally("", seen), _by(seen, lambda row: row.gate)
    return Insights(
        period=period,
        now=now,
        steps=[
            _step(since, since + period.step, came, looked_at, waited)
            for since, came, looked_at, waited in zip(
                starts, raised, rows, _waited(waiting, raised, ended), strict=True
            )
        ],
        whole=whole,
        times=times(whole.seconds),
        reviewers=_by((row for row in seen if _decided_by_person(row)), lambda row: (row.ended_by or "")[7:]),
        gates=gates[:MOST_GATES],
        more_gates=max(0, len(gates) - MOST_GATES),
        waiting_capped=waiting >= COUNT_CAP,
    )


def _step(since: int, until: int, raised: int, rows: Sequence[Raised], waiting: int) -> Step:
    tally = _tally("", rows)
    return Step(since, until, raised, len(rows), tally.outcomes, times(tally.seconds), waiting)


def _ended(tx: Transaction, project: str, starts: Sequence[int], period: Period, seen: Sequence[Raised]) -> list[int]:
    # The index for counting ended breakpoints omits purged breakpoints, so count those among the evaluated rows.
    purged = Counter(
        row.ended_at // period.step for row in seen if row.ended_at is not None and row.purged_at is not None
    )
    return [tx[Metrics].ended(project, since, since + period.step) + purged[since // period.step] for since in starts]


def _waited(now: int, raised: Sequence[int], ended: Sequence[int]) -> list[int]:
    """Return how many breakpoints were pending at the end of each step, counting back from the current number."""
    waiting, found = now, list[int]()
    for came, went in zip(reversed(raised), reversed(ended), strict=True):
        found.append(max(0, waiting))
        waiting += went - came
    return found[::-1]


def _looked_at(tx: Transaction, project: str, since: int, until: int, *, raised: int, at_most: int) -> list[Raised]:
    if not raised:
        return []
    if raised <= at_most:
        return tx[Metrics].newest(project, since, until, limit=at_most)
    part = (until - since) // PARTS
    starts = [since + n * part for n in range(PARTS)]
    ends = [*starts[1:], until]
    share = at_most // PARTS
    return [
        row
        for start, stop in zip(starts, ends, strict=True)
        for row in tx[Metrics].newest(project, start, stop, limit=share)
    ]


def _decided_by_person(row: Raised) -> bool:
    return row.decision is not None and (row.ended_by or "").startswith("person:")


def _tally(name: str, rows: Iterable[Raised | Counted]) -> Tally:
    tally = Tally(name)
    for row in rows:
        tally.add(row)
    return tally


def _by(rows: Iterable[Raised], key: Callable[[Raised], str]) -> list[Tally]:
    """Return a tally for each name, busiest first."""
    found: defaultdict[str, list[Raised]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return sorted((_tally(name, each) for name, each in found.items()), key=lambda each: (-each.count, each.name))


def _gates(tx: Transaction, *, after: str, project: str, at_most: int) -> GatePage:
    tx[Audit].one_moment()
    since = tx.now() - GATE_DAYS * DAY
    names = tx[Metrics].gates(project, after=after, limit=GATE_PAGE + 1)
    lines = [_line(tx, project, gate, since, at_most) for gate in names[:GATE_PAGE]]
    return GatePage(lines, len(names) > GATE_PAGE, since)


def _line(tx: Transaction, project: str, gate: str, since: int, at_most: int) -> GateLine:
    newest = tx[History].newest(project, gate, limit=at_most)
    recent = [row for row in newest if row.created_at >= since]
    asked = len(recent)
    # The limit may have cut off some breakpoints from this period, so count all of them.
    if asked == at_most:
        asked = tx[Metrics].asked(project, gate, since=since, cap=GATE_COUNT_CAP)
    agents = [agent for agent, _ in Counter(row.agent_id for row in newest).most_common(MOST_STREAKS)]
    streaks = [(agent, tx[Rules].in_a_row(project, gate, agent, limit=STREAK_CAP)) for agent in agents]
    return GateLine(gate, asked, asked >= GATE_COUNT_CAP, newest[0].created_at, _tally(gate, recent), streaks)
