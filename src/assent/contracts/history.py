"""Shapes of past breakpoints and statistics per gate."""

from typing import Annotated

from assent.contracts.shape import DocumentedAs, Shape
from assent.contracts.words import DecisionName, StatusName, StrategyName


class HistoryEntry(Shape, frozen=True, kw_only=True):
    """One breakpoint in the history of its gate."""

    id: str
    breakpoint_id: str
    gate: str
    agent_id: str
    title: str | None = None
    status: StatusName
    """Status of the breakpoint."""
    decision: DecisionName | None = None
    """Decision, if one was made."""
    decided_by: str | None = None
    auto: bool
    """Whether the breakpoint was auto-approved."""
    matched_rule: str | None = None
    """ID of the rule that determined whether human approval was required."""
    created_at: str
    ended_at: str | None = None
    response_seconds: float | None = None
    """Number of seconds until the decision. Set only if a person made the decision."""
    strategy: Annotated[str, DocumentedAs(StrategyName)]
    """Strategy that determined how answers became a decision."""
    feedback: str | None = None


class AgentStreak(Shape, frozen=True, kw_only=True):
    agent_id: str
    streak: int


class GateSummary(Shape, frozen=True, kw_only=True):
    """Statistics on a gate's most recent breakpoints."""

    gate: str
    agent_id: str | None = None
    asked: int
    """Number of counted breakpoints: the sum of `approved`, `rejected` (by people or deadlines), `auto`,
    `expired`, `cancelled` and `waiting`.
    """
    approved: int
    rejected: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    median_response_seconds: float | None = None
    streak: int | None = None
    """Number of consecutive approvals for the requested `agentId`."""
    streaks: list[AgentStreak]
    """Number of consecutive approvals (up to 1,000) for each of the 50 busiest agents. This is the number that is
    compared with `autoApproveAfterN`.
    """
    counted_at_most: int
    """Maximum number of breakpoints that are counted (2,000). Only the gate's most recent breakpoints are counted."""
    complete: bool
    """`false` if the gate has older breakpoints that were not counted."""
    since: str | None = None
    """Time at which the oldest counted breakpoint was created."""


class HistoryPage(Shape, frozen=True, kw_only=True):
    items: list[HistoryEntry]
    next_cursor: str | None = None
    summary: GateSummary | None = None
