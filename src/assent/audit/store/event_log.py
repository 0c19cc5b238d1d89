"""A project's breakpoint events and admin events, newest first."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from assent.core.access import Kind
from assent.core.errors import InvalidRequest
from assent.db.sql import among
from assent.db.transaction import Store
from assent.platform.admin_events import INSTALLATION, is_admin_chain

_SELECT = """
    SELECT e.at, e.breakpoint_id, e.seq, e.type, e.actor, e.metadata, e.previous, e.hash, b.gate, b.agent_id, b.title
    FROM assent_events e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
    WHERE b.project_id = :project"""
_ADMIN = """
    SELECT e.at, e.chain_id, e.seq, e.type, e.actor, e.metadata, e.previous, e.hash, '', '', NULL
    FROM assent_admin_events e WHERE e.project_id IN (:project, :installation)"""
_ADMIN_OLDER = " AND (e.at, e.chain_id, e.seq) < (:at, :breakpoint_id, :seq)"
_ADMIN_ORDER = " ORDER BY e.at DESC, e.chain_id DESC, e.seq DESC LIMIT :limit"
_OLDER = " AND (e.at, e.breakpoint_id, e.seq) < (:at, :breakpoint_id, :seq)"
_ORDER = " ORDER BY e.at DESC, e.breakpoint_id DESC, e.seq DESC LIMIT :limit"
_WHERES = {"type": "e.type = :type", "gate": "b.gate = :gate", "since": "e.at >= :since", "until": "e.at < :until"}


BREAKPOINT, ADMIN = "breakpoint", "admin"


class Place(NamedTuple):
    """The position at which one page ends and the next page begins."""

    at: int
    breakpoint_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An event with its breakpoint or, for an admin event, its chain."""

    at: int
    breakpoint_id: str
    seq: int
    type: str
    actor: str
    metadata: str
    previous: str
    hash: str
    gate: str
    agent_id: str
    title: str | None

    @property
    def admin(self) -> bool:
        return is_admin_chain(self.breakpoint_id)

    @property
    def place(self) -> Place:
        return Place(self.at, self.breakpoint_id, self.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    project: str
    everywhere: bool = False
    """Whether to include installation-wide admin events."""
    kind: str | None = None
    """`breakpoint` or `admin`; None includes both."""
    actor: str | None = None
    type: str | None = None
    gate: str | None = None
    since: int | None = None
    until: int | None = None


class EventLog(Store):
    def page(self, query: LogQuery, *, before: Place | None, limit: int) -> list[Logged]:
        """Return a page of events, newest first."""
        found: list[Logged] = []
        if query.kind != ADMIN:
            found += self._page(_SELECT, (_OLDER, _ORDER), query, before, limit)
        # Admin events do not have a gate, so a gate filter excludes them.
        if query.kind != BREAKPOINT and query.gate is None:
            found += self._page(_ADMIN, (_ADMIN_OLDER, _ADMIN_ORDER), query, before, limit)
        return sorted(found, key=lambda each: each.place, reverse=True)[:limit]

    def _page(
        self, statement: str, paging: tuple[str, str], query: LogQuery, before: Place | None, limit: int
    ) -> list[Logged]:
        installation = INSTALLATION if query.everywhere else query.project
        params: dict[str, Any] = {"project": query.project, "installation": installation, "limit": limit}
        for name, where in _WHERES.items():
            value = getattr(query, name)
            if value is not None:
                statement += f" AND {where}"
                params[name] = value
        if query.actor is not None:
            test, given = among("e.actor", _actors(query.actor), self._session.dialect)
            statement += f" AND {test}"
            params |= given
        if before is not None:
            statement += paging[0]
            params |= before._asdict()
        return [Logged(*row) for row in self._session.all(statement + paging[1], params)]


def _actors(text: str) -> list[str]:
    """Return the actors that match a filter: `person:ann` is one actor, and `ann` is every actor with that name."""
    return [text] if text.partition(":")[0] in set(Kind) and ":" in text else [f"{kind}:{text}" for kind in Kind]


def encode_place(place: Place) -> str:
    return msgspec.json.encode(place).hex()


def decode_place(text: str) -> Place:
    try:
        return msgspec.json.decode(bytes.fromhex(text), type=Place)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest.at("cursor", "is not a valid cursor") from error
