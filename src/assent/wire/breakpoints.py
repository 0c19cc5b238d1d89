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
    consumer: Name | None = None
    """The agentId, or a pattern of agentIds, that may use the receipt beside the agent that asked."""


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


class PendingAnswer(Strict):
    """An answer in its undo window; shown to reviewers, not to agents."""

    by: str
    approved: bool
    due_at: str


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
    due_at: str | None = None
    released_at: str | None = None
    expired_at: str | None = None
    cancelled_at: str | None = None
    decided_by: str | None = None


class BreakpointView(BreakpointSummary):
    payload: dict[str, Any]
    feedback: list[Feedback]
    responses: list[OneResponse]
    pending_answers: list[PendingAnswer] | None = None
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
    agent_id_claimed: bool | None = None


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
