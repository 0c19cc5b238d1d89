"""Shapes of tokens."""

from typing import Annotated, Literal

from assent.contracts.shape import Limits, Shape
from assent.contracts.words import MAX_TTL, Gate, Handle, Name, RoleName


class CreateToken(Shape, frozen=True, kw_only=True):
    kind: Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"]
    """Kind of token: `agent`, `metrics` or, for a person's token, a role."""
    name: Name
    """For an agent token, the name of the agent in the history. For all other kinds, a label."""
    project: Handle | None = None
    """ID of the project in which to create the token. Only admins with access to all projects can set this field."""
    person: Handle | None = None
    """Username of the person who owns the token. Default, and only allowed value: the caller's username. You cannot
    set this field for agent and metrics tokens.
    """
    gates: Annotated[list[Gate], Limits(min_length=1, max_length=100)] | None = None
    """Patterns that match the gates that an agent token may use. By default, it may use all gates."""
    agent_ids: Annotated[list[Name], Limits(min_length=1, max_length=100)] | None = None
    """Patterns that match the agent IDs that an agent token may claim. By default, it may claim any agent ID, and
    `agentIdClaimed` is `true`.
    """
    processes: Annotated[list[Name], Limits(max_length=100)] | None = None
    """Patterns that match the processes that an agent token may start; `[]` means none. Default: no processes if
    `gates` is set, otherwise all.
    """
    same_agent_as: Annotated[str, Limits(pattern=r"^tok_[0-9a-z]{26}$")] | None = None
    """ID of another agent token, for example to rotate a token. Both tokens then belong to the same agent: they can
    read and cancel the same breakpoints and runs, and they share approval counts. Limits that you omit are copied from
    the other token.
    """
    creates_per_minute: Annotated[int, Limits(ge=1, le=1_000_000)] | None = None
    """Maximum number of breakpoints that can be created with the token per minute."""
    expires_in_seconds: Annotated[int, Limits(ge=1, le=MAX_TTL)] | None = None
    """Number of seconds until the token expires. Default: 90 days."""


class Token(Shape, frozen=True, kw_only=True):
    id: str
    kind: str
    name: str
    person: str | None = None
    roles: list[RoleName]
    """Roles of the token."""
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


class CreatedToken(Token, frozen=True, kw_only=True):
    token: str


class TokenPage(Shape, frozen=True, kw_only=True):
    items: list[Token]
