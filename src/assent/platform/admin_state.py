"""The state that admin events describe: of one subject for an event, or of all subjects for an audit."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import cast

import msgspec

from assent.core.canonical import Json
from assent.db.sql import Row
from assent.db.transaction import Store
from assent.platform.admin_events import INSTALLATION, State, chain_of, fingerprint, use_chain

STATE_VERSION = 6
"""Increment this when a kind or field is added: the next start then records a baseline of the addition."""


@dataclass(frozen=True, slots=True)
class StateKind:
    """A table as admin events describe it.

    `select` contains `{where}` or `{and}`, which is replaced by the condition `one` or by nothing. Its first columns
    are the project and the key of the subject within its kind.
    """

    select: str
    one: str
    value: Callable[[Row], Mapping[str, Json] | None]
    many: bool = False
    """Whether several consecutive rows form one state."""


def _plain(*names: str) -> Callable[[Row], Mapping[str, Json]]:
    def value(row: Row) -> Mapping[str, Json]:
        return dict(zip(names, row[2:], strict=True))

    return value


def _listed(name: str) -> Callable[[Row], Mapping[str, Json] | None]:
    def value(rows: Row) -> Mapping[str, Json] | None:
        return {name: sorted(each[2] for each in rows if each[2] is not None)}

    return value


def _person(row: Row) -> Mapping[str, Json]:
    person_id, display_name, email, password, active, created_at, home, reset_by, reset_at, reset_way = row[2:]
    return {
        "id": person_id,
        "displayName": display_name,
        "email": email,
        "password": fingerprint(password),
        "active": active == 1,
        "createdAt": created_at,
        "home": home,
        "resetBy": reset_by,
        "resetAt": reset_at,
        "resetWay": reset_way,
    }


def _token(row: Row) -> Mapping[str, Json]:
    *plain, roles, gates, agent_ids, processes, secret = row[2:]
    names = ("kind", "name", "person", "createsPerMinute", "createdAt", "createdBy", "expiresAt", "revokedAt", "agent")
    lists = zip(("roles", "gates", "agentIds", "processes"), (roles, gates, agent_ids, processes), strict=True)
    state: dict[str, Json] = dict(zip(names, plain, strict=True))
    return state | {name: msgspec.json.decode(text) for name, text in lists} | {"secret": fingerprint(secret)}


def _policy(row: Row) -> Mapping[str, Json] | None:
    return msgspec.json.decode(row[2]) or None


def _decoded(*names: str, text: str) -> Callable[[Row], Mapping[str, Json]]:
    """Read columns, one of which contains JSON."""
    plain = _plain(*names)

    def value(row: Row) -> Mapping[str, Json]:
        found = plain(row)
        return {**found, text: msgspec.json.decode(found[text])}

    return value


def _secret(row: Row) -> Mapping[str, Json]:
    ciphertext, key_id, retired_at = row[2:]
    return {"ciphertext": fingerprint(bytes(ciphertext)), "keyId": key_id, "retiredAt": retired_at}


_EVERYWHERE = f"'{INSTALLATION}'"
KINDS: Mapping[str, StateKind] = {
    "person": StateKind(
        f"""SELECT {_EVERYWHERE}, name, id, display_name, email, password_hash, active, created_at,
            home_project, reset_by, reset_at, reset_way
        FROM assent_people{{where}} ORDER BY id""",
        "id = :key",
        _person,
    ),
    "roles": StateKind(
        """SELECT g.project_id, coalesce(p.name, g.person_id), g.role
        FROM assent_grants g LEFT JOIN assent_people p ON p.id = g.person_id{where}
        ORDER BY g.project_id, g.person_id""",
        "g.person_id = :key AND g.project_id = :project",
        _listed("roles"),
        many=True,
    ),
    "group": StateKind(
        """SELECT g.project_id, g.name, p.name
        FROM assent_groups g
        LEFT JOIN assent_group_members m ON m.project_id = g.project_id AND m.group_name = g.name
        LEFT JOIN assent_people p ON p.id = m.person_id{where} ORDER BY g.project_id, g.name""",
        "g.name = :key AND g.project_id = :project",
        _listed("members"),
        many=True,
    ),
    "token": StateKind(
        """SELECT t.project_id, t.id, t.kind, t.name, p.name, t.creates_per_minute, t.created_at, t.created_by,
            t.expires_at, t.revoked_at, t.agent, t.roles, t.gates, t.agent_ids, t.processes, t.secret_hash
        FROM assent_tokens t LEFT JOIN assent_people p ON p.id = t.person_id{where} ORDER BY t.id""",
        "t.id = :key",
        _token,
    ),
    "project": StateKind(
        """SELECT o.id, o.id, o.name, p.name, o.created_at, o.removed_at
        FROM assent_projects o LEFT JOIN assent_people p ON p.id = o.owner_id{where} ORDER BY o.id""",
        "o.id = :key",
        _plain("name", "owner", "createdAt", "removedAt"),
    ),
    "policy": StateKind("SELECT id, id, policy FROM assent_projects{where} ORDER BY id", "id = :key", _policy),
    "identity": StateKind(
        f"""SELECT {_EVERYWHERE}, i.issuer || ' ' || i.subject, p.name, i.linked_at, i.linked_by
        FROM assent_identities i LEFT JOIN assent_people p ON p.id = i.person_id{{where}}
        ORDER BY i.issuer, i.subject""",
        "i.issuer || ' ' || i.subject = :key",
        _plain("person", "linkedAt", "linkedBy"),
    ),
    "link": StateKind(
        """SELECT c.project_id, l.channel_id || ' ' || l.identity, p.name, l.linked_at, l.linked_by
        FROM assent_links l JOIN assent_channels c ON c.id = l.channel_id
        LEFT JOIN assent_people p ON p.id = l.person_id{where} ORDER BY l.channel_id, l.identity""",
        "l.channel_id || ' ' || l.identity = :key",
        _plain("person", "linkedAt", "linkedBy"),
    ),
    "notification-preferences": StateKind(
        f"""SELECT {_EVERYWHERE}, coalesce(p.name, n.person_id), n.content
        FROM assent_preferences n LEFT JOIN assent_people p ON p.id = n.person_id{{where}} ORDER BY n.person_id""",
        "n.person_id = :key",
        _decoded("content", text="content"),
    ),
    "channel": StateKind(
        """SELECT project_id, id, name, type, settings, enabled, disabled_because, source
        FROM assent_channels WHERE removed_at IS NULL{and} ORDER BY id""",
        "id = :key",
        _decoded("name", "type", "settings", "enabled", "disabledBecause", "source", text="settings"),
    ),
    "route": StateKind(
        "SELECT project_id, id, position, pattern, content, enabled, source FROM assent_routes{where} ORDER BY id",
        "id = :key",
        _decoded("position", "pattern", "content", "enabled", "source", text="content"),
    ),
    "source": StateKind(
        """SELECT project_id, id, name, kind, settings, enabled, origin
        FROM assent_sources WHERE removed_at IS NULL{and} ORDER BY id""",
        "id = :key",
        _decoded("name", "kind", "settings", "enabled", "origin", text="settings"),
    ),
    "trigger": StateKind(
        """SELECT project_id, id, name, content, state, because, origin
        FROM assent_triggers WHERE removed_at IS NULL{and} ORDER BY id""",
        "id = :key",
        _decoded("name", "content", "state", "because", "origin", text="content"),
    ),
    "hold": StateKind(
        """SELECT project_id, id, breakpoint_id, reason, placed_by, placed_at, lifted_by, lifted_at
        FROM assent_holds{where} ORDER BY id""",
        "id = :key",
        _plain("breakpointId", "reason", "placedBy", "placedAt", "liftedBy", "liftedAt"),
    ),
    "secret": StateKind(
        """SELECT project_id, name || ' version ' || version, ciphertext, key_id, retired_at
        FROM assent_secrets{where} ORDER BY project_id, name, version""",
        "name || ' version ' || version = :key AND project_id = :project",
        _secret,
    ),
    "receipt-key": StateKind(
        """SELECT project_id, key_id, version, public_key, created_by, retired_at, revoked_at
        FROM assent_receipt_keys{where} ORDER BY project_id, version""",
        "key_id = :key",
        _plain("version", "publicKey", "createdBy", "retiredAt", "revokedAt"),
    ),
    "checkpoint-key": StateKind(
        f"""SELECT {_EVERYWHERE}, key_id, version, public_key, origin, created_by, retired_at
        FROM assent_checkpoint_keys{{where}} ORDER BY version""",
        "key_id = :key",
        _plain("version", "publicKey", "origin", "createdBy", "retiredAt"),
    ),
    "epoch": StateKind(
        f"SELECT {_EVERYWHERE}, number, at FROM assent_epochs{{where}} ORDER BY number",
        "CAST(number AS text) = :key",
        _plain("at"),
    ),
    "receipt": StateKind(
        """SELECT coalesce(b.project_id, ''), u.breakpoint_id, u.nonce, u.key_id, u.used_at, u.used_by
        FROM assent_receipt_uses u LEFT JOIN assent_breakpoints b ON b.id = u.breakpoint_id{where}
        ORDER BY u.breakpoint_id""",
        "u.breakpoint_id = :key",
        _plain("nonce", "keyId", "usedAt", "usedBy"),
    ),
}


class AdminState(Store):
    def one(self, kind: str, key: str, *, project: str) -> State | None:
        return next(self._states(kind, KINDS[kind].one, {"key": key, "project": project}), None)

    def every(self) -> Iterator[State]:
        for kind in KINDS:
            yield from self._states(kind, "", {})

    def of(self, kind: str, test: str = "", params: Mapping[str, Json] | None = None) -> Iterator[State]:
        return self._states(kind, test, params or {})

    def _states(self, kind: str, test: str, params: Mapping[str, Json]) -> Iterator[State]:
        described = KINDS[kind]
        where, and_ = (f" WHERE {test}", f" AND {test}") if test else ("", "")
        statement = described.select.replace("{where}", where).replace("{and}", and_)
        rows = self._session.all(statement, params)
        grouped = [list(each) for _, each in groupby(rows, itemgetter(0, 1))] if described.many else rows
        for each in grouped:
            value = described.value(each)
            first = cast("Row", each[0] if described.many else each)
            if value is not None:
                chain = use_chain(first[1]) if kind == "receipt" else chain_of(first[0])
                yield State(chain, first[0], f"{kind}:{first[1]}", value)
