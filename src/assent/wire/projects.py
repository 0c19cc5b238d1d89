"""Projects, their policy and the secrets of their callbacks."""

from typing import Annotated, Literal

from pydantic import Field

from assent.domain.counting import MAX_FLOOR
from assent.wire.words import MAX_RETENTION, MAX_TTL, Handle, Strict, Tag, Title


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
    removed_at: str | None = None


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


class Policy(Strict):
    """A project's own rules for what agents may ask."""

    max_ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    unknown_experts: Literal["warn", "refuse"] | None = None
    retention_days: Annotated[int, Field(ge=1, le=MAX_RETENTION)] | None = None
    always_break_on: Annotated[list[Tag], Field(max_length=200)] | None = None
    ticket_tags: Annotated[list[Tag], Field(max_length=200)] | None = None
    auto_approve_after_n: Literal["allow", "ignore"] | None = None
    auto_approve_floor: Annotated[int, Field(ge=1, le=MAX_FLOOR)] | None = None
    auto_approve_counts: Literal["gate", "question"] | None = None
