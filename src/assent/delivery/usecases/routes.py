"""Creates, changes, removes and orders routes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assent.core.access import Permission, Principal
from assent.core.canonical import Json
from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.routes import GROUP, PERSON, Route
from assent.delivery.routes_file import checked, written
from assent.delivery.store.channels import Channels
from assent.delivery.store.routes import Routes, StoredRoute
from assent.delivery.usecases.channels import FROM_FILE, in_file
from assent.people.store.people import People
from assent.people.usecases.people import find_in_project

MOST = 1_000


class RouteService:
    def listed(self, tx: Transaction, *, by: Principal) -> list[StoredRoute]:
        """Return the routes in evaluation order: those from assent.yaml first."""
        by.require(Permission.READ_PEOPLE)
        return tx[Routes].in_project(by.project)

    def create(self, tx: Transaction, body: Mapping[str, Json], *, by: Principal, enabled: bool = True) -> StoredRoute:
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Routes].wait_for_others(by.project)
        route_id = tx.new_id("rt")
        route = checked(body, route_id=route_id)
        refuse_unknown(tx, route, by.project)
        standing = tx[Routes].in_project(by.project)
        if len(standing) >= MOST:
            raise InvalidRequest.at("/", f"a project can have at most {MOST:,} routes")
        now = tx.now()
        made = StoredRoute(
            id=route_id,
            project=by.project,
            position=max((each.position for each in standing), default=0) + 1,
            route=route,
            enabled=enabled,
            created_by=str(by.actor),
            created_at=now,
            updated_at=now,
        )
        tx[Routes].add(made)
        return made

    def change(self, tx: Transaction, route_id: str, changes: Mapping[str, Json], *, by: Principal) -> StoredRoute:
        """Change only the given fields; null removes a value."""
        current = self._to_change(tx, route_id, by)
        said = {name: value for name, value in changes.items() if name != "enabled"}
        merged = {name: value for name, value in {**written(current.route), **said}.items() if value is not None}
        route = checked(merged, route_id=route_id)
        # An unchanged route is not checked, so that a route whose channel was removed can still be disabled.
        if route != current.route:
            refuse_unknown(tx, route, by.project)
        wanted = replace(current, route=route, enabled=changes.get("enabled", current.enabled))
        return current if wanted == current else tx[Routes].save(wanted, now=tx.now())

    def remove(self, tx: Transaction, route_id: str, *, by: Principal) -> None:
        self._to_change(tx, route_id, by)
        tx[Routes].remove(route_id, project=by.project)

    def reorder(self, tx: Transaction, route_ids: Sequence[str], *, by: Principal) -> list[StoredRoute]:
        """Set the order of the routes that are not defined in assent.yaml; all of them must be listed."""
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Routes].wait_for_others(by.project)
        movable = [each.id for each in tx[Routes].in_project(by.project) if each.source != FROM_FILE]
        if sorted(movable) != sorted(route_ids):
            raise InvalidRequest.at("/ids", "must list every route exactly once, except those from assent.yaml")
        tx[Routes].reorder(by.project, route_ids)
        return tx[Routes].in_project(by.project)

    def _to_change(self, tx: Transaction, route_id: str, by: Principal) -> StoredRoute:
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Routes].wait_for_others(by.project)
        current = tx[Routes].get(route_id, project=by.project)
        if current.source == FROM_FILE:
            raise in_file("route", route_id)
        return current


def refuse_unknown(tx: Transaction, route: Route, project: str) -> None:
    """Refuse unknown channels, groups and people, because the route could not notify them."""
    refuse_unknown_channels(route, {each.name for each in tx[Channels].in_project(project)})
    groups = tx[People].groups(project)
    for pointer, names in _targets(route):
        for n, name in enumerate(names):
            if name.startswith(GROUP) and name.removeprefix(GROUP) not in groups:
                raise InvalidRequest.at(f"{pointer}/{n}", f"group {name.removeprefix(GROUP)} not found")
            if name.startswith(PERSON) and find_in_project(tx, name.removeprefix(PERSON), project) is None:
                raise InvalidRequest.at(f"{pointer}/{n}", f"person {name.removeprefix(PERSON)} not found")


def refuse_unknown_channels(route: Route, known: set[str]) -> None:
    listed = [("/channels", route.channels), ("/fallback", route.fallback)]
    listed += [(f"/escalate/{n}/channels", level.channels) for n, level in enumerate(route.escalate)]
    for pointer, names in listed:
        for n, name in enumerate(names):
            if name not in known:
                raise InvalidRequest.at(f"{pointer}/{n}", f"channel {name} not found")


def _targets(route: Route) -> list[tuple[str, tuple[str, ...]]]:
    return [("/to", route.to), *((f"/escalate/{n}/to", level.to) for n, level in enumerate(route.escalate))]
