"""Shapes of back-tests."""

from typing import Annotated, Any

from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import DecisionName, Pattern, RuleActionName

Days = Annotated[int, Limits(ge=1, le=3650)]
Examples = Annotated[int, Limits(ge=0, le=1000)]


class BacktestRule(Shape, frozen=True, kw_only=True):
    """A pattern to back-test without saving a rule."""

    pattern: Pattern
    action: RuleActionName = "auto-approve"
    days: Days = 30
    """Number of days to look back."""
    limit: Examples = 50
    """Maximum number of breakpoints in each list."""


class PastBreakpoint(Shape, frozen=True, kw_only=True):
    """A breakpoint in the result of a back-test."""

    id: str
    gate: str
    title: str | None = None
    agent_id: str
    created_at: str
    decision: DecisionName | None = None
    """Decision, if one was made."""
    decided_by: str | None = None
    at: str | None = None
    feedback: str | None = None


class CutLists(Shape, frozen=True, kw_only=True):
    """Which lists were truncated to the requested limit."""

    rejections: bool = False
    waiting_items: bool = False
    auto_items: bool = False


class Backtest(Shape, frozen=True, kw_only=True):
    """What a rule would have decided for past breakpoints, compared with their actual outcomes."""

    pattern: str
    action: Annotated[str, DocumentedAs(RuleActionName)]
    """Action of the rule."""
    days: int
    since: str
    until: str
    scanned: int
    """Number of breakpoints in the period."""
    matched: int
    """Number of breakpoints that match the pattern. This is the sum of `stopped`, `purged` and either `wouldApprove` or
    `wouldStop`.
    """
    unknown: int
    """Number of breakpoints for which the server cannot determine whether the pattern matches."""
    stopped: int
    """Number of matching breakpoints that would have required human approval regardless of the rule."""
    purged: int
    """Number of matching breakpoints that may have required human approval, but whose content has been purged."""
    would_approve: int
    """Number of breakpoints that an auto-approve rule would have approved. Always 0 for a `never-auto-approve` rule."""
    would_stop: int
    """Number of breakpoints that a `never-auto-approve` rule would have stopped. Always 0 for an auto-approve rule."""
    approved: int
    """Number of affected breakpoints that were approved. The other outcomes are counted in `rejected`, `timedOut`,
    `auto`, `expired`, `cancelled` and `waiting`.
    """
    rejected: int
    timed_out: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    rejections: list[PastBreakpoint]
    """The most recent affected breakpoints that people rejected."""
    waiting_items: list[PastBreakpoint]
    """The most recent affected breakpoints that are still pending."""
    auto_items: list[PastBreakpoint]
    """For a `never-auto-approve` rule, the most recent affected breakpoints that rules approved."""
    more: Annotated[dict[str, bool], DocumentedAs(CutLists)]
    """Whether each of these lists was truncated."""


class Progress(Shape, frozen=True, kw_only=True):
    scanned: int
    total: int


class BacktestLine(Shape, frozen=True, kw_only=True):
    """A line of a back-test that reports its progress."""

    progress: Progress | None = None
    result: Backtest | None = None
    problem: dict[str, Any] | None = None
