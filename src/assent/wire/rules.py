"""Rules, what they say of a question, and how one is proposed."""

from typing import Annotated, Any, Literal

from pydantic import Field

from assent.wire.backtest import Backtest, Days, Examples, PastBreakpoint
from assent.wire.words import (
    Experts,
    Gate,
    Moment,
    Name,
    Note,
    Pattern,
    RuleActionName,
    StrategyName,
    Strict,
    Tag,
    Title,
)

RuleModeName = Literal["live", "shadow"]
Place = Annotated[int, Field(ge=0, le=1_000_000)]


class CreateRule(Strict):
    pattern: Pattern
    action: RuleActionName
    note: Note | None = None
    mode: RuleModeName = "live"
    expires_at: Moment | None = None
    enabled: bool = True
    order: Place | None = None
    why: Note | None = None


class ChangeRule(Strict):
    """The fields to change; `note` and `expiresAt` may be null, which takes them away."""

    pattern: Pattern | None = None
    action: RuleActionName | None = None
    note: Note | None = None
    mode: RuleModeName | None = None
    expires_at: Moment | None = None
    enabled: bool | None = None
    order: Place | None = None
    why: Note | None = None


class RuleView(Strict):
    id: str
    pattern: str
    action: str
    mode: str
    enabled: bool
    order: int
    note: str | None = None
    source: str
    created_by: str
    created_at: str
    updated_at: str
    expires_at: str | None = None
    removed_at: str | None = None
    version: int
    problem: str | None = None
    warnings: list[str] | None = None
    """What an auto-approve rule would also approve; told where one rule is written or shown."""


class RulePage(Strict):
    items: list[RuleView]


class ClaimingToken(Strict):
    id: str
    name: str


class RulesOnClaimedIds(Strict):
    """Rules that approve by agentId, and tokens that may claim any; both lists are empty unless there are both."""

    items: list[RuleView]
    tokens: list[ClaimingToken]


class RuleEventView(Strict):
    rule_id: str
    seq: int
    type: str
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class RuleEventPage(Strict):
    items: list[RuleEventView]


class CheckRules(Strict):
    """A breakpoint as an agent might raise it; nothing is raised."""

    breakpoint_id: Gate
    title: Title | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    expert: Name | Experts | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    risk: Literal["low", "medium", "high"] | None = None
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    strategy: StrategyName | None = None
    attempt: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    hard_stop: bool | None = None
    auto_approve_after_n: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    payload: dict[str, Any] | None = None


class RuleCheck(Strict):
    recommended: bool
    reason: str
    matched_rule: str | None = None
    consecutive_approvals: int
    trace: list[dict[str, Any]]
    shadow: list[dict[str, Any]]


class ShadowReport(Strict):
    """What a rule in shadow said, and what people did."""

    rule_id: str
    pattern: str
    action: str
    mode: str
    days: int
    since: str
    since_version: int
    matched: int
    would_approve: int
    would_stop: int
    stopped: int
    agreed: int
    disagreed: int
    undecided: int
    auto: int
    disagreements: list[PastBreakpoint]
    more: bool


class ProposeRule(Strict):
    days: Days = 30
    limit: Examples = 50


class RuleProposal(Strict):
    """The narrowest rule for more of the same, and what it would have done; nothing is saved."""

    pattern: str
    action: RuleActionName
    backtest: Backtest
    may_save: bool
