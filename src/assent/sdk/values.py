"""The server's responses as frozen values; unknown fields from a newer server are ignored."""

from typing import Any, Literal, TypeAlias

import msgspec

StatusName: TypeAlias = Literal["waiting", "released", "expired", "cancelled"]
DecisionName: TypeAlias = Literal["approved", "rejected"]


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Attributes in snake_case, JSON in camelCase."""


class BreakpointResult(Value, frozen=True, kw_only=True):
    """The outcome that an agent acts on; `approved` is true only after an explicit approval."""

    approved: bool
    status: StatusName
    auto: bool
    decision: DecisionName | None = None
    response: str | None = None
    feedback: str | None = None
    option: str | None = None
    responded_by: str | None = None
    all_responses: list[dict[str, Any]] | None = None
    via: str | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON, with the field names of the API."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}" for name in self.__struct_fields__ if (value := getattr(self, name)) is not None
        )
        return f"BreakpointResult({shown})"

    def __bool__(self) -> bool:
        """Return whether it was approved, so that `if result:` is true only for an approval."""
        return self.approved is True


class Feedback(Value, frozen=True, kw_only=True):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: str


class Status(Value, frozen=True, kw_only=True):
    """The status of a breakpoint."""

    status: StatusName
    updated_at: str
    decision: DecisionName | None = None
    feedback: list[Feedback] | None = None
    result: BreakpointResult | None = None

    @property
    def ended(self) -> bool:
        return self.status != "waiting"

    @property
    def approved(self) -> bool:
        """True only if it was released with an approval, not after a timeout, a cancellation or anything unclear."""
        explicit = self.result is not None and self.result.approved
        return self.status == "released" and self.decision == "approved" and explicit


class Summary(Value, frozen=True, kw_only=True):
    """A breakpoint as it appears in a list."""

    id: str
    breakpoint_id: str
    status: StatusName
    agent_id: str
    gate: str
    tags: list[str]
    experts: list[str]
    strategy: str
    priority: str
    created_at: str
    updated_at: str
    decision: DecisionName | None = None
    run_id: str | None = None
    title: str | None = None
    question: str | None = None
    risk: str | None = None
    attempt: int | None = None
    deadline: str | None = None
    due_at: str | None = None
    released_at: str | None = None
    expired_at: str | None = None
    cancelled_at: str | None = None
    decided_by: str | None = None


class Breakpoint(Summary, frozen=True, kw_only=True):
    """A breakpoint with all fields."""

    payload: dict[str, Any]
    feedback: list[Feedback]
    responses: list[dict[str, Any]]
    auto_approval: dict[str, Any]
    digest: str
    on_timeout: str
    created_by: str
    warnings: list[str]
    version: int
    agent_id_claimed: bool | None = None
    """Whether the agent's ID is only claimed by the agent itself."""
    pending_answers: list[dict[str, Any]] | None = None
    """Answers that can still be undone."""
    result: BreakpointResult | None = None
    ttl_seconds: int | None = None
    callback_url: str | None = None
    purged_at: str | None = None


class Page(Value, frozen=True, kw_only=True):
    items: list[Summary]
    next_cursor: str | None = None
    counts: dict[str, int] | None = None


class Event(Value, frozen=True, kw_only=True):
    id: str
    breakpoint_id: str
    seq: int
    type: str
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class Events(Value, frozen=True, kw_only=True):
    items: list[Event]


class UploadedFile(Value, frozen=True, kw_only=True):
    sha256: str
    size: int


class CreatedToken(Value, frozen=True, kw_only=True):
    """A token with its secret, which the server shows only once."""

    token: str
    id: str
    kind: str
    name: str
    roles: list[str]
    gates: list[str]
    agent_ids: list[str]
    agent_id_claimed: bool
    processes: list[str]
    created_at: str
    created_by: str
    agent: str | None = None
    person: str | None = None
    creates_per_minute: int | None = None
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None


class Delivery(Value, frozen=True, kw_only=True):
    """One message to one recipient about one event."""

    id: str
    breakpoint_id: str
    channel: str
    recipient: str
    type: str
    seq: int
    state: str
    attempts: int
    created_at: str
    updated_at: str
    next_attempt_at: str | None = None
    last_error: str | None = None


class Attempt(Value, frozen=True, kw_only=True):
    n: int
    at: str
    worker: str
    milliseconds: int | None = None
    status: int | None = None
    error: str | None = None


class DeliveryWithLog(Delivery, frozen=True, kw_only=True):
    log: list[Attempt]


class DeliveryPage(Value, frozen=True, kw_only=True):
    items: list[Delivery]
    next_cursor: str | None = None


class Rule(Value, frozen=True, kw_only=True):
    id: str
    pattern: str
    action: str
    created_at: str
    created_by: str
    source: str
    mode: str
    enabled: bool
    order: int
    updated_at: str
    version: int
    note: str | None = None
    expires_at: str | None = None
    removed_at: str | None = None
    problem: str | None = None
    """Why the rule cannot be read, or None if it can."""
    warnings: list[str] | None = None
    """Warnings about what else the rule would approve; present only when a single rule is written or shown."""


class Rules(Value, frozen=True, kw_only=True):
    items: list[Rule]


class RuleEvent(Value, frozen=True, kw_only=True):
    rule_id: str
    seq: int
    type: str
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class RuleEvents(Value, frozen=True, kw_only=True):
    items: list[RuleEvent]


class RuleCheck(Value, frozen=True, kw_only=True):
    """Whether a breakpoint would be auto-approved, and every step of the evaluation."""

    recommended: bool
    reason: str
    consecutive_approvals: int
    trace: list[dict[str, Any]]
    shadow: list[dict[str, Any]]
    matched_rule: str | None = None


class ImportedRule(Value, frozen=True, kw_only=True):
    outcome: str
    pattern: str
    action: str
    index: int | None = None
    file_id: str | None = None
    id: str | None = None
    warnings: list[str] | None = None


class RulesImported(Value, frozen=True, kw_only=True):
    """The result of an import, or of a dry run."""

    dry_run: bool
    added: int
    changed: int
    unchanged: int
    removed: int
    total_rules: int
    items: list[ImportedRule]


class HistoryEntry(Value, frozen=True, kw_only=True):
    """A past breakpoint and its outcome."""

    id: str
    breakpoint_id: str
    gate: str
    agent_id: str
    status: StatusName
    auto: bool
    created_at: str
    strategy: str
    title: str | None = None
    decision: DecisionName | None = None
    decided_by: str | None = None
    matched_rule: str | None = None
    ended_at: str | None = None
    response_seconds: float | None = None
    feedback: str | None = None


class AgentStreak(Value, frozen=True, kw_only=True):
    agent_id: str
    streak: int


class GateSummary(Value, frozen=True, kw_only=True):
    """The statistics of a gate; `complete` is false if only its newest `counted_at_most` breakpoints were counted."""

    gate: str
    asked: int
    approved: int
    rejected: int
    auto: int
    expired: int
    cancelled: int
    waiting: int
    streaks: list[AgentStreak]
    counted_at_most: int
    complete: bool
    agent_id: str | None = None
    median_response_seconds: float | None = None
    streak: int | None = None
    since: str | None = None


class HistoryPage(Value, frozen=True, kw_only=True):
    items: list[HistoryEntry]
    next_cursor: str | None = None
    summary: GateSummary | None = None


class PastBreakpoint(Value, frozen=True, kw_only=True):
    """A breakpoint as it appears in a back-test."""

    id: str
    gate: str
    agent_id: str
    created_at: str
    title: str | None = None
    decision: DecisionName | None = None
    decided_by: str | None = None
    at: str | None = None
    feedback: str | None = None


class Backtest(Value, frozen=True, kw_only=True):
    """The decisions that a rule would have made, and the actual outcomes of those breakpoints."""

    pattern: str
    action: str
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
    more: dict[str, bool]
    """Which of the lists are truncated."""


class Progress(Value, frozen=True, kw_only=True):
    scanned: int
    total: int


class BacktestLine(Value, frozen=True, kw_only=True):
    """A line of a back-test that reports its progress."""

    progress: Progress | None = None
    result: Backtest | None = None
    problem: dict[str, Any] | None = None


class ShadowReport(Value, frozen=True, kw_only=True):
    """The recommendations of a rule in shadow mode since its definition last changed, and people's decisions."""

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


def plain(value: object) -> Any:  # noqa: ANN401  # any JSON
    """Return a value as JSON, with the field names of the API."""
    return msgspec.to_builtins(value)
