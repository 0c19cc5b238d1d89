"""Shapes of projects, their policies and their callback secrets."""

from typing import Annotated, Literal

from assent.contracts.shape import Limits, Shape
from assent.contracts.words import MAX_RETENTION, MAX_TTL, Handle, Tag, Title
from assent.core.counting import MAX_FLOOR


class CreateProject(Shape, frozen=True, kw_only=True):
    id: Handle
    """ID of the project. It can contain `a-z`, digits, `.`, `_` and `-`."""
    name: Title | None = None
    """Display name of the project."""
    owner: Handle | None = None
    """Username of the person who owns the project. Default: the caller."""


class ChangeProject(Shape, frozen=True, kw_only=True):
    name: Title | None = None
    owner: Handle | None = None


class Project(Shape, frozen=True, kw_only=True):
    id: str
    name: str
    owner: str | None = None
    created_at: str
    removed_at: str | None = None
    """Time at which the project was removed. Set only for removed projects."""


class ProjectPage(Shape, frozen=True, kw_only=True):
    items: list[Project]


class CallbackSecret(Shape, frozen=True, kw_only=True):
    secret: str
    version: int
    created_at: str
    created_by: str
    valid_until: str | None = None
    """Time at which the secret becomes invalid. Set for the previous secret, for one day after a rotation."""


class CallbackSecretPage(Shape, frozen=True, kw_only=True):
    items: list[CallbackSecret]


class Policy(Shape, frozen=True, kw_only=True):
    """A project's settings for approvals."""

    max_ttl_seconds: Annotated[int, Limits(ge=1, le=MAX_TTL)] | None = None
    """Maximum number of seconds until a breakpoint's deadline. This is also the default."""
    unknown_experts: Literal["warn", "refuse"] | None = None
    """What to do if a breakpoint has an unknown expert: create it with a warning (`warn`, the default), or refuse to
    create it (`refuse`).
    """
    retention_days: Annotated[int, Limits(ge=1, le=MAX_RETENTION)] | None = None
    """Number of days after which the content of ended breakpoints is purged. By default, it is never purged."""
    always_break_on: Annotated[list[Tag], Limits(max_length=200)] | None = None
    """Tags that always require human approval. When tags are compared, case, invisible characters and whitespace are
    ignored.
    """
    ticket_tags: Annotated[list[Tag], Limits(max_length=200)] | None = None
    """Tags that require a Jira ticket before approval. Rules cannot approve breakpoints with these tags."""
    auto_approve_after_n: Literal["allow", "ignore"] | None = None
    """Whether to allow or ignore `autoApproveAfterN` in agents' requests. Default: `allow`."""
    auto_approve_floor: Annotated[int, Limits(ge=1, le=MAX_FLOOR)] | None = None
    """Minimum value for `autoApproveAfterN`. If an agent requests a smaller number, this minimum is used instead.
    Default: `3`.
    """
    auto_approve_counts: Literal["gate", "question"] | None = None
    """Which consecutive approvals are counted if the payload does not include arguments: approvals of the same gate
    (`gate`, the default), or approvals of the same gate and question (`question`).
    """
