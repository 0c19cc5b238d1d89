"""Projects, their policy and the secrets of their callbacks."""

from typing import Annotated, Literal

from pydantic import Field

from assent.domain.counting import MAX_FLOOR
from assent.wire.words import MAX_RETENTION, MAX_TTL, Handle, Strict, Tag, Title


class CreateProject(Strict):
    id: Handle
    name: Title | None = None
    owner: Handle | None = None
    """Person who owns the project. Default: the caller."""


class ChangeProject(Strict):
    name: Title | None = None
    owner: Handle | None = None


class ProjectView(Strict):
    id: str
    name: str
    owner: str | None = None
    created_at: str
    removed_at: str | None = None
    """Set for removed projects."""


class ProjectPage(Strict):
    items: list[ProjectView]


class CallbackSecretView(Strict):
    secret: str
    version: int
    created_at: str
    created_by: str
    valid_until: str | None = None
    """Set on the previous secret for a day after a rotation."""


class CallbackSecretPage(Strict):
    items: list[CallbackSecretView]


class Policy(Strict):
    """A project's settings for approvals."""

    max_ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    """Maximum time until the deadline. Also the default deadline."""
    unknown_experts: Literal["warn", "refuse"] | None = None
    """Whether to accept breakpoints with an unknown expert and add a warning (default), or refuse to create them."""
    retention_days: Annotated[int, Field(ge=1, le=MAX_RETENTION)] | None = None
    """Number of days after which the content of ended breakpoints is purged. Default: never."""
    always_break_on: Annotated[list[Tag], Field(max_length=200)] | None = None
    """Tags that always require human approval. Differences in case, invisible characters and whitespace
    are ignored.
    """
    ticket_tags: Annotated[list[Tag], Field(max_length=200)] | None = None
    """Tags that require a Jira ticket before approval; rules cannot approve them."""
    auto_approve_after_n: Literal["allow", "ignore"] | None = None
    """Whether agents may request auto-approval after N approvals. Default: `allow`."""
    auto_approve_floor: Annotated[int, Field(ge=1, le=MAX_FLOOR)] | None = None
    """Minimum number of consecutive approvals. Smaller requests are raised to this number. Default: 3."""
    auto_approve_counts: Literal["gate", "question"] | None = None
    """Which approvals count if the payload does not include arguments: those with the same gate (default), or those
    with the same gate and question.
    """
