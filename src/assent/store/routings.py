"""Where the telling of each breakpoint stands: begun with it, brought forward when its next step is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.domain.routing import Deputy
from assent.ports import Session
from assent.store.sql import among

COLUMNS = ("breakpoint_id", "project_id", "route_id", "route", "done", "seen", "deputies", "next_at")
# Nothing is begun where there is no channel and no ticket is demanded: whoever uses none pays next to nothing.
BEGIN = """
    INSERT INTO assent_routings (breakpoint_id, project_id, done, seen, deputies, next_at, created_at)
    SELECT :id, :project_id, 0, 0, '[]', :at, :at
    WHERE EXISTS (SELECT 1 FROM assent_channels WHERE project_id = :project_id AND removed_at IS NULL)
       OR EXISTS (SELECT 1 FROM assent_projects WHERE id = :project_id AND policy LIKE '%"ticketTags"%')"""
CHANGED = "UPDATE assent_routings SET next_at = :at WHERE (next_at IS NULL OR next_at > :at) AND"
SELECT_DUE = """
    SELECT r.breakpoint_id FROM assent_routings r JOIN assent_breakpoints b ON b.id = r.breakpoint_id
    WHERE r.next_at <= :now ORDER BY r.next_at LIMIT :limit"""
# Two nodes that count the messages of the same people in another order would wait for each other.
ALONE = "SELECT pg_try_advisory_xact_lock(7241002)"
SELECT_NEXT_DUE = """
    SELECT next_at FROM assent_routings WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1"""
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_routings"
SAVE = """
    UPDATE assent_routings
    SET route_id = :route_id, route = :route, done = :done, seen = :seen, deputies = :deputies, next_at = :next_at
    WHERE breakpoint_id = :breakpoint_id"""


@dataclass(frozen=True, slots=True)
class Routing:
    breakpoint_id: str
    project: str
    route_id: str | None
    route: str | None
    """The route as it was when it was taken, in JSON: what is changed later counts for what comes later."""
    done: int
    """How many steps of the route are behind it."""
    seen: int
    deputies: tuple[Deputy, ...]
    next_at: int | None


class Routings:
    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(self, breakpoint_id: str, project: str, *, at: int) -> None:
        """In the transaction that raises it, so that nothing is raised and told to nobody."""
        self._session.write(BEGIN, [{"id": breakpoint_id, "project_id": project, "at": at}])

    def changed(self, breakpoint_ids: Sequence[str], *, at: int) -> None:
        """Have a look at these at once: something happened to them that others are to be told."""
        if len(breakpoint_ids) == 1:
            self._session.write(f"{CHANGED} breakpoint_id = :id", [{"id": breakpoint_ids[0], "at": at}])
        elif breakpoint_ids:
            test, params = among("breakpoint_id", breakpoint_ids, self._session.dialect)
            self._session.write(f"{CHANGED} {test}", [params | {"at": at}])

    def take_due(self, now: int, *, limit: int) -> list[Routing]:
        """Return what is due, its breakpoints locked, ordered by id; what somebody else holds comes later."""
        if self._session.dialect == "postgresql" and not self._session.all(ALONE, {})[0][0]:
            return []
        # Whoever writes a routing holds the lock of its breakpoint: read again once it is ours.
        lock = " FOR UPDATE OF b SKIP LOCKED" if self._session.dialect == "postgresql" else ""
        ids = [row[0] for row in self._session.all(SELECT_DUE + lock, {"now": now, "limit": limit})]
        if not ids:
            return []
        test, params = among("breakpoint_id", ids, self._session.dialect)
        rows = self._session.all(
            f"{SELECT} WHERE {test} AND next_at <= :now ORDER BY breakpoint_id", params | {"now": now}
        )
        return [_routing(row) for row in rows]

    def find(self, breakpoint_id: str) -> Routing | None:
        rows = self._session.all(f"{SELECT} WHERE breakpoint_id = :id", {"id": breakpoint_id})
        return _routing(rows[0]) if rows else None

    def deputies(self, breakpoint_id: str) -> tuple[Deputy, ...]:
        """Return who may answer it beside those who were asked."""
        found = self.find(breakpoint_id)
        return found.deputies if found else ()

    def save(self, routing: Routing) -> None:
        row = {
            "breakpoint_id": routing.breakpoint_id,
            "route_id": routing.route_id,
            "route": routing.route,
            "done": routing.done,
            "seen": routing.seen,
            "deputies": msgspec.json.encode([(each.name, each.stands_in_for) for each in routing.deputies]).decode(),
            "next_at": routing.next_at,
        }
        self._session.write(SAVE, [row])


def _routing(row: Sequence[Any]) -> Routing:
    breakpoint_id, project, route_id, route, done, seen, deputies, next_at = row
    standing_in = tuple(Deputy(*each) for each in msgspec.json.decode(deputies))
    return Routing(breakpoint_id, project, route_id, route, done, seen, standing_in, next_at)
