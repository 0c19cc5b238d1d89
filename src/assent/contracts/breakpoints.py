"""JSON models for creating, answering and reading breakpoints."""

from typing import Annotated, Any, Literal

import msgspec

from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import (
    DecisionName,
    Format,
    Sha256,
    StatusName,
    StrategyName,
    Text,
    Title,
)


class ContextFile(Shape, frozen=True, kw_only=True):
    path: Annotated[str, Limits(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """Path of the file, as shown to reviewers."""
    format: Format
    """Format in which the file is displayed."""
    language: Annotated[str, Limits(max_length=50)] | None = None
    """Programming language of the file."""
    content: str | None = None
    """Text of the file. Set only one of `content`, `contentBase64` and `sha256`. If none of them is set, the file is
    displayed as not provided.
    """
    content_base64: Annotated[str, Limits(pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None = None
    """Base64-encoded content of the file."""
    sha256: Sha256 | None = None
    """SHA-256 hash of a file that was uploaded earlier."""


class GiveFeedback(Shape, frozen=True, kw_only=True):
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
    confirm: Annotated[str, Limits(max_length=300)] | None = None
    """Name of the gate. Required to approve a high-risk breakpoint."""
    digest: Sha256 | None = None
    """Content hash of the version that you reviewed. If it differs from the stored hash, the request is rejected."""


class AutoApproval(Shape, frozen=True, kw_only=True):
    recommended: bool
    reason: str
    matched_rule: str | None = None
    consecutive_approvals: int


class OneResponse(Shape, frozen=True, kw_only=True):
    """The answer of one person."""

    responded_by: str
    approved: bool
    via: str
    responded_at: str
    feedback: str | None = None
    """Comment that was submitted with the answer."""
    option: str | None = None
    """Option that the reviewer chose."""
    answers: dict[str, Any] | None = None
    """Values of the form fields."""
    edits: dict[str, Any] | None = None
    """Values that the reviewer changed."""
    expert: str | None = None
    """Expert whose place the reviewer filled."""
    in_place_of: list[str] | None = None
    """People whom the reviewer represented as their deputy."""
    override: bool | None = None
    """Whether an admin answered in place of the experts."""
    after_reset_by: str | None = None
    """Admins who had reset the reviewer's access, which was not yet confirmed."""


class BreakpointResult(Shape, frozen=True, kw_only=True):
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
    all_responses: Annotated[list[dict[str, Any]], DocumentedAs(list[OneResponse])] | None = None
    """Answers from all reviewers."""
    via: str | None = None
    answers: dict[str, Any] | None = None
    """Values of the form fields."""
    edits: dict[str, Any] | None = None
    """Values that the reviewer changed."""

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


class Feedback(Shape, frozen=True, kw_only=True):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: str


class PendingAnswer(Shape, frozen=True, kw_only=True):
    """An answer that can still be undone. Agents cannot see it."""

    by: str
    approved: bool
    due_at: str


class BreakpointSummary(Shape, frozen=True, kw_only=True):
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
    strategy: Annotated[str, DocumentedAs(StrategyName)]
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


class Breakpoint(BreakpointSummary, frozen=True, kw_only=True):
    payload: dict[str, Any]
    feedback: list[Feedback]
    """Comments on the breakpoint."""
    responses: Annotated[list[dict[str, Any]], DocumentedAs(list[OneResponse])]
    """The current answer of each person."""
    pending_answers: Annotated[list[dict[str, Any]], DocumentedAs(list[PendingAnswer])] | None = None
    """Answers from the browser that can still be undone. Agents cannot see them. Changes to this list do not increase
    `version`.
    """
    result: BreakpointResult | None = None
    """Outcome of the breakpoint. Set once the breakpoint has ended."""
    auto_approval: Annotated[dict[str, Any], DocumentedAs(AutoApproval)]
    """Whether rules or earlier approvals would approve the breakpoint, and why."""
    digest: str
    """Content hash (SHA-256) of the breakpoint."""
    ttl_seconds: int | None = None
    on_timeout: Annotated[str, DocumentedAs(Literal["expire", "reject"])]
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


class Status(Shape, frozen=True, kw_only=True):
    status: StatusName
    decision: DecisionName | None = None
    updated_at: str
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


class BreakpointPage(Shape, frozen=True, kw_only=True):
    items: list[BreakpointSummary]
    next_cursor: str | None = None
    counts: dict[str, int] | None = None


class Event(Shape, frozen=True, kw_only=True):
    id: str
    breakpoint_id: str
    seq: int
    type: str
    actor: str
    timestamp: str
    metadata: dict[str, Any]
    hash: str


class Events(Shape, frozen=True, kw_only=True):
    items: list[Event]


class UploadedFile(Shape, frozen=True, kw_only=True):
    sha256: Annotated[str, DocumentedAs(Sha256)]
    size: int
