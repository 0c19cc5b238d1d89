"""What a pattern would have approved."""

from typing import Annotated

from pydantic import Field

from assent.wire.words import DecisionName, Pattern, RuleActionName, Strict

Days = Annotated[int, Field(ge=1, le=3650)]
Examples = Annotated[int, Field(ge=0, le=1000)]


class BacktestRule(Strict):
    """A pattern to back-test; nothing is saved."""

    pattern: Pattern
    action: RuleActionName = "auto-approve"
    days: Days = 30
    limit: Examples = 50
    """Maximum length of each list."""


class PastBreakpoint(Strict):
    """A breakpoint in the result of a back-test."""

    id: str
    gate: str
    title: str | None = None
    agent_id: str
    created_at: str
    decision: DecisionName | None = None
    decided_by: str | None = None
    at: str | None = None
    feedback: str | None = None


class CutLists(Strict):
    """Which lists were truncated to the requested limit."""

    rejections: bool = False
    waiting_items: bool = False
    auto_items: bool = False


class Backtest(Strict):
    """What a rule would have decided for past breakpoints, compared with their actual outcomes."""

    pattern: str
    action: RuleActionName
    days: int
    since: str
    until: str
    scanned: int
    """Number of breakpoints in this period."""
    matched: int
    """Number of matching breakpoints: the sum of stopped, purged, and wouldApprove or wouldStop."""
    unknown: int
    """Number of breakpoints for which it is unknown whether the pattern matches."""
    stopped: int
    """Number of breakpoints that would have required human approval anyway."""
    purged: int
    """Number of matching breakpoints whose purged content may have required human approval."""
    would_approve: int
    """Number of breakpoints that an auto-approve rule would have approved; 0 for a never rule."""
    would_stop: int
    """Number of breakpoints that a never rule would have stopped; 0 for an auto-approve rule."""
    approved: int
    """Number of affected breakpoints that were approved. The other outcomes are counted in rejected, timedOut, auto,
    expired, cancelled and waiting.
    """
    rejected: int
    timed_out: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    rejections: list[PastBreakpoint]
    """Newest affected breakpoints that people rejected."""
    waiting_items: list[PastBreakpoint]
    """Newest affected breakpoints that are pending."""
    auto_items: list[PastBreakpoint]
    """For a never rule: newest affected breakpoints that rules approved."""
    more: CutLists
