"""The calls for sources, triggers, trigger events and firings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypedDict, Unpack

from assent.contracts.triggers import (
    Firing,
    FiringPage,
    Schedule,
    Schedules,
    Source,
    Sources,
    Trial,
    Trials,
    Trigger,
    TriggerBody,
    TriggerEvent,
    TriggerEventPage,
    TriggerEventSummary,
    Triggers,
)
from assent.core.triggers_json import spelt
from assent.sdk import protocol
from assent.sdk.caller import Caller
from assent.sdk.protocol import Flow


class TriggerEventFilters(TypedDict, total=False):
    """Filters for a list of trigger events; `source` is a name or an ID."""

    source: str | None
    type: str | None
    state: str | None
    limit: int | None
    cursor: str | None


class FiringFilters(TypedDict, total=False):
    """Filters for a list of firings; `trigger` is a name or an ID."""

    state: str | None
    trigger: str | None
    event_id: str | None
    limit: int | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class TriggerCalls(Caller):
    """The calls for triggers; triggers and sources are identified by ID or name.

    A trigger has the same fields as in assent.yaml: `id`, `on`, `run` and optional fields.
    """

    def sources(self) -> Flow[Sequence[Source]]:
        """List the project's sources."""
        return (yield from self._perform(protocol.reading("/api/sources"), Sources)).items

    def source(self, source: str) -> Flow[Source]:
        return self._perform(protocol.reading(protocol.source_address(source)), Source)

    def add_source(self, name: str, kind: str, settings: Mapping[str, Any], *, enabled: bool = True) -> Flow[Source]:
        """Create a source; specify secrets as env:NAME or file:PATH, which the server resolves."""
        body = {"name": name, "kind": kind, "settings": dict(settings), "enabled": enabled}
        return self._perform(protocol.writing("/api/sources", body), Source)

    def change_source(
        self, source: str, *, settings: Mapping[str, Any] | None = None, enabled: bool | None = None
    ) -> Flow[Source]:
        """Update only the given fields; a setting that is None is removed."""
        given = {"settings": settings, "enabled": enabled}
        body = {name: value for name, value in given.items() if value is not None}
        return self._perform(protocol.writing(protocol.source_address(source), body, method="PATCH"), Source)

    def remove_source(self, source: str) -> Flow[None]:
        """Remove a source; its events are kept."""
        yield from self._perform(protocol.removing(protocol.source_address(source)), NoneType)

    def schedules(self, *, count: int = 5) -> Flow[Sequence[Schedule]]:
        """List the upcoming times of each schedule."""
        request = protocol.reading("/api/schedules", [("count", str(count))])
        return (yield from self._perform(request, Schedules)).items

    def triggers(self) -> Flow[Sequence[Trigger]]:
        """List the project's triggers."""
        return (yield from self._perform(protocol.reading("/api/triggers"), Triggers)).items

    def trigger(self, trigger: str) -> Flow[Trigger]:
        return self._perform(protocol.reading(protocol.trigger_address(trigger)), Trigger)

    def add_trigger(self, body: Mapping[str, Any]) -> Flow[Trigger]:
        return self._perform(protocol.writing("/api/triggers", spelt(body)), Trigger)

    def check_trigger(self, body: Mapping[str, Any]) -> Flow[TriggerBody]:
        """Validate a trigger and return it as the server reads it, without saving it."""
        request = replace(protocol.writing("/api/triggers/check", spelt(body)), repeatable=True)
        return self._perform(request, TriggerBody)

    def change_trigger(self, trigger: str, changes: Mapping[str, Any]) -> Flow[Trigger]:
        """Update only the given fields; a field that is None is removed."""
        request = protocol.writing(protocol.trigger_address(trigger), spelt(changes), method="PATCH")
        return self._perform(request, Trigger)

    def remove_trigger(self, trigger: str) -> Flow[None]:
        """Remove a trigger; runs that it has started continue."""
        yield from self._perform(protocol.removing(protocol.trigger_address(trigger)), NoneType)

    def suspend_trigger(self, trigger: str, *, because: str | None = None) -> Flow[Trigger]:
        """Suspend a trigger; its events are queued until it is resumed."""
        body = {"because": because} if because else {}
        return self._perform(protocol.writing(protocol.trigger_address(trigger, "suspend"), body), Trigger)

    def resume_trigger(self, trigger: str) -> Flow[Trigger]:
        return self._perform(protocol.writing(protocol.trigger_address(trigger, "resume"), {}), Trigger)

    def trigger_events(self, **filters: Unpack[TriggerEventFilters]) -> Flow[TriggerEventPage]:
        """List trigger events, newest first."""
        return self._perform(protocol.reading("/api/trigger-events", protocol.filtered(filters)), TriggerEventPage)

    def trigger_event(self, event_id: str) -> Flow[TriggerEvent]:
        """Return an event, how each trigger evaluated it, and the runs that it started."""
        return self._perform(protocol.reading(protocol.event_address(event_id)), TriggerEvent)

    def replay_event(self, event_id: str, *, trigger: str | None = None) -> Flow[TriggerEventSummary]:
        """Replay an event as a new event, optionally for only one trigger."""
        body = {"trigger": trigger} if trigger else {}
        return self._perform(protocol.writing(protocol.event_address(event_id, "replay"), body), TriggerEventSummary)

    def sketch_trigger(self, event_id: str) -> Flow[TriggerBody]:
        """Suggest a trigger for an event, without saving it."""
        return self._perform(protocol.reading(protocol.event_address(event_id, "sketch")), TriggerBody)

    def try_triggers(
        self,
        event: str | Mapping[str, Any],
        *,
        trigger: str | None = None,
        draft: Mapping[str, Any] | None = None,
    ) -> Flow[Sequence[Trial]]:
        """Return what an event, given by its ID or its content, would start, without starting it.

        The event is tested against every trigger, the named trigger, or a draft.
        """
        body: dict[str, Any] = {"eventId": event} if isinstance(event, str) else {"event": dict(event)}
        against = spelt(draft) if draft is not None else trigger
        body |= {"trigger": against} if against is not None else {}
        request = replace(protocol.writing("/api/trigger-events/test", body), repeatable=True)
        return (yield from self._perform(request, Trials)).items

    def firings(self, **filters: Unpack[FiringFilters]) -> Flow[FiringPage]:
        """List firings, newest first."""
        return self._perform(protocol.reading("/api/firings", protocol.filtered(filters)), FiringPage)

    def retry_firing(self, firing_id: str) -> Flow[Firing]:
        """Retry a dead firing."""
        return self._perform(protocol.writing(protocol.firing_address(firing_id, "retry"), {}), Firing)

    def discard_firing(self, firing_id: str) -> Flow[Firing]:
        """Discard a dead or held firing."""
        return self._perform(protocol.writing(protocol.firing_address(firing_id, "discard"), {}), Firing)
