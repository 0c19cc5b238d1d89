"""What was decided at a gate."""

from assent.wire.words import DecisionName, StatusName, StrategyName, Strict


class HistoryEntry(Strict):
    """One breakpoint as the history of its gate shows it."""

    id: str
    breakpoint_id: str
    gate: str
    agent_id: str
    title: str | None = None
    status: StatusName
    decision: DecisionName | None = None
    decided_by: str | None = None
    auto: bool
    matched_rule: str | None = None
    created_at: str
    ended_at: str | None = None
    response_seconds: float | None = None
    strategy: StrategyName
    feedback: str | None = None


class AgentStreak(Strict):
    agent_id: str
    streak: int


class GateSummary(Strict):
    """A gate's newest breakpoints, counted; `complete` is false where there are older ones."""

    gate: str
    agent_id: str | None = None
    asked: int
    approved: int
    rejected: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    median_response_seconds: float | None = None
    streak: int | None = None
    streaks: list[AgentStreak]
    counted_at_most: int
    complete: bool
    since: str | None = None


class HistoryPage(Strict):
    items: list[HistoryEntry]
    next_cursor: str | None = None
    summary: GateSummary | None = None
