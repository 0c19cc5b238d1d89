"""Triggers: which events start which runs, with what limits, and why a trigger did or did not match."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from assent.core.canonical import Json, sha256
from assent.core.errors import PatternError
from assent.core.patterns.pattern import Finding, Pattern, explain, match, parse
from assent.triggers.event import EVENT_ATTRIBUTES, TriggerEvent, seen, subject_of
from assent.triggers.templates import fill, spelt

MAX_DEPTH = 3
"""The maximum number of runs in the chain that leads to an event. A longer chain is treated as a loop."""
LONGEST_SHOWN = 500
LONGEST_KEY = 500
UNVERIFIED = "none"


class TriggerState(StrEnum):
    ENABLED = "enabled"
    SUSPENDED = "suspended"
    """Events are queued, but do not start runs."""
    DISABLED = "disabled"
    """Events are ignored."""


class WhenFull(StrEnum):
    QUEUE = "queue"
    SKIP = "skip"
    REPLACE = "replace"
    """The newest firing replaces those in the queue."""
    CANCEL = "cancel"
    """The oldest runs are cancelled until the newest firing can start."""


class FiringState(StrEnum):
    HELD = "held"
    """Waiting for a debounce to end, an approval, the trigger to be resumed, a free slot or a retry."""
    STARTED = "started"
    SKIPPED = "skipped"
    DEAD = "dead"
    """The run could not be started; the firing can be retried or discarded."""


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
    """A later event of the same debounce replaces this one."""
    LOOP = "loop"
    NOT_APPROVED = "not-approved"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Debounce:
    quiet: float
    """Seconds without another event with the same key before the run starts."""
    most: float
    """Seconds after the first event at which the run starts even if events continue to arrive."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Concurrency:
    limit: int = 1
    when_full: WhenFull = WhenFull.QUEUE
    key: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """An approval required before the run starts."""

    gate: str = ""
    """Defaults to `trigger.<name>`."""
    question: str = ""
    expert: tuple[str, ...] = ()
    when: str = "*"
    """Only events that also match this pattern require the approval."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Suspends the trigger after more than `limit` firings in `within` seconds, and asks whether to resume it."""

    limit: int = 100
    within: float = 60
    echoes: int = 20
    """Also suspends the trigger after this many consecutive firings caused by its own runs; 0 disables this check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger as configured. Text fields can be templates that use the event."""

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
    """The agent ID of the run; defaults to `trigger/<name>`."""
    state: TriggerState = TriggerState.ENABLED
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Why a trigger did or did not match an event."""

    trigger: str
    matched: bool
    findings: Sequence[Finding]
    problem: str | None = None
    """What is wrong with the trigger itself, if its pattern is not valid."""


@lru_cache(maxsize=4096)
def read(pattern: str) -> Pattern:
    """Parse an event pattern; cached, because parsing takes a hundred times as long as matching."""
    return parse(pattern, EVENT_ATTRIBUTES)


def trace(trigger: Trigger, event: TriggerEvent) -> Trace:
    """Evaluate a trigger for an event. The findings list each predicate with the actual value."""
    try:
        pattern = read(trigger.on)
    except PatternError as error:
        return Trace(trigger.name, matched=False, findings=(), problem=error.message)
    subject = subject_of(event)
    return Trace(trigger.name, match(pattern, subject) is True, explain(pattern, subject))


def told(found: Trace) -> dict[str, Any]:
    """Return a trace in the form in which it is stored and displayed."""
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
    """Return the run's inputs: the filled-in templates, and the complete event with its trust level.

    `others` are earlier events that were merged into this one by debouncing.
    """
    filled: dict[str, Json] = fill(dict(trigger.inputs), seen(event))
    gathered = {"events": [_whole(each) for each in (*others, event)]} if others else {}
    # Last, so that an input cannot replace the event.
    return {**filled, "event": _whole(event), **gathered}


def _whole(event: TriggerEvent) -> dict[str, Json]:
    occurred_at = event.arrived.occurred_at
    return {"id": event.id, "time": event.received_at if occurred_at is None else occurred_at, **seen(event)}


def key_of(template: str | None, event: TriggerEvent) -> str:
    """Fill in a key template. Fields that the event lacks become empty strings."""
    return _kept(spelt(template, seen(event))[0]) if template else ""


def once_of(trigger: Trigger, event: TriggerEvent) -> str | None:
    """Return the `once` key, or None if the trigger has no such key or the event lacks one of its values.

    An event that is replayed for a specific trigger always fires that trigger.
    """
    if trigger.once is None or event.replay_for is not None:
        return None
    key, is_whole = spelt(trigger.once, seen(event))
    return _kept(key) if is_whole and key else None


def _kept(key: str) -> str:
    """Return a key that can be stored. A long key is shortened and ends with a hash of the full key, so that
    different keys stay distinct.
    """
    # Databases reject NUL and lone surrogates.
    clean = key.encode(errors="replace").decode().replace("\x00", "\ufffd")
    if len(key) <= LONGEST_KEY:
        return clean
    # Hash the original key, because different keys may be identical after cleaning.
    whole = sha256(key.encode(errors="surrogatepass"))
    return f"{clean[: LONGEST_KEY - len(whole) - 1]}#{whole}"


def asked_of(trigger: Trigger, event: TriggerEvent, *, version: str, agent_id: str, others: Sequence[str]) -> str:
    """Return a digest of what the approval covers; the approval is not valid for anything else."""
    filled = fill(dict(trigger.inputs), seen(event))
    about = [trigger.run, version, filled, agent_id, event.id, list(others)]
    # The prefix versions the format, because approvals may be pending during an update.
    return sha256(b"assent-firing/1\n" + json.dumps(about, sort_keys=True).encode())


def holds(trigger: Trigger, event: TriggerEvent) -> bool:
    """Return whether approval is required, which is always the case for unverified events and unknown results."""
    if event.arrived.verified == UNVERIFIED:
        return True
    if trigger.hold is None:
        return False
    try:
        # Hold the run if the result is unknown, because approval might be required.
        return match(read(trigger.hold.when), subject_of(event)) is not False
    except PatternError:
        return True
