"""The notification state of each breakpoint, created with the breakpoint and due when its next step is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.seats import Deputy
from assent.db.sql import among
from assent.db.transaction import Store

COLUMNS = ("breakpoint_id", "project_id", "route_id", "route", "done", "seen", "deputies", "next_at")
# Inserts nothing for projects without channels and without tags that require a ticket, so that such projects have
# almost no overhead.
BEGIN = """
    INSERT INTO assent_routings (breakpoint_id, project_id, done, seen, deputies, next_at, created_at)
    SELECT :id, :project_id, 0, 0, '[]', :at, :at
    WHERE EXISTS (SELECT 1 FROM assent_channels WHERE project_id = :project_id AND removed_at IS NULL)
       OR EXISTS (SELECT 1 FROM assent_projects WHERE id = :project_id AND policy LIKE '%"ticketTags"%')"""
CHANGED = "UPDATE assent_routings SET next_at = :at WHERE (next_at IS NULL OR next_at > :at) AND"
SELECT_DUE = """
    SELECT r.breakpoint_id FROM assent_routings r JOIN assent_breakpoints b ON b.id = r.breakpoint_id
    WHERE r.next_at <= :now ORDER BY r.next_at LIMIT :limit"""
# Only one node at a time: two that lock the rate limits of the same recipients in different orders could deadlock.
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
    """The route as it was when selected, as JSON; changes to it affect only new breakpoints."""
    done: int
    """The number of completed steps of the route."""
    seen: int
    deputies: tuple[Deputy, ...]
    next_at: int | None


class Routings(Store):
    def begin(self, breakpoint_id: str, project: str, *, at: int) -> None:
        """Insert the state in the transaction that creates the breakpoint, so that no notification is lost."""
        self._session.write(BEGIN, [{"id": breakpoint_id, "project_id": project, "at": at}])

    def changed(self, breakpoint_ids: Sequence[str], *, at: int) -> None:
        """Make these breakpoints due immediately, because of an event that recipients must be notified of."""
        # The usual case, for which the statement is always the same.
        if len(breakpoint_ids) == 1:
            self._session.write(f"{CHANGED} breakpoint_id = :id", [{"id": breakpoint_ids[0], "at": at}])
        elif breakpoint_ids:
            test, params = among("breakpoint_id", breakpoint_ids, self._session.dialect)
            self._session.write(f"{CHANGED} {test}", [params | {"at": at}])

    def take_due(self, now: int, *, limit: int) -> list[Routing]:
        """Lock the due breakpoints and return their state, ordered by ID; skip those that are already locked."""
        if self._session.dialect == "postgresql" and not self._session.all(ALONE, {})[0][0]:
            return []
        # Writing the state requires the lock on its breakpoint, so read the rows again once we hold the lock.
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
        """Return who may answer in addition to the assigned experts."""
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
