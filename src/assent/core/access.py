"""Access control: roles, the table of permissions, and the principal behind a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from assent.core.errors import Forbidden, ProjectRemoved
from assent.core.patterns.globs import glob_matches


class Role(StrEnum):
    VIEWER = "viewer"
    REVIEWER = "reviewer"
    RULE_ADMIN = "rule-admin"
    AUDITOR = "auditor"
    ADMIN = "admin"


class Permission(StrEnum):
    CREATE = "create"
    READ = "read"
    COMMENT = "comment"
    DECIDE = "decide"
    OVERRIDE = "override"
    CANCEL = "cancel"
    EXPIRE = "expire"
    UPLOAD = "upload"
    METRICS = "metrics"
    READ_PEOPLE = "read people"
    AUDIT = "audit"
    RULES = "write rules"
    MANAGE = "manage"


class Kind(StrEnum):
    AGENT = "agent"
    PERSON = "person"
    SERVICE = "service"
    SYSTEM = "system"
    RULE = "rule"
    TRIGGER = "trigger"


_READS = frozenset({Permission.READ, Permission.READ_PEOPLE})

ROLE_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _READS,
    Role.REVIEWER: _READS
    | {Permission.CREATE, Permission.UPLOAD, Permission.COMMENT, Permission.DECIDE, Permission.CANCEL},
    Role.RULE_ADMIN: _READS | {Permission.RULES},
    Role.AUDITOR: _READS | {Permission.AUDIT},
    Role.ADMIN: _READS
    | {
        Permission.CREATE,
        Permission.UPLOAD,
        Permission.COMMENT,
        Permission.OVERRIDE,
        Permission.CANCEL,
        Permission.EXPIRE,
        Permission.METRICS,
        Permission.RULES,
        Permission.MANAGE,
        Permission.AUDIT,
    },
}
AGENT_PERMISSIONS = frozenset(
    {Permission.CREATE, Permission.UPLOAD, Permission.READ, Permission.COMMENT, Permission.CANCEL}
)
SERVICE_PERMISSIONS = frozenset({Permission.METRICS})
READ_ONLY = _READS | {Permission.AUDIT, Permission.METRICS}
"""The only permissions that remain in a removed project."""
EVERY_ROLE = frozenset(Role)
ANYTHING = ("*",)


def is_anything(patterns: Iterable[str]) -> bool:
    """Return whether any of the patterns consists only of stars and therefore matches everything."""
    return any(pattern and not pattern.strip("*") for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who performed an action, as recorded in the history: `person:ann`, `agent:ci-bot`, `rule:…`, `system:timeout`."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    # Cached, because the same few actors occur again and again in long histories.
    @staticmethod
    @lru_cache(maxsize=4096)
    def parse(text: str) -> "Actor":
        kind, _, name = text.partition(":")
        return Actor(Kind(kind), name)


TIMEOUT = Actor(Kind.SYSTEM, "timeout")
RETENTION = Actor(Kind.SYSTEM, "retention")
UNDO = Actor(Kind.SYSTEM, "undo")
ROUTE = Actor(Kind.SYSTEM, "route")
PROJECT_REMOVED = Actor(Kind.SYSTEM, "project-removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The identity behind a request. Permissions depend only on it, never on the contents of the request."""

    kind: Kind
    id: str
    name: str
    project: str
    roles: frozenset[Role] = frozenset()
    everywhere: bool = False
    gates: tuple[str, ...] = ANYTHING
    agent_ids: tuple[str, ...] = ANYTHING
    processes: tuple[str, ...] = ANYTHING
    creates_per_minute: int | None = None
    token_id: str | None = None
    session_id: str | None = None
    """A prefix of the hash of a browser session's ID; it identifies the session, but does not grant access."""
    expires_at: int | None = None
    # Excluded from the hash, because mappings are not hashable.
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    project_removed: bool = False
    """Whether the project was removed and is therefore read-only."""

    @property
    def actor(self) -> Actor:
        return Actor(self.kind, self.name)

    def may(self, permission: Permission) -> bool:
        return permission in permissions(self)

    def require(self, permission: Permission) -> None:
        if not self.may(permission):
            # In a removed project, no role would help, so do not suggest that a permission is missing.
            if self.project_removed:
                raise removed_project(self.project)
            who = (
                "An agent token"
                if self.kind is Kind.AGENT
                else f"{self.name} ({', '.join(sorted(self.roles)) or 'no roles'})"
            )
            msg = f"{who} lacks the “{permission}” permission in project {self.project}."
            raise Forbidden(msg, permission=permission)

    def require_speaks_for(self, agent_id: str | None, gate: str) -> None:
        """Raise Forbidden unless the token's patterns allow this agent and gate.

        Without an agent, only the gate is checked.
        """
        if self.agent_ids == ANYTHING and self.gates == ANYTHING:
            return
        if agent_id is not None and not any(glob_matches(pattern, agent_id) for pattern in self.agent_ids):
            msg = f"This token cannot act for agent {agent_id!r}; it is limited to {', '.join(self.agent_ids)}."
            raise Forbidden(msg)
        if not any(glob_matches(pattern, gate) for pattern in self.gates):
            msg = (
                f"This token cannot create breakpoints at the gate {gate!r}; it is limited to {', '.join(self.gates)}."
            )
            raise Forbidden(msg)

    def require_starts(self, process: str) -> None:
        """Raise Forbidden unless the token's patterns allow starting this process."""
        if not any(glob_matches(pattern, process) for pattern in self.processes):
            allowed = (
                f"it is limited to {', '.join(self.processes)}"
                if self.processes
                else "it is not allowed to start any processes"
            )
            msg = f"This token cannot start the process {process!r}; {allowed}. Create a token with --process."
            raise Forbidden(msg)

    @property
    def claims_agent_id(self) -> bool:
        """True if agent IDs in requests are unverified, because the token is not limited to certain agent IDs."""
        return self.kind in {Kind.AGENT, Kind.PERSON} and is_anything(self.agent_ids)


def system(name: str) -> Principal:
    """Return the principal for actions by Assent itself, such as `system:oidc`."""
    return Principal(kind=Kind.SYSTEM, id=f"system:{name}", name=name, project="*")


def removed_project(project: str) -> ProjectRemoved:
    return ProjectRemoved(
        f"The project {project} was removed. You can still read its history, but you cannot change anything."
    )


def permissions(principal: Principal) -> frozenset[Permission]:
    held = _permissions(principal.kind, principal.roles)
    return held & READ_ONLY if principal.project_removed else held


@lru_cache(maxsize=256)
def _permissions(kind: Kind, held: frozenset[Role]) -> frozenset[Permission]:
    # Roles are ignored for agents and services, so they can never get the permission to decide.
    if kind in {Kind.AGENT, Kind.TRIGGER}:
        return AGENT_PERMISSIONS
    if kind is Kind.SERVICE:
        return SERVICE_PERMISSIONS
    return frozenset[Permission]().union(*(ROLE_PERMISSIONS[role] for role in held))


def roles(names: Iterable[str]) -> frozenset[Role]:
    return frozenset(Role(name) for name in names)
