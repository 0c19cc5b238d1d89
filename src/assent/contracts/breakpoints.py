"""JSON models for creating, answering and reading breakpoints."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from assent.contracts.words import (
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
    """Path of the file, as shown to reviewers."""
    format: Format
    """Format in which the file is displayed."""
    language: Annotated[str, StringConstraints(max_length=50)] | None = None
    """Programming language of the file."""
    content: str | None = None
    """Text of the file. Set only one of `content`, `contentBase64` and `sha256`. If none of them is set, the file is
    displayed as not provided.
    """
    content_base64: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None = None
    """Base64-encoded content of the file."""
    sha256: Sha256 | None = None
    """SHA-256 hash of a file that was uploaded earlier."""


class Context(Open):
    run_id: Name | None = None
    """Same as the top-level `runId`. If both are set, they must be equal."""
    files: Annotated[list[ContextFile], Field(max_length=100)] | None = None
    """Context files to show to reviewers."""


class Payload(Open):
    """The content of a breakpoint. Unknown fields are kept and shown to reviewers."""

    question: Text | None = None
    """Question for the reviewers."""
    title: Title | None = None
    """Same as the top-level `title`. If both are set, they must be equal."""
    context: Context | None = None
    """Additional context for reviewers."""
    expert: Name | Experts | None = None
    """People or groups that must answer, or `owner`. Required for `collect-all` and `quorum`."""
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    """Tags to add to the top-level `tags`."""
    strategy: StrategyName | None = None
    """Strategy that determines how answers become a decision. Default: `single`."""
    previous_feedback: Text | None = None
    """Feedback that the agent received on its previous attempt."""
    attempt: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Number of the agent's current attempt."""
    breakpoint_id: Gate | None = None
    """Name of the gate. By default, it is derived from the title or the question."""
    auto_approve_after_n: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    """Number of consecutive human approvals of this gate for this agent after which breakpoints are auto-approved.
    Values below 1 disable this.
    """
    present_always_approve: bool | None = None
    """Whether to offer reviewers the "Always approve" button. Default: `true`."""
    options: Annotated[list[Title], Field(min_length=1, max_length=50)] | None = None
    """Options that reviewers can choose from. If set, each approval must include one."""
    form: dict[str, Any] | None = None
    """Form for reviewers to fill in, as a flat JSON Schema with string, boolean, integer and number fields."""
    hard_stop: bool | None = None
    """If `true`, the breakpoint requires human approval, and rules cannot approve it."""
    risk: Literal["low", "medium", "high"] | None = None
    """Risk level. To approve a high-risk breakpoint, the reviewer must type the gate name."""
    editable: Annotated[list[Name], Field(max_length=100)] | None = None
    """Names of the values that reviewers can change."""
    consumer: Name | None = None
    """ID of another agent that may consume the receipt, or a pattern for such IDs."""


class CreateBreakpoint(Strict):
    agent_id: Name
    """ID of the agent that asks the question."""
    run_id: Name | None = None
    """ID of the run that the breakpoint belongs to."""
    title: Title | None = None
    """Short title of the breakpoint."""
    payload: Payload
    """Content of the breakpoint. Unknown fields are kept and shown to reviewers."""
    tags: Annotated[list[Tag], Field(max_length=50)] | None = None
    """Tags that rules, routes and reviewers can filter by."""
    ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    """Number of seconds until the deadline, up to the maximum in the project's policy. Default: the timeout of the
    first matching route or, if that route does not have a timeout, the policy's maximum. If neither exists, there is
    no deadline.
    """
    on_timeout: Literal["expire", "reject"] | None = None
    """What happens at the deadline. Default: `expire`. With `reject`, the breakpoint is released as rejected. If the
    deadline comes from a route's timeout, the route determines the outcome instead.
    """
    callback_url: (
        Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[^\s\x00-\x1f\x7f]+$")] | None
    ) = None
    """URL to which callbacks are sent. It must be publicly accessible."""
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    """Priority of the breakpoint. Default: `normal`."""


class GiveFeedback(Strict):
    """A comment or an answer. `release` approves unless `approved` is false; `approved` alone implies `release`."""

    comment: Text | None = None
    """Text of the comment. If neither `release` nor `approved` is set, only the comment is recorded."""
    release: bool | None = None
    """If `true`, the request is an answer: an approval unless `approved` is `false`."""
    approved: bool | None = None
    """Whether the answer approves or rejects. If this field is set, the request is an answer even without `release`."""
    option: Title | None = None
    """Option that the reviewer chose. Required for approval if the breakpoint has options."""
    answers: dict[str, Any] | None = None
    """Values of the form fields. Required for approval if the form has required fields."""
    edits: dict[str, Any] | None = None
    """Values that the reviewer changed. Only editable values can be changed."""
    confirm: Annotated[str, StringConstraints(max_length=300)] | None = None
    """Name of the gate. Required to approve a high-risk breakpoint."""
    digest: Sha256 | None = None
    """Content hash of the version that you reviewed. If it differs from the stored hash, the request is rejected."""


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
    """`true` only after an explicit approval."""
    status: StatusName
    """Status of the breakpoint."""
    auto: bool
    """Whether the breakpoint was auto-approved."""
    decision: DecisionName | None = None
    """Decision, if one was made."""
    response: str | None = None
    """The reviewer's comment or, if there is none, the chosen option or the decision."""
    feedback: str | None = None
    """All comments that were submitted with answers."""
    option: str | None = None
    """Option that the reviewer chose. If the reviewer filled in a form or changed values, `answers` or `edits` is also
    set.
    """
    responded_by: str | None = None
    all_responses: list[OneResponse] | None = None
    """Answers from all reviewers."""
    via: str | None = None


class Feedback(Strict):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: str


class PendingAnswer(Strict):
    """An answer that can still be undone. Agents cannot see it."""

    by: str
    approved: bool
    due_at: str


class BreakpointSummary(Strict):
    id: str
    breakpoint_id: str
    """Same as `id`."""
    status: StatusName
    """Status of the breakpoint."""
    decision: DecisionName | None = None
    """Decision. Set only if `status` is `released`."""
    agent_id: str
    run_id: str | None = None
    title: str | None = None
    question: str | None = None
    gate: str
    tags: list[str]
    experts: list[str]
    strategy: StrategyName
    """Strategy that determines how answers become a decision."""
    risk: str | None = None
    priority: str
    attempt: int | None = None
    created_at: str
    updated_at: str
    deadline: str | None = None
    """Deprecated name of `dueAt`."""
    due_at: str | None = None
    """Deadline of the breakpoint."""
    released_at: str | None = None
    expired_at: str | None = None
    cancelled_at: str | None = None
    decided_by: str | None = None


class BreakpointView(BreakpointSummary):
    payload: dict[str, Any]
    feedback: list[Feedback]
    """Comments on the breakpoint."""
    responses: list[OneResponse]
    """The current answer of each person."""
    pending_answers: list[PendingAnswer] | None = None
    """Answers from the browser that can still be undone. Agents cannot see them. Changes to this list do not increase
    `version`.
    """
    result: BreakpointResult | None = None
    """Outcome of the breakpoint. Set once the breakpoint has ended."""
    auto_approval: AutoApproval
    """Whether rules or earlier approvals would approve the breakpoint, and why."""
    digest: str
    """Content hash (SHA-256) of the breakpoint."""
    ttl_seconds: int | None = None
    on_timeout: Literal["expire", "reject"]
    """What happens at the deadline."""
    callback_url: str | None = None
    """Callback URL, exactly as submitted. It is visible to everyone who can read the breakpoint."""
    created_by: str
    warnings: list[str]
    version: int
    """Number of events. The ETag contains this number, for example `"v3"`."""
    purged_at: str | None = None
    """Time at which the content was purged. From then on, `payload` is empty, `result` is shortened and comments are
    blank.
    """
    agent_id_claimed: bool | None = None
    """Whether the token may claim any agent ID. If `true`, auto-approve rules based on `agentId` do not match."""


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
