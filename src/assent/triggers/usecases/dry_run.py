"""Evaluates triggers for an event without side effects, and drafts a trigger from an event."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from assent.core.canonical import Json, is_array, is_object
from assent.core.durations import duration
from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Literal
from assent.core.patterns.grammar import MAX_LENGTH, sayable
from assent.core.plurals import plural
from assent.core.timestamps import from_iso
from assent.db.transaction import Transaction
from assent.runs.ports import ProcessRegistry
from assent.triggers.event import VIEW, Arrived, TriggerEvent, Trust
from assent.triggers.file_format import NAME
from assent.triggers.model import (
    UNVERIFIED,
    Concurrency,
    FiringState,
    Trace,
    Trigger,
    TriggerState,
    WhenFull,
    holds,
    inputs_of,
    key_of,
    once_of,
    trace,
)
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.usecases.run_approval import GATE

SUPPOSED = "evt_supposed"
NO_SOURCE = "src_none"
TEST = "test"
LISTS = frozenset({"paths", "labels", "tags"})
TOLD_APART = ("repo", "branch", "action", "conclusion")
"""The attributes that are most often used to select events."""
_FULL = {
    WhenFull.QUEUE: "would wait for a free slot",
    WhenFull.SKIP: "would be skipped, because the limit on concurrent runs has been reached",
    WhenFull.REPLACE: "would wait for a free slot and replace events that are already waiting",
    WhenFull.CANCEL: "would cancel an active run",
}
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of evaluating a trigger for an event without side effects."""

    trace: Trace
    trigger: Trigger
    would: str
    """The result as a sentence."""
    inputs: Mapping[str, Json] | None = None
    problem: str | None = None
    """Why the run could not currently be started."""


def tried(
    tx: Transaction,
    trigger: Trigger,
    event: TriggerEvent,
    processes: ProcessRegistry,
    *,
    stored: StoredTrigger | None = None,
) -> Trial:
    found = trace(trigger, event)
    if not found.matched:
        return Trial(found, trigger, "It does not match.")
    inputs = inputs_of(trigger, event)
    problem = processes.problem(trigger.run, inputs, complete=True)
    return Trial(found, trigger, _would(tx, trigger, event, stored), inputs, problem)


def _would(tx: Transaction, trigger: Trigger, event: TriggerEvent, stored: StoredTrigger | None) -> str:
    if trigger.state is TriggerState.DISABLED:
        return "It matches, but the trigger is disabled, so the event would be ignored."
    if event.depth > trigger.max_depth:
        return (
            f"It would be skipped as a possible loop: the event comes from a chain of {plural(event.depth, 'run')}, "
            f"and the limit is {trigger.max_depth}."
        )
    key = once_of(trigger, event)
    if key and stored is not None and tx[Firings].used(stored.id, key):
        return f"It would be skipped: the trigger has already fired for {key!r}."
    if trigger.state is TriggerState.SUSPENDED:
        return "It would wait until the trigger is resumed."
    steps = _waits(trigger, event)
    if trigger.concurrency is not None and stored is not None:
        steps += _room(tx, trigger.concurrency, stored, event)
    if steps and steps[-1] == _FULL[WhenFull.SKIP]:
        return f"It {', then '.join(steps)}."
    return f"It {', then '.join([*steps, f'would start {trigger.run}'])}."


def _waits(trigger: Trigger, event: TriggerEvent) -> list[str]:
    steps: list[str] = []
    if trigger.debounce is not None:
        quiet, most = duration(trigger.debounce.quiet), duration(trigger.debounce.most)
        steps.append(f"would wait until no events arrive for {quiet}, but at most {most}")
    if holds(trigger, event):
        gate = trigger.hold.gate if trigger.hold is not None else ""
        steps.append(f"would ask for approval at the gate {gate or f'{GATE}{trigger.name}'}")
    return steps


def _room(tx: Transaction, room: Concurrency, stored: StoredTrigger, event: TriggerEvent) -> list[str]:
    like = Firing(
        id="",
        project=stored.project,
        event_id=event.id,
        trigger_id=stored.id,
        trigger_name=stored.name,
        trigger_version=stored.version,
        state=FiringState.HELD,
        room_key=key_of(room.key, event),
        first_at=0,
        created_at=0,
        updated_at=0,
    )
    return [_FULL[room.when_full]] if len(tx[Firings].running(like)) >= room.limit else []


def supposed_event(tx: Transaction, body: Mapping[str, Json], *, project: str) -> TriggerEvent:
    """Build an event from an envelope or from the attributes that patterns can use, without storing it."""
    kind = body.get("type")
    if not isinstance(kind, str) or not kind.strip():
        raise InvalidRequest.at("/event/type", "is required: the event type, for example github.push")
    view = body.get("view")
    seen = dict(view) if is_object(view) else {}
    seen |= {name: body[name] for name in VIEW if body.get(name) is not None}
    name = str(body.get("source") or TEST).removeprefix("/sources/")
    source = tx[Sources].by_name(project, name)
    now = tx.now()
    arrived = Arrived(
        type=kind.strip(),
        key=SUPPOSED,
        data=body.get("data", {}),
        view={each: _of_kind(each, value) for each, value in seen.items() if each in VIEW},
        subject=_text(body, "subject"),
        occurred_at=_time(body.get("time")),
        verified=_text(body, "verified") or _verified(source),
        trust=_trust(body.get("trust")),
    )
    return TriggerEvent(
        id=SUPPOSED,
        project=project,
        source_id=source.id if source is not None else NO_SOURCE,
        source=name,
        arrived=arrived,
        correlation_id=SUPPOSED,
        depth=_depth(body.get("depth")),
        received_at=now,
    )


def _verified(source: StoredSource | None) -> str:
    """Return a hypothetical event's default verification method, which depends on its source."""
    return UNVERIFIED if source is not None and source.settings.get("verify") == UNVERIFIED else TEST


def _of_kind(name: str, value: Json) -> Json:
    if name in LISTS and not is_array(value):
        raise InvalidRequest.at(f"/event/{name}", "must be a list")
    return value


def _text(body: Mapping[str, Json], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest.at(f"/event/{name}", "must be text")
    return value


def _time(value: Json) -> int | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except ValueError as error:
        raise InvalidRequest.at("/event/time", "must be a time, for example 2030-01-01T00:00:00Z") from error


def _trust(value: Json) -> Trust:
    if value is None:
        return Trust.UNTRUSTED
    if value not in set(Trust):
        raise InvalidRequest.at("/event/trust", f"must be one of {', '.join(Trust)}")
    return Trust(value)


def _depth(value: Json) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidRequest.at("/event/depth", "must be a whole number, 0 or more")
    return value


def sketched(event: TriggerEvent, processes: ProcessRegistry, *, taken: set[str]) -> dict[str, Json]:
    """Return the definition of a trigger that matches this event and similar ones."""
    view = event.arrived.view
    known = sorted(each.name for each in processes.every() if each.process is not None)
    body: dict[str, Json] = {
        "id": _free_name(event, taken),
        "on": _pattern(event),
        "run": known[0] if known else "my-process",
        "inputs": {name: f"{{{{ event.{name} }}}}" for name in ("repo", "branch", "sha", "url") if view.get(name)},
    }
    if view.get("repo") and view.get("sha"):
        body["once"] = "{{ event.repo }}@{{ event.sha }}"
    # Outsiders may have written parts of the event, so the draft requires approval.
    if event.arrived.trust is Trust.UNTRUSTED:
        body["hold"] = True
    return {name: value for name, value in body.items() if value != {}}


def _pattern(event: TriggerEvent) -> str:
    found = {"source": event.source, **event.arrived.view}
    wanted = [
        f"{name} = {Literal.of(value).text}"
        for name in ("source", *TOLD_APART)
        if isinstance(value := found.get(name), str) and value and sayable(value)
    ]
    glob = "".join("*" if sign in "()'\"" or sign.isspace() or not sayable(sign) else sign for sign in event.type)
    # Drop conditions until the pattern is short enough; a wider pattern still matches the event.
    while wanted and len(glob) + len(" AND ".join(wanted)) + 2 > MAX_LENGTH:
        wanted.pop()
    return f"{glob}({' AND '.join(wanted)})" if wanted else glob


def _free_name(event: TriggerEvent, taken: set[str]) -> str:
    plain = _NOT_IN_A_NAME.sub("-", event.type.lower()).strip("-.")[:50].rstrip("-.") or "trigger"
    first = plain if NAME.fullmatch(plain) else "trigger"
    numbered = (f"{first}-{n}" for n in range(2, len(taken) + 3))
    return next(each for each in (first, *numbered) if each not in taken)
