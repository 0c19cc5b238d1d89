"""Creates, changes and removes channels; each channel type validates the settings before they are stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assent.core.access import Kind, Permission, Principal
from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.errors import Conflict, Forbidden, InvalidRequest, NotFound
from assent.core.patterns.globs import glob_matches
from assent.db.sql import to_json
from assent.db.transaction import Transaction
from assent.delivery.channels.registry import KINDS, ChannelKind
from assent.delivery.channels.tools import Tools
from assent.delivery.routes_file import CHANNEL_NAME, CHANNEL_NAME_RULE
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.delivery.store.routes import Routes, StoredRoute
from assent.kernel.outbound import Transient
from assent.kernel.settings import ENV, FILE, is_reference
from assent.people.store.people import EVERYWHERE, People
from assent.people.usecases.people import is_known, mark_reset

FROM_FILE = "file"
"""The `source` of everything that is defined in assent.yaml."""
MOST = 200
LARGEST_SETTINGS = 20_000
_OUR_OWN = "ASSENT_"
_NEVER = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class Reach:
    """Limits which of the server's secrets admins may reference; the author of assent.yaml can read them anyway."""

    data_dir: Path
    patterns: tuple[str, ...] = ()
    """Patterns for secrets that single-project admins may also use, such as `env:SLACK_*` or `file:/run/secrets/*`."""

    def require(self, reference: str, pointer: str, *, by: Principal) -> None:
        """Refuse a secret that this admin may not use, because it would be sent to the configured address."""
        if any(glob_matches(pattern, reference) for pattern in self.patterns) and not _climbs(reference):
            return
        if not by.everywhere:
            msg = (
                f"{pointer}: you are not allowed to use the secret {reference} here. Ask an admin with access to all "
                "projects to configure it, or ask the operator to allow it in the channel_secrets setting."
            )
            raise Forbidden(msg)
        # Not even an admin of all projects may send the server's own secrets to a channel's address.
        if reference.startswith(ENV) and reference.removeprefix(ENV).upper().startswith(_OUR_OWN):
            raise InvalidRequest.at(pointer, f"{reference} is a server setting and cannot be used as a channel secret")
        if reference.startswith(FILE) and self._ours(Path(reference.removeprefix(FILE))):
            raise InvalidRequest.at(
                pointer,
                f"{reference} cannot be used as a channel secret because it is inside the server's data directory",
            )

    def _ours(self, path: Path) -> bool:
        # Resolve the path, so that `..` and symbolic links cannot hide the location.
        found = path.resolve()
        return found.is_relative_to(self.data_dir.resolve()) or any(map(found.is_relative_to, _NEVER))


def _climbs(reference: str) -> bool:
    return ".." in Path(reference.removeprefix(FILE)).parts


class ChannelService:
    def __init__(self, tools: Tools, reach: Reach) -> None:
        self._tools = tools
        self._reach = reach

    def listed(self, tx: Transaction, *, by: Principal) -> list[StoredChannel]:
        by.require(Permission.READ_PEOPLE)
        return tx[Channels].in_project(by.project)

    def known(self, tx: Transaction, channel_id: str, *, by: Principal) -> StoredChannel:
        by.require(Permission.READ_PEOPLE)
        found = tx[Channels].find(channel_id)
        if found is None or found.project != by.project or found.removed_at is not None:
            msg = f"Channel {channel_id} not found in this project."
            raise NotFound(msg)
        return found

    def create(
        self, tx: Transaction, name: str, kind: str, settings: Mapping[str, Any], *, by: Principal, enabled: bool = True
    ) -> StoredChannel:
        by.require(Permission.MANAGE)
        tx.acting(by)
        checked_name(name)
        self._check_new(tx, kind, settings, by=by)
        # Without the lock, concurrent requests could exceed the limit.
        tx[Routes].wait_for_others(by.project)
        if len(tx[Channels].in_project(by.project)) >= MOST:
            raise InvalidRequest.at("/", f"a project can have at most {MOST} channels")
        now = tx.now()
        channel = StoredChannel(
            id=tx.new_id("ch"),
            project=by.project,
            name=name,
            type=kind,
            settings=dict(settings),
            enabled=enabled,
            created_by=str(by.actor),
            created_at=now,
            updated_at=now,
        )
        tx[Channels].add(channel)
        _mark_answerers(tx, channel, {}, by=by)
        return channel

    def change(self, tx: Transaction, channel_id: str, changes: Mapping[str, Any], *, by: Principal) -> StoredChannel:
        """Change the given fields (name, settings or enabled). In settings, null removes a value."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Routes].wait_for_others(by.project)
        current = self.known(tx, channel_id, by=by)
        if current.source == FROM_FILE and not _only_revives(current, changes):
            raise in_file("channel", current.name)
        name = checked_name(changes.get("name", current.name))
        if name != current.name:
            _refuse_used(tx, current, "renamed")
        settings = merged(current.settings, changes.get("settings") or {})
        if settings != current.settings:
            self._check_new(tx, current.type, settings, by=by)
        enabled: bool = changes.get("enabled", current.enabled)
        because = None if "enabled" in changes else current.disabled_because
        wanted = replace(current, name=name, settings=settings, enabled=enabled, disabled_because=because)
        if wanted == current:
            return current
        saved = tx[Channels].save(wanted, now=tx.now())
        _mark_answerers(tx, saved, current.settings, by=by)
        return saved

    def remove(self, tx: Transaction, channel_id: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        # The lock prevents a route from starting to use the channel while it is being removed.
        tx[Routes].wait_for_others(by.project)
        current = self.known(tx, channel_id, by=by)
        if current.source == FROM_FILE:
            raise in_file("channel", current.name)
        _refuse_used(tx, current, "removed")
        tx[Channels].remove(channel_id, now=tx.now())

    def check(self, kind: str, settings: Mapping[str, Any]) -> None:
        """Refuse invalid settings, and secrets that are not references."""
        found = kind_of(kind)
        if len(to_json(settings)) > LARGEST_SETTINGS:
            raise InvalidRequest.at("/settings", f"must be at most {LARGEST_SETTINGS:,} bytes")
        for pointer, value in _secrets(found, settings):
            if not is_reference(value):
                raise InvalidRequest.at(pointer, "must be a reference, env:NAME or file:PATH, not the secret itself")
        try:
            found.make(settings, self._tools)
        except Transient as error:
            raise InvalidRequest.at("/settings", str(error)) from error

    def problem(self, stored: StoredChannel) -> str | None:
        """Return the error in the channel's current settings, or None if they are valid."""
        try:
            self.check(stored.type, stored.settings)
        except InvalidRequest as error:
            return error.message
        return None

    def _check_new(self, tx: Transaction, kind: str, settings: Mapping[str, Any], *, by: Principal) -> None:
        """Check all settings, including unchanged ones, because a new address would receive the old secrets."""
        for pointer, text in texts(settings, "/settings"):
            if is_reference(text):
                self._reach.require(text, pointer, by=by)
        self.check(kind, settings)
        answers_as = settings.get("answersAs")
        if answers_as is not None:
            _require_person(tx, str(answers_as), by)


def _mark_answerers(tx: Transaction, channel: StoredChannel, before: Mapping[str, Any], *, by: Principal) -> None:
    """Mark everyone who answers on the channel: an admin who changes how answers are verified could forge theirs."""
    kind = kind_of(channel.type)
    if all(channel.settings.get(name) in {None, before.get(name)} for name in kind.proofs):
        return
    people = {tx[People].get_by_name(each.person) for each in tx[Links].of_channel(channel.id)}
    if kind.by_address:
        people |= {each for each in tx[People].every() if each.email and is_known(tx, each, channel.project)}
    for person in sorted(people, key=lambda each: each.name):
        mark_reset(tx, person, way="answers", by=by)


def _require_person(tx: Transaction, name: str, by: Principal) -> None:
    """Allow only the person (or the operator) to let a program answer on the person's behalf, as with tokens."""
    person = tx[People].find_by_name(name)
    grants = tx[People].grants(person.id) if person is not None else {}
    if person is None or {by.project, EVERYWHERE}.isdisjoint(grants):
        raise InvalidRequest.at("/settings/answersAs", f"person {name} not found in this project")
    if by.kind is Kind.PERSON and by.id != person.id:
        msg = (
            f"Only {name} can allow a program to answer on their behalf. The operator can also set this in assent.yaml."
        )
        raise Forbidden(msg)


def kind_of(name: str) -> ChannelKind:
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidRequest.at("/type", f"must be one of {', '.join(sorted(KINDS))}")
    return kind


def checked_name(name: str) -> str:
    if CHANNEL_NAME.fullmatch(name) is None:
        raise InvalidRequest.at("/name", CHANNEL_NAME_RULE)
    return name


def users_of(routes: Sequence[StoredRoute], name: str) -> list[str]:
    """Return the IDs of the routes that use a channel."""
    return [each.id for each in routes if name in channels_of(each)]


def channels_of(stored: StoredRoute) -> set[str]:
    route = stored.route
    return {*route.channels, *route.fallback, *(name for level in route.escalate for name in level.channels)}


def in_file(what: str, name: str) -> Conflict:
    return Conflict(f"The {what} {name} is defined in assent.yaml. Change it there.")


def _refuse_used(tx: Transaction, channel: StoredChannel, what: str) -> None:
    used = users_of(tx[Routes].in_project(channel.project), channel.name)
    if used:
        msg = f"The channel {channel.name} cannot be {what} because routes still use it: {', '.join(used[:3])}."
        raise Conflict(msg, routes=used)


def _only_revives(current: StoredChannel, changes: Mapping[str, Any]) -> bool:
    """Return whether the change only re-enables a channel that was disabled because its address no longer existed.

    This is allowed even for a channel that is defined in assent.yaml.
    """
    return current.disabled_because is not None and dict(changes) == {"enabled": True}


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _secrets(kind: ChannelKind, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(kind.secrets):
        yield from texts(settings.get(name), f"/settings/{name}")


def texts(value: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every string in a value with its JSON pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif is_object(value):
        for name, each in value.items():
            yield from texts(each, f"{pointer}/{pointer_step(name)}")
    elif is_array(value):
        for n, each in enumerate(value):
            yield from texts(each, f"{pointer}/{n}")
