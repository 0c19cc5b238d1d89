"""Tokens of agents, people and services; only the hash of a secret is stored."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.access import Kind, Role, is_anything, roles
from assent.core.errors import NotFound
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

COLUMNS = (
    "id", "project_id", "kind", "name", "person_id", "roles", "gates", "agent_ids", "creates_per_minute", "created_at",
    "created_by", "expires_at", "last_used_at", "revoked_at", "processes", "agent",
)  # fmt: skip
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_tokens"
INSERT = insert("assent_tokens", (*COLUMNS, "secret_hash"))
REVOKE = "UPDATE assent_tokens SET revoked_at = :now WHERE id = :id AND project_id = :project_id AND revoked_at IS NULL"
SELECT_LIVE = """
    SELECT id, project_id, created_at, created_by FROM assent_tokens
    WHERE person_id = :person_id AND revoked_at IS NULL ORDER BY id"""
TOUCH = "UPDATE assent_tokens SET last_used_at = :at WHERE id = :id"
# Everything needed to identify a request's principal: the token, its person's name, and that person's roles.
SELECT_PRINCIPAL = """
    SELECT t.id, t.project_id, t.kind, t.name, t.person_id, t.roles, t.gates, t.agent_ids, t.creates_per_minute,
           t.expires_at, p.name, p.active, g.project_id, g.role, o.policy, t.processes, coalesce(t.agent, t.id),
           o.removed_at
    FROM assent_tokens t
    JOIN assent_projects o ON o.id = t.project_id
    LEFT JOIN assent_people p ON p.id = t.person_id
    LEFT JOIN assent_grants g ON g.person_id = t.person_id AND g.project_id IN (t.project_id, '*')
    WHERE t.secret_hash = :secret_hash AND t.revoked_at IS NULL"""

# For connections that stay open after the token was checked. `roles` is a JSON array, so a role is matched with quotes.
SELECT_VALID = """
    SELECT 1 FROM assent_tokens t LEFT JOIN assent_people p ON p.id = t.person_id
    WHERE t.id = :id AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)
      AND (t.person_id IS NULL OR p.active = 1 AND EXISTS (
        SELECT 1 FROM assent_grants g
        WHERE g.person_id = p.id AND g.project_id IN (t.project_id, '*') AND t.roles LIKE '%"' || g.role || '"%'))"""


@dataclass(frozen=True, slots=True)
class Token:
    id: str
    project: str
    kind: Kind
    name: str
    person_id: str | None
    roles: frozenset[Role]
    gates: tuple[str, ...]
    agent_ids: tuple[str, ...]
    creates_per_minute: int | None
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None = None
    revoked_at: int | None = None
    processes: tuple[str, ...] = ()
    agent: str | None = None
    """The first token of the same agent, or None for the first token itself."""

    @property
    def claims(self) -> bool:
        """Whether the token allows an agent to claim any agent ID."""
        return self.kind is Kind.AGENT and is_anything(self.agent_ids)

    def works(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class Tokens(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, token: Token, *, secret_hash: str) -> None:
        row: dict[str, Any] = {
            "id": token.id,
            "project_id": token.project,
            "kind": token.kind.value,
            "name": token.name,
            "person_id": token.person_id,
            "roles": _json(sorted(token.roles)),
            "gates": _json(token.gates),
            "agent_ids": _json(token.agent_ids),
            "creates_per_minute": token.creates_per_minute,
            "created_at": token.created_at,
            "created_by": token.created_by,
            "expires_at": token.expires_at,
            "last_used_at": None,
            "revoked_at": None,
            "processes": _json(token.processes),
            "agent": token.agent,
            "secret_hash": secret_hash,
        }
        with self._log.changes("token", token.id, project=token.project):
            self._session.write(INSERT, [row])

    def every(self, project: str) -> list[Token]:
        rows = self._session.all(f"{SELECT} WHERE project_id = :project_id ORDER BY id", {"project_id": project})
        return [_token(row) for row in rows]

    def get(self, token_id: str, *, project: str) -> Token:
        """Return a token, even one that is no longer valid."""
        params = {"id": token_id, "project_id": project}
        rows = self._session.all(f"{SELECT} WHERE id = :id AND project_id = :project_id", params)
        if not rows:
            msg = f"Token {token_id} not found in this project."
            raise NotFound(msg)
        return _token(rows[0])

    def revoke(self, token_id: str, *, project: str, now: int) -> None:
        with self._log.changes("token", token_id, project=project, act="token-revoked"):
            if self._session.change(REVOKE, {"id": token_id, "project_id": project, "now": now}) != 1:
                msg = f"Token {token_id} not found, or no longer active."
                raise NotFound(msg)

    def revoke_all(self, person_id: str, *, now: int) -> None:
        """Revoke every token of a person, in all projects."""
        for token_id, project, _, _ in self._session.all(SELECT_LIVE, {"person_id": person_id}):
            self.revoke(token_id, project=project, now=now)

    def revoke_made(self, person_id: str, *, since: int, by: Collection[str], now: int) -> None:
        """Revoke a person's tokens that these actors have created since the given time, in all projects."""
        for token_id, project, created_at, created_by in self._session.all(SELECT_LIVE, {"person_id": person_id}):
            if created_at >= since and created_by in by:
                self.revoke(token_id, project=project, now=now)

    def touch(self, used: Sequence[tuple[str, int]]) -> None:
        self._session.write(TOUCH, [{"id": token_id, "at": at} for token_id, at in used])


def _json(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()


def _token(row: Sequence[Any]) -> Token:
    value: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    value["project"] = value.pop("project_id")
    value["kind"] = Kind(value["kind"])
    value["roles"] = roles(msgspec.json.decode(value["roles"]))
    for name in ("gates", "agent_ids", "processes"):
        value[name] = tuple(msgspec.json.decode(value[name]))
    return Token(**value)
