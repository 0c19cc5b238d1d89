"""Shapes of rules, their evaluation and their changes."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from assent.contracts.backtest import Backtest, Days, Examples, PastBreakpoint
from assent.contracts.shape import Limits, Shape
from assent.contracts.words import (
    Experts,
    Gate,
    Moment,
    Name,
    Note,
    Pattern,
    RuleActionName,
    StrategyName,
    Tag,
    Title,
)

RuleModeName = Literal["live", "shadow"]
Place = Annotated[int, Limits(ge=0, le=1_000_000)]


class CreateRule(Shape, frozen=True, kw_only=True):
    pattern: Pattern
    """Pattern that determines which breakpoints the rule matches."""
    action: RuleActionName
    """What the rule does with the breakpoints that it matches."""
    note: Note | None = None
    """Note about the rule."""
    mode: RuleModeName = "live"
    """Whether the rule is enforced (`live`) or only logged (`shadow`)."""
    expires_at: Moment | None = None
    """Time at which the rule expires. It must be in the future."""
    enabled: bool = True
    """Whether the rule is enabled."""
    order: Place | None = None
    """Position of the rule in the evaluation order. By default, it is added at the end."""
    why: Note | None = None
    """Reason for the change, kept in the rule's history."""


class ChangeRule(Shape, frozen=True, kw_only=True):
    """The fields to change. To remove `note` or `expiresAt`, set the field to null."""

    pattern: Pattern | UnsetType | None = UNSET
    action: RuleActionName | UnsetType | None = UNSET
    note: Note | UnsetType | None = UNSET
    mode: RuleModeName | UnsetType | None = UNSET
    expires_at: Moment | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET
    order: Place | UnsetType | None = UNSET
    why: Note | UnsetType | None = UNSET


class Rule(Shape, frozen=True, kw_only=True):
    id: str
    pattern: str
    action: str
    mode: str
    """Whether the rule is enforced (`live`) or only logged (`shadow`)."""
    enabled: bool
    order: int
    """Position of the rule. If several rules would approve, the first of them is reported."""
    note: str | None = None
    source: str
    """Origin of the rule, such as `api`, `always-approve`, or `import:` followed by its ID in the imported file."""
    created_by: str
    created_at: str
    updated_at: str
    expires_at: str | None = None
    removed_at: str | None = None
    version: int
    """Number of changes. The ETag contains this number, for example `"v3"`."""
    problem: str | None = None
    """Why the rule cannot be parsed."""
    warnings: list[str] | None = None
    """Warnings about what else an auto-approve rule would approve. Included only in responses with a single rule."""


class Rules(Shape, frozen=True, kw_only=True):
    items: list[Rule]


class ClaimingToken(Shape, frozen=True, kw_only=True):
    id: str
    name: str


class RulesOnClaimedIds(Shape, frozen=True, kw_only=True):
    """Rules that approve based on the agent ID, and tokens that may claim any agent ID. Unless both exist, both lists
    are empty.
    """

    items: list[Rule]
    tokens: list[ClaimingToken]


class RuleEvent(Shape, frozen=True, kw_only=True):
    rule_id: str
    seq: int
    type: str
    """Type of the event: `rule-created`, `rule-changed` or `rule-removed`."""
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class RuleEvents(Shape, frozen=True, kw_only=True):
    items: list[RuleEvent]


class CheckRules(Shape, frozen=True, kw_only=True):
    """A hypothetical breakpoint to check against the rules."""

    breakpoint_id: Gate
    """Name of the gate."""
    title: Title | None = None
    """Title of the breakpoint."""
    tags: Annotated[list[Tag], Limits(max_length=50)] | None = None
    """Tags of the breakpoint."""
    expert: Name | Experts | None = None
    """People or groups that must answer, or `owner`."""
    agent_id: Name | None = None
    """ID of the agent whose consecutive approvals are counted. By default, none are counted."""
    run_id: Name | None = None
    """ID of the run that the breakpoint belongs to."""
    risk: Literal["low", "medium", "high"] | None = None
    """Risk level of the breakpoint."""
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    """Priority of the breakpoint."""
    strategy: StrategyName | None = None
    """Strategy that determines how answers become a decision."""
    attempt: Annotated[int, Limits(ge=0, le=1_000_000)] | None = None
    """Number of the agent's current attempt."""
    hard_stop: bool | None = None
    """Whether the breakpoint requires human approval."""
    auto_approve_after_n: Annotated[int, Limits(ge=-1, le=1_000_000)] | None = None
    """Number of consecutive human approvals after which breakpoints are auto-approved."""
    payload: dict[str, Any] | None = None
    """Content of the breakpoint."""


class RuleCheck(Shape, frozen=True, kw_only=True):
    recommended: bool
    reason: str
    matched_rule: str | None = None
    consecutive_approvals: int
    trace: list[dict[str, Any]]
    """Steps of the evaluation, up to and including the decisive one, as `{source, reason, held, rule?, findings?}`
    objects. `held` says whether the step matched; it is null if this is unknown. Each finding describes a part of the
    pattern, with `held` and `actual`.
    """
    shadow: list[dict[str, Any]]
    """Shadow rules that matched, and what they would have done."""


class ShadowReport(Shape, frozen=True, kw_only=True):
    """Results of a shadow rule, compared with human decisions."""

    rule_id: str
    pattern: str
    action: str
    mode: str
    days: int
    since: str
    """Start of the period."""
    since_version: int
    """Version of the rule in which its pattern or action last changed. Matches of earlier versions are not counted."""
    matched: int
    would_approve: int
    would_stop: int
    stopped: int
    agreed: int
    disagreed: int
    undecided: int
    auto: int
    disagreements: list[PastBreakpoint]
    """The most recent breakpoints for which people decided differently."""
    more: bool
    """Whether the list was truncated."""


class ProposeRule(Shape, frozen=True, kw_only=True):
    days: Days = 30
    """Number of days to look back."""
    limit: Examples = 50
    """Maximum number of breakpoints in each list."""


class RuleProposal(Shape, frozen=True, kw_only=True):
    """The narrowest rule that matches similar breakpoints, with its back-test. The rule is not saved."""

    pattern: str
    action: RuleActionName
    """Action of the proposed rule."""
    backtest: Backtest
    """Back-test of the proposed rule."""
    may_save: bool
    """Whether you are allowed to save this rule."""
