"""What a pattern would have approved."""

from typing import Annotated

from pydantic import Field

from assent.wire.words import DecisionName, Pattern, RuleActionName, Strict

Days = Annotated[int, Field(ge=1, le=3650)]
Examples = Annotated[int, Field(ge=0, le=1000)]


class BacktestRule(Strict):
    """A pattern to hold against the past; nothing is saved."""

    pattern: Pattern
    action: RuleActionName = "auto-approve"
    days: Days = 30
    limit: Examples = 50


class PastBreakpoint(Strict):
    """A breakpoint as a back-test names it."""

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
    """Which of the lists are longer than was asked for."""

    rejections: bool = False
    waiting_items: bool = False
    auto_items: bool = False


class Backtest(Strict):
    """What a pattern would have done to past breakpoints, and what became of those without it."""

    pattern: str
    action: RuleActionName
    days: int
    since: str
    until: str
    scanned: int
    matched: int
    unknown: int
    stopped: int
    purged: int
    would_approve: int
    would_stop: int
    approved: int
    rejected: int
    timed_out: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    rejections: list[PastBreakpoint]
    waiting_items: list[PastBreakpoint]
    auto_items: list[PastBreakpoint]
    more: CutLists
