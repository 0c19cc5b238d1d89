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
    """Expiration time. Must be in the future."""
    enabled: bool = True
    order: Place | None = None
    """Position. Default: last."""
    why: Note | None = None
    """Reason, kept in the history."""


class ChangeRule(Strict):
    """The fields to change; set `note` or `expiresAt` to null to remove it."""

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
    """`live` rules are enforced. `shadow` rules are only logged."""
    enabled: bool
    order: int
    """Position. The first matching rule that approves is reported."""
    note: str | None = None
    source: str
    """`api`, or `import:` followed by the ID in the file."""
    created_by: str
    created_at: str
    updated_at: str
    expires_at: str | None = None
    removed_at: str | None = None
    version: int
    """Number of changes. Used as the ETag, such as `"v3"`."""
    problem: str | None = None
    """Why the rule cannot be parsed."""
    warnings: list[str] | None = None
    """Warnings about what an auto-approve rule would also approve. Included only in responses with a single rule."""


class RulePage(Strict):
    items: list[RuleView]


class ClaimingToken(Strict):
    id: str
    name: str


class RulesOnClaimedIds(Strict):
    """Rules that approve by agentId, and tokens that may claim any agent ID. Unless both exist, both lists are
    empty.
    """

    items: list[RuleView]
    tokens: list[ClaimingToken]


class RuleEventView(Strict):
    rule_id: str
    seq: int
    type: str
    """`rule-created`, `rule-changed` or `rule-removed`."""
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class RuleEventPage(Strict):
    items: list[RuleEventView]


class CheckRules(Strict):
    """A hypothetical breakpoint to check against the rules; it is not created."""

    breakpoint_id: Gate
    """Gate."""
    title: Title | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    expert: Name | Experts | None = None
    agent_id: Name | None = None
    """Agent whose approvals are counted. None by default."""
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
    """Each step up to and including the decisive one: `{source, reason, held, rule?, findings?}`. `held` is null if
    unknown. A finding is a part of the pattern with `held` and `actual`.
    """
    shadow: list[dict[str, Any]]
    """Matching shadow rules, and what they would have done."""


class ShadowReport(Strict):
    """Results of a shadow rule, compared with human decisions."""

    rule_id: str
    pattern: str
    action: str
    mode: str
    days: int
    since: str
    """Start of the period."""
    since_version: int
    """Version in which the rule got its current pattern and action. Earlier matches are not counted."""
    matched: int
    would_approve: int
    would_stop: int
    stopped: int
    agreed: int
    disagreed: int
    undecided: int
    auto: int
    disagreements: list[PastBreakpoint]
    """Newest breakpoints for which people decided differently."""
    more: bool
    """True if the list was truncated."""


class ProposeRule(Strict):
    days: Days = 30
    limit: Examples = 50


class RuleProposal(Strict):
    """The narrowest rule for similar breakpoints, with its back-test; nothing is saved."""

    pattern: str
    action: RuleActionName
    backtest: Backtest
    may_save: bool
    """Whether you may save this rule."""
