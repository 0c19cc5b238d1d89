"""History: past breakpoints with their outcomes, and statistics for a gate."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from assent.breakpoints.store.history import Counted, History, More
from assent.breakpoints.store.metrics import Raised
from assent.breakpoints.store.reading import Query, Summary
from assent.breakpoints.usecases.inbox import InboxService
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.policy.store.rules import Rules

COUNTED_AT_MOST = 2_000
"""Maximum number of breakpoints counted per gate, so that queries for old gates do not take longer."""
LONGEST_STREAK = 1_000
MOST_AGENTS = 50


@dataclass(frozen=True, slots=True)
class Past:
    """A breakpoint with the details that the list omits."""

    row: Summary
    more: More


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Statistics for a gate, based on its newest breakpoints."""

    counts: "Counter[str]"
    median_response: float | None
    streaks: tuple[tuple[str, int], ...]
    """Each agent's number of consecutive approvals by people, busiest agents first."""
    counted_at_most: int
    complete: bool
    since: int | None


class HistoryService:
    def __init__(
        self, database: Database[Transaction], inbox: InboxService, *, counted_at_most: int = COUNTED_AT_MOST
    ) -> None:
        self._database = database
        self._inbox = inbox
        self._counted_at_most = counted_at_most

    async def page(self, query: Query) -> list[Past]:
        """Return up to limit + 1 breakpoints, newest first."""
        rows = await self._inbox.page(query)
        ids = [row.id for row in rows]
        more = await self._database.read(lambda tx: tx[History].more(ids)) if ids else {}
        return [Past(row, more[row.id]) for row in rows]

    async def standing(self, query: Query) -> Standing:
        return await self._database.read(partial(_standing, query=query, at_most=self._counted_at_most))


def _standing(tx: Transaction, query: Query, at_most: int) -> Standing:
    assert query.gate is not None, "the query must name a gate"
    # The extra row shows whether there are more breakpoints.
    rows = tx[History].newest(query.project, query.gate, limit=at_most + 1)
    looked_at = rows[:at_most]
    counted = [row for row in looked_at if _asked_for(row, query)]
    gate, project = query.gate, query.project
    return Standing(
        counts=Counter(outcome(row) for row in counted),
        median_response=_median_response(counted),
        streaks=tuple(
            (agent, tx[Rules].in_a_row(project, gate, agent, limit=LONGEST_STREAK)) for agent in _agents(counted, query)
        ),
        counted_at_most=at_most,
        complete=len(rows) <= at_most,
        since=looked_at[-1].created_at if looked_at else None,
    )


def _agents(counted: Sequence[Counted], query: Query) -> list[str]:
    """Return the agents whose consecutive approvals are counted: the requested agent, or the busiest agents."""
    if query.agent_id is not None and query.created_by_id is None:
        return [query.agent_id]
    return [agent for agent, _ in Counter(row.agent_id for row in counted).most_common(MOST_AGENTS)]


def _asked_for(row: Counted, query: Query) -> bool:
    return query.agent_id in {None, row.agent_id} and query.created_by_id in {None, row.created_by_id}


def outcome(row: Counted) -> str:
    """Return a breakpoint's outcome; approvals by rules are counted separately, as `auto`."""
    if is_auto(row.ended_by):
        return "auto"
    return row.decision or row.status


def is_auto(ended_by: str | None) -> bool:
    return ended_by is not None and ended_by.startswith("rule:")


def _median_response(rows: Sequence[Counted]) -> float | None:
    times = [seconds for row in rows if (seconds := response_seconds(row)) is not None]
    return median(times) if times else None


def response_seconds(row: Counted | Summary | Raised) -> float | None:
    """Return how long a person took to decide, or None if no person decided."""
    if row.decision is None or row.ended_at is None or not (row.ended_by or "").startswith("person:"):
        return None
    return (row.ended_at - row.created_at) / SECOND
