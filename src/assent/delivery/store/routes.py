"""Stores routes and their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.errors import AssentError, Conflict, NotFound
from assent.db.sql import insert, to_json
from assent.db.transaction import Store, Transaction
from assent.delivery.routes import Route
from assent.delivery.routes_file import read, written
from assent.platform.admin_log import AdminLog
from assent.policy.store.rules import Rules

COLUMNS = (
    "id", "project_id", "position", "pattern", "content", "enabled", "source", "created_by", "created_at", "updated_at",
)  # fmt: skip
INSERT = insert("assent_routes", COLUMNS)
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_routes WHERE project_id = :project_id"
UPDATE = """
    UPDATE assent_routes
    SET position = :position, pattern = :pattern, content = :content, enabled = :enabled, updated_at = :updated_at
    WHERE id = :id AND project_id = :project_id AND updated_at = :expected"""
MOVE = "UPDATE assent_routes SET position = :position WHERE id = :id AND project_id = :project_id"
_ORDER = "ORDER BY CASE WHEN source = 'file' THEN 0 ELSE 1 END, position, created_at, id"
# Locks the project, so that changes to its routes happen one after the other, as with rules.
LOCK = "SELECT id FROM assent_projects WHERE id = :project_id FOR NO KEY UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRoute:
    id: str
    project: str
    position: int
    route: Route
    enabled: bool = True
    source: str = "api"
    created_by: str = "system"
    created_at: int = 0
    updated_at: int = 0


class Routes(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]
        self._rules = tx[Rules]

    def wait_for_others(self, project: str) -> None:
        """Prevent other transactions from changing the routes of this project until this one ends."""
        if self._session.dialect == "postgresql":
            self._session.all(LOCK, {"project_id": project})

    def in_project(self, project: str) -> list[StoredRoute]:
        """Return all routes in order, including disabled ones; those from assent.yaml come first."""
        rows = self._session.all(f"{SELECT} {_ORDER}", {"project_id": project})
        return [_route(row) for row in rows]

    def in_force(self, project: str) -> list[Route]:
        """Return the enabled routes in order, except unreadable ones."""
        rows = self._session.all(f"{SELECT} AND enabled = 1 {_ORDER}", {"project_id": project})
        return [route for row in rows if (route := _readable(row)) is not None]

    def projects(self, source: str) -> set[str]:
        """Return the projects that have routes from this source."""
        rows = self._session.all("SELECT DISTINCT project_id FROM assent_routes WHERE source = :s", {"s": source})
        return {row[0] for row in rows}

    def get(self, route_id: str, *, project: str) -> StoredRoute:
        rows = self._session.all(f"{SELECT} AND id = :id", {"project_id": project, "id": route_id})
        if not rows:
            raise _missing(route_id)
        return _route(rows[0])

    def add(self, route: StoredRoute) -> None:
        with self._log.changes("route", route.id, project=route.project):
            self._session.write(INSERT, [_row(route)])
        self._turn_page(route.project)

    def save(self, route: StoredRoute, *, now: int) -> StoredRoute:
        """Save the mutable fields of a route, if it has not changed since it was read; return its new state."""
        row = _row(route) | {"expected": route.updated_at, "updated_at": max(now, route.updated_at + 1)}
        for fixed in ("source", "created_by", "created_at"):
            del row[fixed]
        with self._log.changes("route", route.id, project=route.project):
            if self._session.change(UPDATE, row) != 1:
                msg = f"The route {route.id} was changed or removed in the meantime. Reload it and try again."
                raise Conflict(msg)
        self._turn_page(route.project)
        return self.get(route.id, project=route.project)

    def remove(self, route_id: str, *, project: str) -> None:
        statement = "DELETE FROM assent_routes WHERE id = :id AND project_id = :project_id"
        with self._log.changes("route", route_id, project=project):
            if self._session.change(statement, {"id": route_id, "project_id": project}) != 1:
                raise _missing(route_id)
        self._turn_page(project)

    def reorder(self, project: str, route_ids: Sequence[str]) -> None:
        """Set the order of the routes; positions start at 1."""
        for n, each in enumerate(route_ids, start=1):
            with self._log.changes("route", each, project=project, act="route-moved"):
                self._session.write(MOVE, [{"id": each, "project_id": project, "position": n}])
        if route_ids:
            self._turn_page(project)

    def _turn_page(self, project: str) -> None:
        """Invalidate the cached rulebooks, which contain the routes because a route's timeout sets deadlines."""
        self._rules.turn_page(project)


def _missing(route_id: str) -> NotFound:
    return NotFound(f"Route {route_id} not found in this project.")


def _row(stored: StoredRoute) -> dict[str, Any]:
    return {
        "id": stored.id,
        "project_id": stored.project,
        "position": stored.position,
        "pattern": stored.route.pattern,
        "content": to_json(written(stored.route)),
        "enabled": int(stored.enabled),
        "source": stored.source,
        "created_by": stored.created_by,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def _readable(row: Sequence[Any]) -> Route | None:
    try:
        return _route(row).route
    except (AssentError, msgspec.MsgspecError):
        return None


def _route(row: Sequence[Any]) -> StoredRoute:
    found = dict(zip(COLUMNS, row, strict=True))
    del found["pattern"]
    project, content, enabled = found.pop("project_id"), found.pop("content"), found.pop("enabled")
    route = read(msgspec.json.decode(content), route_id=found["id"])
    return StoredRoute(**found, project=project, route=route, enabled=bool(enabled))
