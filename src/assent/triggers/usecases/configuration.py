"""The sources and triggers of assent.yaml, validated before a node starts and applied when it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from assent.core.canonical import Json, is_object, pointer_key, pointer_step
from assent.core.errors import AssentError, InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import FROM_FILE
from assent.delivery.usecases.configuration import BY, enabled_of, project_of
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.platform.config_file import Problem, Problems, in_place, shown
from assent.runs.ports import ProcessRegistry
from assent.triggers.file_format import checked, written
from assent.triggers.model import Trigger, TriggerState
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.sources import MOST as MOST_SOURCES
from assent.triggers.usecases.sources import SourceService, add, checked_name, save
from assent.triggers.usecases.triggers import MOST as MOST_TRIGGERS
from assent.triggers.usecases.triggers import refuse_id, refuse_unfit

SAYS_SO = "Suspended in assent.yaml."
_OWN = frozenset({"kind", "project", "enabled"})
_STANDS_FOR: Mapping[str, Json] = {"id": "unnamed", "on": "*", "run": "unnamed"}
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FileSource:
    place: str
    project: str
    name: str
    kind: str
    settings: Mapping[str, Any]
    enabled: bool


@dataclass(frozen=True, slots=True)
class FileTrigger:
    place: str
    project: str
    trigger: Trigger

    @property
    def name(self) -> str:
        return self.trigger.name


class TriggerConfiguration:
    """The sources and triggers in assent.yaml. Those created through the API are not changed."""

    def __init__(self, service: SourceService, problems: Problems) -> None:
        self._service = service
        self._problems = problems
        self.sources = [
            made
            for name, each in problems.named("sources").items()
            for made in problems.made(f"/sources/{pointer_step(name)}", self._source, each)
        ]
        self._written = problems.listed("triggers")
        self.triggers = [
            made
            for n, each in enumerate(self._written)
            for made in problems.made(f"/triggers/{n}", self._trigger, each)
        ]
        self._refuse_twice()
        self._refuse_many()

    def unfit(self, processes: ProcessRegistry) -> list[Problem]:
        """Return the triggers' problems with their processes. This loads the processes, which may be slow."""
        found = Problems(self._problems.given)
        for each in self.triggers:
            try:
                refuse_unfit(processes, each.trigger)
            except InvalidRequest as error:
                found.add(*in_place(each.place, error))
        return found.found

    def apply(self, tx: Transaction, *, triggers: bool = True) -> None:
        """Create, update and delete file-managed sources and triggers to match the file, with the same result on every
        node.
        """
        before = {each.project for each in tx[Sources].every() if each.origin == FROM_FILE}
        before |= tx[Triggers].projects(FROM_FILE)
        wanted = {each.project: each.place for each in self.sources}
        wanted |= {each.project: each.place for each in self.triggers}
        # Use a fixed order, so that concurrent nodes lock projects in the same order and never deadlock.
        for project in sorted(before | set(wanted)):
            if project in wanted:
                self._require_project(tx, project, wanted[project])
            tx[Triggers].wait_for_others(project)
            self._apply_sources(tx, project)
            if triggers:
                self._apply_triggers(tx, project)

    def _apply_sources(self, tx: Transaction, project: str) -> None:
        standing = {each.name: each for each in tx[Sources].in_project(project)}
        wanted = {each.name: each for each in self.sources if each.project == project}
        for name, current in standing.items():
            if current.origin == FROM_FILE and (name not in wanted or wanted[name].kind != current.kind):
                tx[Sources].remove(current.id, now=tx.now(), by=BY)
                _log.info("source_removed", source=name, project=project, origin=FROM_FILE)
        for name, each in wanted.items():
            found = standing.get(name)
            if found is not None and found.origin != FROM_FILE:
                raise self._problems.misplaced(each.place, _elsewhere("source", name))
            if found is None or found.kind != each.kind:
                add(tx, _new_source(tx, each), by=BY)
            elif (dict(found.settings), found.enabled) != (dict(each.settings), each.enabled):
                save(tx, replace(found, settings=each.settings, enabled=each.enabled), by=BY)

    def _apply_triggers(self, tx: Transaction, project: str) -> None:
        standing = {each.name: each for each in tx[Triggers].in_project(project)}
        wanted = {each.name: each for each in self.triggers if each.project == project}
        for name, current in standing.items():
            if current.origin == FROM_FILE and name not in wanted:
                tx[Triggers].remove(current.id, now=tx.now(), by=BY)
                _log.info("trigger_removed", trigger=name, project=project, origin=FROM_FILE)
        for name, each in wanted.items():
            found = standing.get(name)
            if found is not None and found.origin != FROM_FILE:
                raise self._problems.misplaced(f"{each.place}/id", _elsewhere("trigger", name))
            if found is None:
                _add_trigger(tx, each)
            elif written(replace(found.trigger, state=found.said)) != written(each.trigger):
                tx[Triggers].save(_changed(found, each.trigger), now=tx.now())
                _log.info("trigger_changed", trigger=name, project=project, origin=FROM_FILE)

    def _require_project(self, tx: Transaction, project: str, place: str) -> None:
        try:
            tx[Projects].get_open(project)
        except AssentError as error:
            raise self._problems.misplaced(*in_place(place, error)) from error

    def _source(self, place: str, given: Mapping[str, Json]) -> FileSource:
        name = pointer_key(place.rpartition("/")[2])
        checked_name(name)
        kind = given.get("kind", "")
        settings = {key: value for key, value in given.items() if key not in _OWN}
        try:
            self._service.check(kind if isinstance(kind, str) else "", settings)
        except InvalidRequest as error:
            pointer, text = in_place("", error)
            raise InvalidRequest.at(pointer.removeprefix("/settings") or "/", text) from error
        return FileSource(place, project_of(given), name, kind, settings, enabled_of(given))

    def _trigger(self, place: str, given: Mapping[str, Json]) -> FileTrigger:
        body = {name: value for name, value in given.items() if name != "project"}
        wrong = _wrong(body)
        for each in wrong[1:]:
            self._problems.add(*in_place(place, each))
        if wrong:
            raise wrong[0]
        trigger = checked(body)
        refuse_id("/id", trigger.name)
        return FileTrigger(place, project_of(given), trigger)

    def _refuse_twice(self) -> None:
        """Detect duplicate IDs in the triggers as written, because a trigger that is invalid for another reason still
        has an ID.
        """
        seen: dict[tuple[str, str], str] = {}
        for n, each in enumerate(self._written):
            if not is_object(each) or not isinstance(each.get("id"), str):
                continue
            place = f"/triggers/{n}/id"
            first = seen.setdefault((str(each.get("project", DEFAULT_PROJECT)), each["id"]), place)
            if first != place:
                at = self._problems.given.place(first)
                said = f"{each['id']} is already used by {shown(first.removesuffix('/id'))}"
                self._problems.add(place, f"{said} on line {at.line}" if at else said)

    def _refuse_many(self) -> None:
        for part, found, most in (
            ("sources", self.sources, MOST_SOURCES),
            ("triggers", self.triggers, MOST_TRIGGERS),
        ):
            if any(count > most for count in _counts([each.project for each in found])):
                self._problems.add(f"/{part}", f"a project can have at most {most:,} {part}")


def _wrong(body: Mapping[str, Json]) -> list[InvalidRequest]:
    """Return all of a trigger's problems, one for each key."""
    found: list[InvalidRequest] = []
    left = dict(body)
    while True:
        try:
            checked(left)
        except InvalidRequest as error:
            found.append(error)
            name = in_place("", error)[0].partition("/")[2].partition("/")[0]
            rest = {key: value for key, value in left.items() if key != name}
            rest |= {name: _STANDS_FOR[name]} if name in _STANDS_FOR else {}
            if rest == left:
                return found
            left = rest
        else:
            return found


def _counts(projects: list[str]) -> list[int]:
    return [projects.count(each) for each in set(projects)]


def _elsewhere(what: str, name: str) -> str:
    return f"a {what} named {name} already exists outside this file; rename one of them"


def _because(trigger: Trigger) -> str | None:
    return SAYS_SO if trigger.state is TriggerState.SUSPENDED else None


def _changed(found: StoredTrigger, wanted: Trigger) -> StoredTrigger:
    """Return the trigger from the file. A suspension by a person or the breaker stays unless the file overrides it."""
    state, because = wanted.state, _because(wanted)
    stands = found.said is wanted.state is TriggerState.ENABLED
    if stands and found.state is TriggerState.SUSPENDED:
        state, because = found.state, found.because
    return replace(found, trigger=replace(wanted, state=state), said=wanted.state, because=because, updated_by=BY)


def _new_source(tx: Transaction, wanted: FileSource) -> StoredSource:
    return StoredSource(
        id=tx.new_id("src"),
        project=wanted.project,
        name=wanted.name,
        kind=wanted.kind,
        settings=wanted.settings,
        enabled=wanted.enabled,
        origin=FROM_FILE,
    )


def _add_trigger(tx: Transaction, wanted: FileTrigger) -> None:
    now = tx.now()
    tx[Triggers].add(
        StoredTrigger(
            id=tx.new_id("trg"),
            project=wanted.project,
            trigger=wanted.trigger,
            said=wanted.trigger.state,
            because=_because(wanted.trigger),
            origin=FROM_FILE,
            created_by=BY,
            created_at=now,
            updated_by=BY,
            updated_at=now,
        )
    )
