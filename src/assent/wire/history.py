"""What was decided at a gate."""

from assent.wire.words import DecisionName, StatusName, StrategyName, Strict


class HistoryEntry(Strict):
    """One breakpoint in the history of its gate."""

    id: str
    breakpoint_id: str
    gate: str
    agent_id: str
    title: str | None = None
    status: StatusName
    decision: DecisionName | None = None
    decided_by: str | None = None
    auto: bool
    """Auto-approved."""
    matched_rule: str | None = None
    """Rule that determined whether approval was required."""
    created_at: str
    ended_at: str | None = None
    response_seconds: float | None = None
    """Set only if a person decided."""
    strategy: StrategyName
    feedback: str | None = None


class AgentStreak(Strict):
    agent_id: str
    streak: int


class GateSummary(Strict):
    """Statistics on a gate's latest breakpoints. `complete` is false if older breakpoints were not counted."""

    gate: str
    agent_id: str | None = None
    asked: int
    """Sum of approved, rejected (by people or deadlines), auto, expired, cancelled and waiting."""
    approved: int
    rejected: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    median_response_seconds: float | None = None
    streak: int | None = None
    """Consecutive approvals of the requested agentId."""
    streaks: list[AgentStreak]
    """Consecutive approvals (up to 1,000) for the 50 busiest agents. autoApproveAfterN is compared with them."""
    counted_at_most: int
    """Only the newest 2,000 breakpoints are counted."""
    complete: bool
    """False if the gate has older breakpoints that were not counted."""
    since: str | None = None
    """Creation time of the oldest counted breakpoint."""


class HistoryPage(Strict):
    items: list[HistoryEntry]
    next_cursor: str | None = None
    summary: GateSummary | None = None
