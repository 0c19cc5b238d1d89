"""Triggers: which events start which runs, how often at most, and why one did or did not match."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from assent.domain.canonical import Json, sha256
from assent.domain.errors import PatternError
from assent.domain.patterns import Finding, Pattern, explain, match, parse
from assent.domain.templates import fill, spelt
from assent.domain.trigger_events import EVENT_ATTRIBUTES, TriggerEvent, seen, subject_of

MAX_DEPTH = 3
"""How many runs may lie between an event and the outside world before a trigger takes it for a loop."""
LONGEST_SHOWN = 500
LONGEST_KEY = 500
UNVERIFIED = "none"


class TriggerState(StrEnum):
    ENABLED = "enabled"
    SUSPENDED = "suspended"
    """Events queue, and nothing runs."""
    DISABLED = "disabled"
    """Events pass by."""


class WhenFull(StrEnum):
    QUEUE = "queue"
    SKIP = "skip"
    REPLACE = "replace"
    """The newest takes the place of those that queue."""
    CANCEL = "cancel"
    """The newest starts, and what runs is cancelled."""


class FiringState(StrEnum):
    HELD = "held"
    """Waits: for quiet, for an approval, for the trigger to be resumed, or for room."""
    STARTED = "started"
    SKIPPED = "skipped"
    DEAD = "dead"
    """Could not be started; a dead letter, to be tried again or let go."""


class Because(StrEnum):
    """Why a firing is held or was skipped."""

    DEBOUNCE = "debounce"
    SUSPENDED = "suspended"
    APPROVAL = "approval"
    ROOM = "room"
    RETRY = "retry"
    ONCE = "once"
    BUSY = "busy"
    REPLACED = "replaced"
    MERGED = "merged"
    """Another event of the same debounce goes on for it."""
    LOOP = "loop"
    NOT_APPROVED = "not-approved"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Debounce:
    quiet: float
    """Seconds without another event of the same key."""
    most: float
    """Seconds after the first event by which it starts anyway."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Concurrency:
    limit: int = 1
    when_full: WhenFull = WhenFull.QUEUE
    key: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """A breakpoint in front of the run."""

    gate: str = ""
    """By default `trigger.<name>`."""
    question: str = ""
    expert: tuple[str, ...] = ()
    when: str = "*"
    """Only for events that match this pattern too."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """More firings than this within so many seconds suspend the trigger, and somebody is told."""

    limit: int = 100
    within: float = 60
    echoes: int = 20
    """So many firings in a row, each for an event that came out of the run before it, suspend it too; 0 is never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """As it is written; texts may be templates over the event."""

    name: str
    on: str
    run: str
    inputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    once: str | None = None
    debounce: Debounce | None = None
    concurrency: Concurrency | None = None
    hold: Hold | None = None
    breaker: Breaker = Breaker()
    max_depth: int = MAX_DEPTH
    agent_id: str | None = None
    """Who the run speaks for; by default `trigger/<name>`."""
    state: TriggerState = TriggerState.ENABLED
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Why a trigger did or did not match an event."""

    trigger: str
    matched: bool
    findings: Sequence[Finding]
    problem: str | None = None
    """What is wrong with the trigger itself, where its pattern cannot be read."""


@lru_cache(maxsize=4096)
def read(pattern: str) -> Pattern:
    """Read a pattern of events; reading takes a hundred times as long as matching."""
    return parse(pattern, EVENT_ATTRIBUTES)


def trace(trigger: Trigger, event: TriggerEvent) -> Trace:
    """Hold one trigger against an event; every predicate is told with the actual value."""
    try:
        pattern = read(trigger.on)
    except PatternError as error:
        return Trace(trigger.name, matched=False, findings=(), problem=error.message)
    subject = subject_of(event)
    return Trace(trigger.name, match(pattern, subject) is True, explain(pattern, subject))


def told(found: Trace) -> dict[str, Any]:
    """Return a trace as it is kept and shown."""
    findings = [
        {
            "part": each.part,
            "actual": None if each.note == "not given" else _short(each.actual),
            "held": each.held,
            **({"note": each.note} if each.note else {}),
        }
        for each in found.findings
    ]
    problem = {"problem": found.problem} if found.problem else {}
    return {"trigger": found.trigger, "matched": found.matched, "findings": findings, **problem}


def _short(value: Json) -> Json:
    text = str(value)
    return value if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def inputs_of(trigger: Trigger, event: TriggerEvent, others: Sequence[TriggerEvent] = ()) -> dict[str, Json]:
    """Return what the run is given: its filled inputs, and always the whole event, marked with how far it is trusted.

    `others` came before it and wait with it, where events are gathered until there is quiet.
    """
    filled: dict[str, Json] = fill(dict(trigger.inputs), seen(event))
    gathered = {"events": [_whole(each) for each in (*others, event)]} if others else {}
    return {**filled, "event": _whole(event), **gathered}


def _whole(event: TriggerEvent) -> dict[str, Json]:
    occurred_at = event.arrived.occurred_at
    return {"id": event.id, "time": event.received_at if occurred_at is None else occurred_at, **seen(event)}


def key_of(template: str | None, event: TriggerEvent) -> str:
    """Fill the template of a key; an event without what it names has an empty part there."""
    return _kept(spelt(template, seen(event))[0]) if template else ""


def once_of(trigger: Trigger, event: TriggerEvent) -> str | None:
    """Return what a trigger fires once for; None where it does not say, or the event lacks a part of it.

    Whoever names the trigger that an event is repeated for wants it to fire.
    """
    if trigger.once is None or event.replay_for is not None:
        return None
    key, is_whole = spelt(trigger.once, seen(event))
    return _kept(key) if is_whole and key else None


def _kept(key: str) -> str:
    """Return a key as it can be kept, and still told apart: a long one by a hash of all of it."""
    clean = key.encode(errors="replace").decode().replace("\x00", "\ufffd")
    if len(key) <= LONGEST_KEY:
        return clean
    whole = sha256(key.encode(errors="surrogatepass"))
    return f"{clean[: LONGEST_KEY - len(whole) - 1]}#{whole}"


def asked_of(trigger: Trigger, event: TriggerEvent, *, version: str, agent_id: str, others: Sequence[str]) -> str:
    """Return a digest of what a person is asked about: an approval counts for nothing else."""
    filled = fill(dict(trigger.inputs), seen(event))
    about = [trigger.run, version, filled, agent_id, event.id, list(others)]
    return sha256(b"assent-firing/1\n" + json.dumps(about, sort_keys=True).encode())


def holds(trigger: Trigger, event: TriggerEvent) -> bool:
    """Whether a person must approve first. What nobody verified asks, and a condition that cannot be answered."""
    if event.arrived.verified == UNVERIFIED:
        return True
    if trigger.hold is None:
        return False
    try:
        return match(read(trigger.hold.when), subject_of(event)) is not False
    except PatternError:
        return True
