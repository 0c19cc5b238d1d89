"""The calls of sources, triggers, events from outside and firings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypedDict, Unpack

from assent.domain.triggers_json import spelt
from assent.sdk import protocol
from assent.sdk.caller import Caller
from assent.sdk.protocol import Flow
from assent.sdk.trigger_values import (
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


class TriggerEventFilters(TypedDict, total=False):
    """What a list of events is narrowed to; `source` is a name or an id."""

    source: str | None
    type: str | None
    state: str | None
    limit: int | None
    cursor: str | None


class FiringFilters(TypedDict, total=False):
    """What a list of firings is narrowed to; `trigger` is a name or an id."""

    state: str | None
    trigger: str | None
    event_id: str | None
    limit: int | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class TriggerCalls(Caller):
    """What can be asked about triggers; triggers and sources are named by id or by name.

    A trigger is written as in assent.yaml: `id`, `on`, `run`, and whatever else it says.
    """

    def sources(self) -> Flow[Sequence[Source]]:
        """Return the sources of the project."""
        return (yield from self._perform(protocol.reading("/api/sources"), Sources)).items

    def source(self, source: str) -> Flow[Source]:
        return self._perform(protocol.reading(protocol.source_address(source)), Source)

    def add_source(self, name: str, kind: str, settings: Mapping[str, Any], *, enabled: bool = True) -> Flow[Source]:
        """Set up a source; secrets are given as env:NAME or file:PATH, which the server reads."""
        body = {"name": name, "kind": kind, "settings": dict(settings), "enabled": enabled}
        return self._perform(protocol.writing("/api/sources", body), Source)

    def change_source(
        self, source: str, *, settings: Mapping[str, Any] | None = None, enabled: bool | None = None
    ) -> Flow[Source]:
        """Change what is given; a setting that is None is taken away."""
        given = {"settings": settings, "enabled": enabled}
        body = {name: value for name, value in given.items() if value is not None}
        return self._perform(protocol.writing(protocol.source_address(source), body, method="PATCH"), Source)

    def remove_source(self, source: str) -> Flow[None]:
        """Remove a source; its events stay."""
        yield from self._perform(protocol.removing(protocol.source_address(source)), NoneType)

    def schedules(self, *, count: int = 5) -> Flow[Sequence[Schedule]]:
        """Return when each schedule ticks next."""
        request = protocol.reading("/api/schedules", [("count", str(count))])
        return (yield from self._perform(request, Schedules)).items

    def triggers(self) -> Flow[Sequence[Trigger]]:
        """Return the triggers of the project."""
        return (yield from self._perform(protocol.reading("/api/triggers"), Triggers)).items

    def trigger(self, trigger: str) -> Flow[Trigger]:
        return self._perform(protocol.reading(protocol.trigger_address(trigger)), Trigger)

    def add_trigger(self, body: Mapping[str, Any]) -> Flow[Trigger]:
        return self._perform(protocol.writing("/api/triggers", spelt(body)), Trigger)

    def check_trigger(self, body: Mapping[str, Any]) -> Flow[TriggerBody]:
        """Return a trigger as the server reads it, or raise what is wrong with it; nothing is written."""
        request = replace(protocol.writing("/api/triggers/check", spelt(body)), repeatable=True)
        return self._perform(request, TriggerBody)

    def change_trigger(self, trigger: str, changes: Mapping[str, Any]) -> Flow[Trigger]:
        """Change what is given and leave the rest; None takes something away."""
        request = protocol.writing(protocol.trigger_address(trigger), spelt(changes), method="PATCH")
        return self._perform(request, Trigger)

    def remove_trigger(self, trigger: str) -> Flow[None]:
        """Remove a trigger; what it started goes on."""
        yield from self._perform(protocol.removing(protocol.trigger_address(trigger)), NoneType)

    def suspend_trigger(self, trigger: str, *, because: str | None = None) -> Flow[Trigger]:
        """Let its events queue; nothing starts until it is resumed."""
        body = {"because": because} if because else {}
        return self._perform(protocol.writing(protocol.trigger_address(trigger, "suspend"), body), Trigger)

    def resume_trigger(self, trigger: str) -> Flow[Trigger]:
        return self._perform(protocol.writing(protocol.trigger_address(trigger, "resume"), {}), Trigger)

    def trigger_events(self, **filters: Unpack[TriggerEventFilters]) -> Flow[TriggerEventPage]:
        """Return what came from outside, newest first."""
        return self._perform(protocol.reading("/api/trigger-events", protocol.filtered(filters)), TriggerEventPage)

    def trigger_event(self, event_id: str) -> Flow[TriggerEvent]:
        """Return one event: what each trigger made of it, and what it started."""
        return self._perform(protocol.reading(protocol.event_address(event_id)), TriggerEvent)

    def replay_event(self, event_id: str, *, trigger: str | None = None) -> Flow[TriggerEventSummary]:
        """Have an event looked at again, as a new one beside it; by one trigger only, if one is named."""
        body = {"trigger": trigger} if trigger else {}
        return self._perform(protocol.writing(protocol.event_address(event_id, "replay"), body), TriggerEventSummary)

    def sketch_trigger(self, event_id: str) -> Flow[TriggerBody]:
        """Return a trigger made from an event, to go on from; nothing is written."""
        return self._perform(protocol.reading(protocol.event_address(event_id, "sketch")), TriggerBody)

    def try_triggers(
        self,
        event: str | Mapping[str, Any],
        *,
        trigger: str | None = None,
        draft: Mapping[str, Any] | None = None,
    ) -> Flow[Sequence[Trial]]:
        """Return what would become of an event, by its id or as it might come; nothing happens.

        It is held against every trigger, the one that is named, or a draft.
        """
        body: dict[str, Any] = {"eventId": event} if isinstance(event, str) else {"event": dict(event)}
        against = spelt(draft) if draft is not None else trigger
        body |= {"trigger": against} if against is not None else {}
        request = replace(protocol.writing("/api/trigger-events/test", body), repeatable=True)
        return (yield from self._perform(request, Trials)).items

    def firings(self, **filters: Unpack[FiringFilters]) -> Flow[FiringPage]:
        """Return what triggers matched, newest first."""
        return self._perform(protocol.reading("/api/firings", protocol.filtered(filters)), FiringPage)

    def retry_firing(self, firing_id: str) -> Flow[Firing]:
        """Try a dead one again."""
        return self._perform(protocol.writing(protocol.firing_address(firing_id, "retry"), {}), Firing)

    def discard_firing(self, firing_id: str) -> Flow[Firing]:
        """Let go of one that is dead or waits."""
        return self._perform(protocol.writing(protocol.firing_address(firing_id, "discard"), {}), Firing)
