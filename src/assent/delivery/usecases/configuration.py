"""The channels and routes in assent.yaml: validated before a node starts, and applied when it starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from assent.core.access import Actor, Kind
from assent.core.canonical import is_object, pointer_step
from assent.core.errors import AssentError, InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.routes import Route
from assent.delivery.routes_file import checked, written
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.routes import Routes, StoredRoute
from assent.delivery.usecases.channels import FROM_FILE, ChannelService, channels_of, checked_name
from assent.delivery.usecases.routes import refuse_unknown_channels
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.platform.config_file import Problems, in_place, shown

BY = str(Actor(Kind.SYSTEM, "assent.yaml"))
_CHANNEL_KEYS = frozenset({"name", "type", "settings", "project", "enabled"})
_log = structlog.get_logger()
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class FileChannel:
    place: str
    project: str
    name: str
    type: str
    settings: Mapping[str, Any]
    enabled: bool


@dataclass(frozen=True, slots=True)
class FileRoute:
    place: str
    project: str
    route: Route
    enabled: bool

    @property
    def content(self) -> tuple[Mapping[str, Any], bool]:
        return written(self.route), self.enabled


class Configuration:
    """Applies the channels and routes in assent.yaml; leaves those created through the API unchanged."""

    def __init__(self, service: ChannelService, problems: Problems) -> None:
        self._service = service
        self._problems = problems
        self.channels = [
            made
            for n, each in enumerate(problems.listed("channels"))
            for made in problems.made(f"/channels/{n}", self._channel, each)
        ]
        self.routes = [
            made
            for n, each in enumerate(problems.listed("routes"))
            for made in problems.made(f"/routes/{n}", _route, each)
        ]
        self._refuse_twice()

    def apply(self, tx: Transaction) -> None:
        """Create, update and delete file-managed channels and routes to match the file; safe to run on every node."""
        before = {each.project for each in tx[Channels].every() if each.source == FROM_FILE}
        before |= tx[Routes].projects(FROM_FILE)
        wanted = {each.project: each.place for each in self.channels}
        wanted |= {each.project: each.place for each in self.routes}
        for project in sorted(before | set(wanted)):
            if project in wanted:
                self._in_place(wanted[project], tx[Projects].get_open, project)
            tx[Routes].wait_for_others(project)
            self._apply_channels(tx, project)
            self._apply_routes(tx, project)

    def _apply_channels(self, tx: Transaction, project: str) -> None:
        standing = {each.name: each for each in tx[Channels].in_project(project)}
        wanted = {each.name: each for each in self.channels if each.project == project}
        for name, current in standing.items():
            # A channel's type cannot be changed, so a new channel replaces it.
            if current.source == FROM_FILE and (name not in wanted or wanted[name].type != current.type):
                tx[Channels].remove(current.id, now=tx.now())
                _log.info("channel_removed", channel=name, project=project, source=FROM_FILE)
        for name, each in wanted.items():
            found = standing.get(name)
            if found is not None and found.source != FROM_FILE:
                said = f"a channel named {name} already exists outside this file; rename one of them"
                raise self._problems.misplaced(f"{each.place}/name", said)
            if found is None or found.type != each.type:
                _add(tx, each)
            elif _differs(found, each):
                wished = replace(found, settings=each.settings, enabled=each.enabled, disabled_because=None)
                tx[Channels].save(wished, now=tx.now())

    def _apply_routes(self, tx: Transaction, project: str) -> None:
        known = {each.name for each in tx[Channels].in_project(project)}
        standing = tx[Routes].in_project(project)
        left = [each for each in standing if each.source == FROM_FILE]
        now = tx.now()
        ordered: list[str] = []
        for each in self.routes:
            if each.project != project:
                continue
            self._in_place(each.place, refuse_unknown_channels, each.route, known)
            # The file has no route IDs, so an unchanged route is matched by its content to keep its stored ID.
            same = next((one for one in left if (written(one.route), one.enabled) == each.content), None)
            if same is not None:
                left.remove(same)
            ordered.append(same.id if same is not None else _add_route(tx, each, now))
        for gone in left:
            tx[Routes].remove(gone.id, project=project)
        tx[Routes].reorder(project, ordered)
        # Only a warning: a route that was created through the API must not prevent the node from starting.
        for other in standing:
            if other.source != FROM_FILE and (missing := sorted(channels_of(other) - known)):
                _log.warning("route_channels_missing", route=other.id, project=project, channels=missing)

    def _in_place(self, place: str, build: Callable[..., Given], *given: object) -> Given:
        try:
            return build(*given)
        except AssentError as error:
            raise self._problems.misplaced(*in_place(place, error)) from error

    def _channel(self, place: str, given: Mapping[str, Any]) -> FileChannel:
        for name in given:
            if name not in _CHANNEL_KEYS:
                what = f"is not a known field. Use one of {', '.join(sorted(_CHANNEL_KEYS))}"
                raise InvalidRequest.at(f"/{pointer_step(name)}", what)
        settings: object = given.get("settings", {})
        if not is_object(settings):
            raise InvalidRequest.at("/settings", "must be a mapping")
        name, kind = checked_name(str(given.get("name", ""))), str(given.get("type", ""))
        self._service.check(kind, settings)
        return FileChannel(place, project_of(given), name, kind, dict(settings), enabled_of(given))

    def _refuse_twice(self) -> None:
        seen: dict[tuple[str, str], str] = {}
        for each in self.channels:
            first = seen.setdefault((each.project, each.name), each.place)
            if first != each.place:
                self._problems.add(f"{each.place}/name", f"{each.name} is already used by {shown(first)}")


def _route(place: str, given: Mapping[str, Any]) -> FileRoute:
    """Parse a route without checking whether its channels exist; that is checked when the file is applied."""
    body = {str(name): value for name, value in given.items() if name not in {"project", "enabled"}}
    return FileRoute(place, project_of(given), checked(body, route_id=""), enabled_of(given))


def project_of(given: Mapping[str, Any]) -> str:
    project = given.get("project", DEFAULT_PROJECT)
    if not isinstance(project, str) or not project:
        raise InvalidRequest.at("/project", "must be a project name")
    return project


def enabled_of(given: Mapping[str, Any]) -> bool:
    enabled = given.get("enabled", True)
    if not isinstance(enabled, bool):
        raise InvalidRequest.at("/enabled", "must be true or false")
    return enabled


def _differs(found: StoredChannel, wanted: FileChannel) -> bool:
    """Return whether to update a channel.

    A channel that was disabled because its address no longer exists stays disabled until its settings change.
    """
    if dict(found.settings) != dict(wanted.settings):
        return True
    return found.enabled != wanted.enabled and found.disabled_because is None


def _add(tx: Transaction, wanted: FileChannel) -> None:
    now = tx.now()
    tx[Channels].add(
        StoredChannel(
            id=tx.new_id("ch"),
            project=wanted.project,
            name=wanted.name,
            type=wanted.type,
            settings=wanted.settings,
            enabled=wanted.enabled,
            source=FROM_FILE,
            created_by=BY,
            created_at=now,
            updated_at=now,
        )
    )


def _add_route(tx: Transaction, wanted: FileRoute, now: int) -> str:
    route_id = tx.new_id("rt")
    tx[Routes].add(
        StoredRoute(
            id=route_id,
            project=wanted.project,
            position=0,
            route=replace(wanted.route, id=route_id),
            enabled=wanted.enabled,
            source=FROM_FILE,
            created_by=BY,
            created_at=now,
            updated_at=now,
        )
    )
    return route_id
