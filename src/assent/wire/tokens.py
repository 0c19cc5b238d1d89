"""Tokens."""

from typing import Annotated, Literal

from pydantic import Field

from assent.wire.words import MAX_TTL, Gate, Handle, Name, RoleName, Strict


class CreateToken(Strict):
    kind: Literal["agent", "viewer", "reviewer", "rule-admin", "auditor", "admin", "metrics"]
    name: Name
    project: Handle | None = None
    person: Handle | None = None
    gates: Annotated[list[Gate], Field(min_length=1, max_length=100)] | None = None
    agent_ids: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    processes: Annotated[list[Name], Field(max_length=100)] | None = None
    same_agent_as: Annotated[str, Field(pattern=r"^tok_[0-9a-z]{26}$")] | None = None
    creates_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    expires_in_seconds: Annotated[int, Field(ge=1, le=MAX_TTL)] | None = None


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
