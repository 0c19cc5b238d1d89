"""Requests that contain a breakpoint. They are pydantic models, because its payload keeps unknown fields."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from assent.contracts.breakpoints import ContextFile
from assent.contracts.shape import Limits
from assent.contracts.words import MAX_TTL, Experts, Gate, Name, StrategyName, Tag, Text, Title


class Strict(BaseModel):
    """A model with strict types that rejects unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Open(BaseModel):
    """A model that validates known fields and keeps unknown fields unchanged."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class Context(Open):
    run_id: Name | None = None
    """Same as the top-level `runId`. If both are set, they must be equal."""
    files: Annotated[list[ContextFile], Limits(max_length=100)] | None = None
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
    tags: Annotated[list[Tag], Limits(max_length=50)] | None = None
    """Tags to add to the top-level `tags`."""
    strategy: StrategyName | None = None
    """Strategy that determines how answers become a decision. Default: `single`."""
    previous_feedback: Text | None = None
    """Feedback that the agent received on its previous attempt."""
    attempt: Annotated[int, Limits(ge=0, le=1_000_000)] | None = None
    """Number of the agent's current attempt."""
    breakpoint_id: Gate | None = None
    """Name of the gate. By default, it is derived from the title or the question."""
    auto_approve_after_n: Annotated[int, Limits(ge=-1, le=1_000_000)] | None = None
    """Number of consecutive human approvals of this gate for this agent after which breakpoints are auto-approved.
    Values below 1 disable this.
    """
    present_always_approve: bool | None = None
    """Whether to offer reviewers the "Always approve" button. Default: `true`."""
    options: Annotated[list[Title], Limits(min_length=1, max_length=50)] | None = None
    """Options that reviewers can choose from. If set, each approval must include one."""
    form: dict[str, Any] | None = None
    """Form for reviewers to fill in, as a flat JSON Schema with string, boolean, integer and number fields."""
    hard_stop: bool | None = None
    """If `true`, the breakpoint requires human approval, and rules cannot approve it."""
    risk: Literal["low", "medium", "high"] | None = None
    """Risk level. To approve a high-risk breakpoint, the reviewer must type the gate name."""
    editable: Annotated[list[Name], Limits(max_length=100)] | None = None
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
    tags: Annotated[list[Tag], Limits(max_length=50)] | None = None
    """Tags that rules, routes and reviewers can filter by."""
    ttl_seconds: Annotated[int, Limits(ge=1, le=MAX_TTL)] | None = None
    """Number of seconds until the deadline, up to the maximum in the project's policy. Default: the timeout of the
    first matching route or, if that route does not have a timeout, the policy's maximum. If neither exists, there is
    no deadline.
    """
    on_timeout: Literal["expire", "reject"] | None = None
    """What happens at the deadline. Default: `expire`. With `reject`, the breakpoint is released as rejected. If the
    deadline comes from a route's timeout, the route determines the outcome instead.
    """
    callback_url: Annotated[str, Limits(max_length=2000, pattern=r"^https?://[^\s\x00-\x1f\x7f]+$")] | None = None
    """URL to which callbacks are sent. It must be publicly accessible."""
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    """Priority of the breakpoint. Default: `normal`."""


class CheckRoutes(Strict):
    breakpoint_id: Annotated[str, Limits(min_length=1, max_length=64)] | None = None
    """ID of a pending breakpoint."""
    breakpoint: CreateBreakpoint | None = None
    """Hypothetical breakpoint. Set either this field or `breakpointId`."""
