"""Breakpoints as they are raised, answered and read."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from assent.wire.words import (
    MAX_TTL,
    DecisionName,
    Experts,
    Format,
    Gate,
    Name,
    Open,
    Sha256,
    StatusName,
    StrategyName,
    Strict,
    Tag,
    Text,
    Title,
)


class ContextFile(Strict):
    path: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
    format: Format
    language: Annotated[str, StringConstraints(max_length=50)] | None = None
    content: str | None = None
    """Text of the file. Set one of content, contentBase64 and sha256. A file with none of them is shown as not
    provided.
    """
    content_base64: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None = None
    sha256: Sha256 | None = None
    """SHA-256 of an uploaded file."""


class Context(Open):
    run_id: Name | None = None
    """Same as runId. If both are set, they must be equal."""
    files: Annotated[list[ContextFile], Field(max_length=100)] | None = None


class Payload(Open):
    """The content of a breakpoint. Unknown fields are kept and shown."""

    question: Text | None = None
    """Question for the reviewers."""
    title: Title | None = None
    """Same as the top-level title. If both are set, they must be equal."""
    context: Context | None = None
    expert: Name | Experts | None = None
    """People, groups or `owner` that must answer. Required for collect-all and quorum."""
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    """Added to the top-level tags."""
    strategy: StrategyName | None = None
    """How answers are combined into a decision. Default: `single`."""
    previous_feedback: Text | None = None
    """Feedback on the previous attempt."""
    attempt: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Attempt number."""
    breakpoint_id: Gate | None = None
    """Gate. By default, derived from the title or the question."""
    auto_approve_after_n: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    """Auto-approve after this many consecutive human approvals of this gate for this agent. Disabled if less than 1."""
    present_always_approve: bool | None = None
    """Whether to offer "Always approve" to the reviewer. Default: true."""
    options: Annotated[list[Title], Field(min_length=1, max_length=50)] | None = None
    """Labels to choose from. An approval must include one."""
    form: dict[str, Any] | None = None
    """Flat JSON Schema to fill in: string, boolean, integer and number fields."""
    hard_stop: bool | None = None
    """If true, human approval is required; rules cannot approve it."""
    risk: Literal["low", "medium", "high"] | None = None
    """Risk. To approve a high-risk breakpoint, the reviewer must type the gate name."""
    editable: Annotated[list[Name], Field(max_length=100)] | None = None
    """Names of the values that the reviewer can change."""
    consumer: Name | None = None
    """Agent ID or pattern of agent IDs that may consume the receipt, in addition to the creating agent."""


class CreateBreakpoint(Strict):
    agent_id: Name
    """Agent that asks."""
    run_id: Name | None = None
    """Run that the breakpoint belongs to."""
    title: Title | None = None
    """Short title."""
    payload: Payload
    """Content. Unknown fields are kept and shown."""
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    """Tags."""
    ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    """Seconds until the deadline, limited by the policy. Default: the timeout of the first matching route, then the
    policy's limit, otherwise no deadline.
    """
    on_timeout: Literal["expire", "reject"] | None = None
    """Outcome at the deadline; default `expire`. `reject` releases it as rejected. A route's timeout sets its own
    outcome.
    """
    callback_url: (
        Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[^\s\x00-\x1f\x7f]+$")] | None
    ) = None
    """URL for callbacks. Must be public."""
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    """Default: `normal`."""


class GiveFeedback(Strict):
    """A comment or an answer. `release` approves unless `approved` is false; `approved` alone implies `release`."""

    comment: Text | None = None
    """Comment. If neither release nor approved is set, only the comment is recorded."""
    release: bool | None = None
    """If true, this is an answer, which approves unless approved is false."""
    approved: bool | None = None
    """Whether the answer approves. If set, this is an answer even without release."""
    option: Title | None = None
    """Chosen option. Required for approval if the breakpoint has options."""
    answers: dict[str, Any] | None = None
    """Form values. Required for approval if the form has required fields."""
    edits: dict[str, Any] | None = None
    """Changed values. Only editable values can be changed."""
    confirm: Annotated[str, StringConstraints(max_length=300)] | None = None
    """Gate name. Required to approve a high-risk breakpoint."""
    digest: Sha256 | None = None
    """Content hash of the version you reviewed. The request fails if it differs from the stored hash."""


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
    """The outcome for the agent; `approved` is true only after an explicit approval."""

    approved: bool
    """True only after an explicit approval."""
    status: StatusName
    auto: bool
    """Whether it was auto-approved."""
    decision: DecisionName | None = None
    response: str | None = None
    """The comment, if any; otherwise the option, if any; otherwise the decision."""
    feedback: str | None = None
    """All comments submitted with answers."""
    option: str | None = None
    """Chosen option. If the reviewer filled in a form or changed values, `answers` and `edits` are also set."""
    responded_by: str | None = None
    all_responses: list[OneResponse] | None = None
    via: str | None = None


class Feedback(Strict):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: str


class PendingAnswer(Strict):
    """An answer in its undo window; shown to reviewers, not to agents."""

    by: str
    approved: bool
    due_at: str


class BreakpointSummary(Strict):
    id: str
    breakpoint_id: str
    """Same as id."""
    status: StatusName
    decision: DecisionName | None = None
    """Set only if the status is released."""
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
    """Deprecated name of dueAt."""
    due_at: str | None = None
    """Deadline."""
    released_at: str | None = None
    expired_at: str | None = None
    cancelled_at: str | None = None
    decided_by: str | None = None


class BreakpointView(BreakpointSummary):
    payload: dict[str, Any]
    feedback: list[Feedback]
    responses: list[OneResponse]
    """Each person's current answer."""
    pending_answers: list[PendingAnswer] | None = None
    """Browser answers that can still be undone. Not shown to agents. Changes to this list do not increase version."""
    result: BreakpointResult | None = None
    """Outcome, set once the breakpoint has ended."""
    auto_approval: AutoApproval
    digest: str
    """Content hash (SHA-256)."""
    ttl_seconds: int | None = None
    on_timeout: Literal["expire", "reject"]
    callback_url: str | None = None
    """Callback URL as submitted, visible to everyone who can read the breakpoint."""
    created_by: str
    warnings: list[str]
    version: int
    """Number of events. Used as the ETag, such as `"v3"`."""
    purged_at: str | None = None
    """When the content was purged. After that, payload is empty, result is shortened and comments are blank."""
    agent_id_claimed: bool | None = None
    """True if the token may claim any agent ID. In that case, auto-approve rules on agentId do not match."""


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
