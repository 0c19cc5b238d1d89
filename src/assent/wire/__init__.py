"""The JSON shapes that the API and the SDK share; no behaviour."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

MAX_TTL = 366 * 24 * 3600
MAX_RETENTION = 36_500

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Handle = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Gate = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Text = Annotated[str, StringConstraints(max_length=20_000)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Format = Literal["markdown", "html", "code", "text", "diff", "image", "json"]
StatusName = Literal["waiting", "released", "expired", "cancelled"]
DecisionName = Literal["approved", "rejected"]
StrategyName = Literal["single", "first-response-wins", "collect-all", "quorum"]
DeliveryState = Literal["pending", "sending", "sent", "answered", "superseded", "dead"]
RoleName = Literal["viewer", "reviewer", "rule-admin", "auditor", "admin"]
Experts = Annotated[list[Name], Field(min_length=1, max_length=50)]


class Strict(BaseModel):
    """Types are taken at their word and unknown fields refused."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Open(BaseModel):
    """Known fields are checked; the others are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class ContextFile(Strict):
    path: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
    format: Format
    language: Annotated[str, StringConstraints(max_length=50)] | None = None
    content: str | None = None
    content_base64: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None = None
    sha256: Sha256 | None = None


class Context(Open):
    run_id: Name | None = None
    files: Annotated[list[ContextFile], Field(max_length=100)] | None = None


class Payload(Open):
    """What the agent shows and asks. Unknown fields are kept and shown."""

    question: Text | None = None
    title: Title | None = None
    context: Context | None = None
    expert: Name | Experts | None = None
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    strategy: StrategyName | None = None
    previous_feedback: Text | None = None
    attempt: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    breakpoint_id: Gate | None = None
    auto_approve_after_n: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    present_always_approve: bool | None = None
    options: Annotated[list[Title], Field(min_length=1, max_length=50)] | None = None
    form: dict[str, Any] | None = None
    hard_stop: bool | None = None
    risk: Literal["low", "medium", "high"] | None = None
    editable: Annotated[list[Name], Field(max_length=100)] | None = None


class CreateBreakpoint(Strict):
    agent_id: Name
    run_id: Name | None = None
    title: Title | None = None
    payload: Payload
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    on_timeout: Literal["expire", "reject"] | None = None
    callback_url: (
        Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[^\s\x00-\x1f\x7f]+$")] | None
    ) = None
    priority: Literal["low", "normal", "high", "urgent"] | None = None


class GiveFeedback(Strict):
    """A comment, or an answer: `release` approves unless `approved` is false; `approved` alone implies release."""

    comment: Text | None = None
    release: bool | None = None
    approved: bool | None = None
    option: Title | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None
    confirm: Annotated[str, StringConstraints(max_length=300)] | None = None
    digest: Sha256 | None = None


class AutoApproval(Strict):
    recommended: bool
    reason: str
    matched_rule: str | None = None
    consecutive_approvals: int


class OneResponse(Open):
    responded_by: str
    approved: bool
    via: str
    responded_at: str


class BreakpointResult(Open):
    """What the agent acts on; `approved` is true only after an explicit approval."""

    approved: bool
    status: StatusName
    auto: bool
    decision: DecisionName | None = None
    response: str | None = None
    feedback: str | None = None
    option: str | None = None
    responded_by: str | None = None
    all_responses: list[OneResponse] | None = None
    via: str | None = None


class Feedback(Strict):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: str


class BreakpointSummary(Strict):
    id: str
    breakpoint_id: str
    status: StatusName
    decision: DecisionName | None = None
    agent_id: str
    run_id: str | None = None
    title: str | None = None
    question: str | None = None
    gate: str
    tags: list[str]
    experts: list[str]
    strategy: StrategyName
    risk: str | None = None
    priority: str
    attempt: int | None = None
    created_at: str
    updated_at: str
    deadline: str | None = None
    released_at: str | None = None
    expired_at: str | None = None
    cancelled_at: str | None = None
    decided_by: str | None = None


class BreakpointView(BreakpointSummary):
    payload: dict[str, Any]
    feedback: list[Feedback]
    responses: list[OneResponse]
    result: BreakpointResult | None = None
    auto_approval: AutoApproval
    digest: str
    ttl_seconds: int | None = None
    on_timeout: Literal["expire", "reject"]
    callback_url: str | None = None
    created_by: str
    warnings: list[str]
    version: int
    purged_at: str | None = None


class BreakpointStatus(Strict):
    status: StatusName
    decision: DecisionName | None = None
    updated_at: str
    feedback: list[Feedback] | None = None
    result: BreakpointResult | None = None


class BreakpointPage(Strict):
    items: list[BreakpointSummary]
    next_cursor: str | None = None
    counts: dict[str, int] | None = None


class EventView(Strict):
    id: str
    breakpoint_id: str
    seq: int
    type: str
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class EventPage(Strict):
    items: list[EventView]


class UploadedFile(Strict):
    sha256: Sha256
    size: int


class CreatePerson(Strict):
    name: Handle
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    roles: list[RoleName] = ["viewer"]


class ChangePerson(Strict):
    display_name: Title | None = None
    email: Annotated[str, StringConstraints(max_length=254, pattern=r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$")] | None = (
        None
    )
    password: Annotated[str, StringConstraints(min_length=10, max_length=200)] | None = None
    roles: list[RoleName] | None = None
    active: bool | None = None


class PersonView(Strict):
    id: str
    name: str
    display_name: str
    email: str | None = None
    roles: list[RoleName]
    active: bool
    created_at: str


class PersonPage(Strict):
    items: list[PersonView]


class PutGroup(Strict):
    members: Annotated[list[Handle], Field(max_length=1000)]


class GroupView(Strict):
    name: str
    members: list[str]


class GroupPage(Strict):
    items: list[GroupView]


class CreateToken(Strict):
    kind: Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"]
    name: Name
    project: Handle | None = None
    person: Handle | None = None
    gates: Annotated[list[Gate], Field(min_length=1, max_length=100)] | None = None
    agent_ids: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    creates_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    expires_in_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None


class TokenView(Strict):
    id: str
    kind: str
    name: str
    person: str | None = None
    roles: list[RoleName]
    gates: list[str]
    agent_ids: list[str]
    creates_per_minute: int | None = None
    created_at: str
    created_by: str
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None


class NewTokenView(TokenView):
    token: str


class TokenPage(Strict):
    items: list[TokenView]


class CreateProject(Strict):
    id: Handle
    name: Title | None = None
    owner: Handle | None = None


class ChangeProject(Strict):
    name: Title | None = None
    owner: Handle | None = None


class ProjectView(Strict):
    id: str
    name: str
    owner: str | None = None
    created_at: str


class ProjectPage(Strict):
    items: list[ProjectView]


class CallbackSecretView(Strict):
    secret: str
    version: int
    created_at: str
    created_by: str
    valid_until: str | None = None


class CallbackSecretPage(Strict):
    items: list[CallbackSecretView]


class DeliveryView(Strict):
    id: str
    breakpoint_id: str
    channel: str
    recipient: str
    type: str
    seq: int
    state: DeliveryState
    attempts: int
    next_attempt_at: str | None = None
    last_error: str | None = None
    created_at: str
    updated_at: str


class AttemptView(Strict):
    n: int
    at: str
    worker: str
    milliseconds: int | None = None
    status: int | None = None
    error: str | None = None


class DeliveryWithLog(DeliveryView):
    log: list[AttemptView]


class DeliveryPage(Strict):
    items: list[DeliveryView]
    next_cursor: str | None = None


class Policy(Strict):
    """A project's own rules for what agents may ask."""

    max_ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    unknown_experts: Literal["warn", "refuse"] | None = None
    retention_days: Annotated[int, Field(ge=1, le=MAX_RETENTION)] | None = None
    always_break_on: Annotated[list[Tag], Field(max_length=200)] | None = None
    ticket_tags: Annotated[list[Tag], Field(max_length=200)] | None = None
    auto_approve_after_n: Literal["allow", "ignore"] | None = None


class PlaceHold(Strict):
    breakpoint_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class HoldView(Strict):
    id: str
    breakpoint_id: str | None = None
    reason: str
    placed_by: str
    placed_at: str
    lifted_by: str | None = None
    lifted_at: str | None = None


class HoldPage(Strict):
    items: list[HoldView]


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
RuleActionName = Literal["auto-approve", "never-auto-approve"]
RuleModeName = Literal["live", "shadow"]
Note = Annotated[str, StringConstraints(max_length=1000)]
Moment = Annotated[str, StringConstraints(max_length=40)]
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


class RulePage(Strict):
    items: list[RuleView]


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


Origin = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class FileRule(Strict):
    """A rule as rules.json has it; ids, people and times are those of where the file was written."""

    pattern: Pattern
    action: RuleActionName
    id: Origin | None = None
    created_at: Moment | None = None
    created_by: Origin | None = None
    source: Origin | None = None
    note: Note | None = None
    mode: RuleModeName | None = None
    enabled: bool | None = None
    expires_at: Moment | None = None
    order: Place | None = None


class RulesFile(Strict):
    schema_version: Annotated[str, StringConstraints(max_length=100)]
    rules: list[FileRule]


class ImportedRule(Strict):
    outcome: Literal["added", "changed", "unchanged", "removed"]
    index: int | None = None
    file_id: str | None = None
    id: str | None = None
    pattern: str
    action: str


class RulesImported(Strict):
    dry_run: bool
    added: int
    changed: int
    unchanged: int
    removed: int
    total_rules: int
    items: list[ImportedRule]


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


class ApproverView(Strict):
    by: str
    via: str
    at: str
    expert: str | None = None
    override: bool | None = None


class UseView(Strict):
    at: str
    by: str


class ReceiptView(Strict):
    """A receipt: the signature is over everything else, in canonical form. Fields that are not there are not null."""

    version: Literal[1]
    breakpoint_id: str
    project: str
    gate: str
    agent_id: str
    digest: Sha256
    event: Sha256
    nonce: Sha256
    decision: Literal["approved"]
    decided_at: str
    approvers: Annotated[list[ApproverView], Field(min_length=1)]
    option: str | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None
    issued_at: str
    expires_at: str
    key_id: str
    used: UseView | None = None
    signature: str


class ConsumeReceipt(Strict):
    receipt: dict[str, Any]


class ReceiptUse(Strict):
    breakpoint_id: str
    nonce: str
    used_at: str
    used_by: str


class ReceiptKeyView(Strict):
    key_id: str
    public_key: str
    state: Literal["current", "retired", "revoked"]
    project: str
    created_at: str
    created_by: str
    retired_at: str | None = None
    revoked_at: str | None = None


class ReceiptKeyPage(Strict):
    items: list[ReceiptKeyView]


class RotateReceiptKey(Strict):
    revoke: bool = False


RunStateName = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
ProcessName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class StartRun(Strict):
    process: ProcessName
    inputs: Any = None
    agent_id: Name | None = None


class CauseView(Strict):
    """The event that started a run, by which trigger, and how many runs lie before it."""

    event_id: str
    trigger: str
    depth: int


class RunSummary(Strict):
    id: str
    process: str
    state: RunStateName
    agent_id: str
    started_by: str
    cause: CauseView | None = None
    created_at: str
    updated_at: str
    ended_at: str | None = None
    error: dict[str, Any] | None = None


class RunPage(Strict):
    items: list[RunSummary]
    next_cursor: str | None = None


class StepView(Strict):
    path: str
    kind: Literal["task", "breakpoint", "sleep", "file"]
    name: str
    state: Literal["running", "retrying", "waiting", "answered", "done", "failed"]
    attempts: int
    started_at: str
    ended_at: str | None = None
    breakpoint_id: str | None = None
    outcome: Any = None
    error: dict[str, Any] | None = None


class RunFileView(Strict):
    path: str
    sha256: str
    size: int


class RunView(RunSummary):
    version: str
    inputs: Any = None
    output: Any = None
    steps: list[StepView]
    files: list[RunFileView]


class JournalLine(Strict):
    seq: int
    at: str
    type: str
    path: str | None = None
    data: dict[str, Any]


class JournalPage(Strict):
    items: list[JournalLine]


class ProcessView(Strict):
    name: str
    file: str
    version: str
    description: str
    problem: str | None = None


class ProcessList(Strict):
    items: list[ProcessView]
