"""Tokens."""

from typing import Annotated, Literal

from pydantic import Field

from assent.wire.words import MAX_TTL, Gate, Handle, Name, RoleName, Strict


class CreateToken(Strict):
    kind: Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"]
    name: Name
    """For agent tokens, the agent's name in the history. For other kinds, a label."""
    project: Handle | None = None
    """Another project. Can be set only by admins of all projects."""
    person: Handle | None = None
    """Must be the caller, which is the default. Cannot be set for agent and metrics tokens."""
    gates: Annotated[list[Gate], Field(min_length=1, max_length=100)] | None = None
    """Patterns of the gates that an agent token may use."""
    agent_ids: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    """Patterns of the agent IDs that an agent token may claim. By default, it may claim any, and agentIdClaimed is
    true.
    """
    processes: Annotated[list[Name], Field(max_length=100)] | None = None
    """Patterns of the processes that an agent token may start; `[]` means none. Default: none if gates are limited,
    otherwise any.
    """
    same_agent_as: Annotated[str, Field(pattern=r"^tok_[0-9a-z]{26}$")] | None = None
    """ID of another agent token. Both tokens then belong to one agent: they can read and cancel the same breakpoints
    and runs, and they share approval counts. Omitted limits are copied. Use this to rotate a token.
    """
    creates_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Rate limit for this token."""
    expires_in_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None
    """Default: 90 days."""


class TokenView(Strict):
    id: str
    kind: str
    name: str
    person: str | None = None
    roles: list[RoleName]
    gates: list[str]
    agent_ids: list[str]
    agent_id_claimed: bool
    processes: list[str]
    agent: str | None = None
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
