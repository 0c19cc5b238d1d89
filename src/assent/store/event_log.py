"""Every event of a project in the order of time: for reading it, and for taking it along."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from assent.domain.access import Kind
from assent.domain.errors import InvalidRequest
from assent.ports import Session
from assent.store.sql import among

_SELECT = """
    SELECT e.at, e.breakpoint_id, e.seq, e.type, e.actor, e.metadata, e.previous, e.hash, b.gate, b.agent_id, b.title
    FROM assent_events e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
    WHERE b.project_id = :project"""
_OLDER = " AND (e.at, e.breakpoint_id, e.seq) < (:at, :breakpoint_id, :seq)"
_ORDER = " ORDER BY e.at DESC, e.breakpoint_id DESC, e.seq DESC LIMIT :limit"
_WHERES = {"type": "e.type = :type", "gate": "b.gate = :gate", "since": "e.at >= :since", "until": "e.at < :until"}


class Place(NamedTuple):
    """Where a page ended, and the next one begins."""

    at: int
    breakpoint_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Logged:
    """An event, and what it is about."""

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
    def place(self) -> Place:
        return Place(self.at, self.breakpoint_id, self.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    project: str
    actor: str | None = None
    type: str | None = None
    gate: str | None = None
    since: int | None = None
    until: int | None = None


class EventLog:
    def __init__(self, session: Session) -> None:
        self._session = session

    def page(self, query: LogQuery, *, before: Place | None, limit: int) -> list[Logged]:
        """Newest first."""
        params: dict[str, Any] = {"project": query.project, "limit": limit}
        statement = _SELECT
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
            statement += _OLDER
            params |= before._asdict()
        return [Logged(*row) for row in self._session.all(statement + _ORDER, params)]


def _actors(text: str) -> list[str]:
    """`person:ann` is somebody; `ann` alone is whoever is called so."""
    return [text] if text.partition(":")[0] in set(Kind) and ":" in text else [f"{kind}:{text}" for kind in Kind]


def encode_place(place: Place) -> str:
    return msgspec.json.encode(place).hex()


def decode_place(text: str) -> Place:
    try:
        return msgspec.json.decode(bytes.fromhex(text), type=Place)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvalidRequest.at("cursor", "is not one that this list gave") from error
