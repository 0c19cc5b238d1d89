"""Creates, changes and removes sources. The source kind validates the settings before they are stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assent.core.access import Permission, Principal
from assent.core.durations import whole_seconds
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from assent.db.sql import to_json
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import FROM_FILE, Reach, in_file, merged, texts
from assent.kernel.settings import is_reference
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.triggers import templates
from assent.triggers.event import EVENT_ATTRIBUTES, Trust
from assent.triggers.file_format import NAME, NAME_RULE
from assent.triggers.sources.registry import KINDS, SourceKind, Way
from assent.triggers.sources.tools import SourceTools
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import Triggers
from assent.triggers.usecases.ingest import silent_at
from assent.triggers.usecases.scheduler import first_tick
from assent.triggers.usecases.triggers import naming, refuse_id

MOST = 200
LARGEST_SETTINGS = 20_000
MOST_BYTES = 25 * 1024 * 1024
MOST_PER_MINUTE = 10_000_000
LONGEST_DEDUP = 500
LONGEST_SILENCE = 366 * 86_400
_CHANGEABLE = frozenset({"settings", "enabled"})


class SourceService:
    def __init__(self, tools: SourceTools, reach: Reach) -> None:
        self._tools = tools
        self._reach = reach

    def listed(self, tx: Transaction, *, by: Principal) -> list[StoredSource]:
        by.require(Permission.READ_PEOPLE)
        return tx[Sources].in_project(by.project)

    def known(self, tx: Transaction, source: str, *, by: Principal) -> StoredSource:
        """Return an existing source by its name or ID."""
        by.require(Permission.READ_PEOPLE)
        found = tx[Sources].find(source)
        # An ID takes precedence over an identical name.
        if found is None or found.project != by.project or found.removed_at is not None:
            found = tx[Sources].by_name(by.project, source)
        if found is None:
            msg = f"Source {source} not found in this project."
            raise NotFound(msg)
        return found

    def create(
        self, tx: Transaction, name: str, kind: str, settings: Mapping[str, Any], *, by: Principal, enabled: bool = True
    ) -> StoredSource:
        by.require(Permission.MANAGE)
        tx.acting(by)
        checked_name(name)
        self._check_new(kind, settings, by=by)
        tx[Triggers].wait_for_others(by.project)
        tx[Projects].get_open(by.project)
        if len(tx[Sources].in_project(by.project)) >= MOST:
            raise InvalidRequest.at("/", f"a project can have at most {MOST} sources")
        new = StoredSource(
            id=tx.new_id("src"), project=by.project, name=name, kind=kind, settings=dict(settings), enabled=enabled
        )
        return add(tx, new, by=str(by.actor))

    def change(self, tx: Transaction, source_id: str, changes: Mapping[str, Any], *, by: Principal) -> StoredSource:
        """Change the given fields (settings or enabled). A null value removes a setting."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        for name in changes:
            if name not in _CHANGEABLE:
                raise InvalidRequest.at(f"/{name}", "cannot be changed; create another source and remove this one")
        tx[Triggers].wait_for_others(by.project)
        current = self.known(tx, source_id, by=by)
        if current.origin == FROM_FILE:
            raise in_file("source", current.name)
        settings = merged(current.settings, changes.get("settings") or {})
        enabled: bool = changes.get("enabled", current.enabled)
        # Disabling a source must be possible even if its settings have become invalid.
        if settings != current.settings or (enabled and not current.enabled):
            self._check_new(current.kind, settings, by=by)
        wanted = replace(current, settings=settings, enabled=enabled)
        return current if wanted == current else save(tx, wanted, by=str(by.actor))

    def remove(self, tx: Transaction, source_id: str, *, by: Principal) -> list[str]:
        """Remove a source, and return the names of the triggers that reference it, which no longer match any events."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Triggers].wait_for_others(by.project)
        current = self.known(tx, source_id, by=by)
        if current.origin == FROM_FILE:
            raise in_file("source", current.name)
        tx[Sources].remove(current.id, now=tx.now(), by=str(by.actor))
        return [each.name for each in naming(tx[Triggers].in_project(by.project), current.name)]

    def check(self, kind: str, settings: Mapping[str, Any]) -> None:
        """Reject settings that the source cannot use, and secrets that are not references."""
        found = kind_of(kind)
        if len(to_json(settings)) > LARGEST_SETTINGS:
            raise InvalidRequest.at("/settings", f"must be at most {LARGEST_SETTINGS:,} bytes")
        for name in sorted(found.secrets):
            for pointer, value in texts(settings.get(name), f"/settings/{name}"):
                if not is_reference(value):
                    raise InvalidRequest.at(
                        pointer, "must be a reference, env:NAME or file:PATH, not the secret itself"
                    )
        _check_common(settings)
        found.make(settings, self._tools)

    def problem(self, stored: StoredSource) -> str | None:
        """Explain why the source does not work with its current settings, or return None."""
        try:
            self.check(stored.kind, stored.settings)
        except InvalidRequest as error:
            return error.message
        return stored.problem

    def address(self, stored: StoredSource, base_url: str) -> str:
        """Return the URL for webhooks, or an empty string if the source does not receive webhooks."""
        kind = KINDS.get(stored.kind)
        if kind is None or kind.way is not Way.HOOK:
            return ""
        return f"{base_url}/hooks/{stored.name if stored.project == DEFAULT_PROJECT else stored.id}"

    def _check_new(self, kind: str, settings: Mapping[str, Any], *, by: Principal) -> None:
        """Validate all settings, including unchanged ones."""
        if kind_of(kind).way is Way.WATCH and not by.everywhere:
            msg = "Only an admin with access to all projects can watch files on this machine."
            raise Forbidden(msg)
        for pointer, text in texts(settings, "/settings"):
            if is_reference(text):
                self._reach.require(text, pointer, by=by)
        self.check(kind, settings)


def add(tx: Transaction, new: StoredSource, *, by: str) -> StoredSource:
    """Store a new source, and start its schedule and its expected interval now."""
    now = tx.now()
    made = replace(_timed(new, now), created_by=by, created_at=now, updated_by=by, updated_at=now)
    tx[Sources].add(made)
    return made


def save(tx: Transaction, wanted: StoredSource, *, by: str) -> StoredSource:
    now = tx.now()
    return tx[Sources].save(replace(_timed(wanted, now), updated_by=by), now=now)


def _timed(source: StoredSource, now: int) -> StoredSource:
    """Set the first tick of a schedule and the time at which silence is reported. Ticks missed while disabled are
    skipped.
    """
    if not source.enabled:
        return replace(source, next_at=None, silent_at=None)
    ticks = kind_of(source.kind).way is Way.CLOCK
    first = first_tick(source.settings, now, source.id) if ticks else None
    return replace(source, next_at=first, silent_at=silent_at(source.settings, now))


def kind_of(name: str) -> SourceKind:
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidRequest.at("/kind", f"must be one of {', '.join(sorted(KINDS))}")
    return kind


def checked_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise InvalidRequest.at("/name", NAME_RULE)
    refuse_id("/name", name)
    return name


def _check_common(settings: Mapping[str, Any]) -> None:
    """Reject invalid values of the settings that all kinds of source share."""
    if "trust" in settings and settings["trust"] not in list(Trust):
        raise InvalidRequest.at("/settings/trust", f"must be one of {', '.join(Trust)}")
    if "expect_every" in settings:
        _check_length(settings["expect_every"])
    for name, most in (("max_bytes", MOST_BYTES), ("per_minute", MOST_PER_MINUTE)):
        value = settings.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise InvalidRequest.at(f"/settings/{name}", f"must be a whole number from 1 to {most:,}")
    dedup = settings.get("dedup", "{{ event.type }}")
    if not isinstance(dedup, str) or not dedup.strip() or len(dedup) > LONGEST_DEDUP:
        raise InvalidRequest.at("/settings/dedup", f"must be a template of 1 to {LONGEST_DEDUP} characters")
    templates.check(dedup, EVENT_ATTRIBUTES, "/settings/dedup")


def _check_length(value: object) -> None:
    try:
        found = whole_seconds(value) if isinstance(value, str) else 0
    except ValueError as error:
        raise InvalidRequest.at("/settings/expect_every", str(error)) from error
    if not 0 < found <= LONGEST_SILENCE:
        raise InvalidRequest.at("/settings/expect_every", "must be a duration from 1s to 366d")
