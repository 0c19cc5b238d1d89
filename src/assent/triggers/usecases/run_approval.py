"""Approval requests for runs: the question, its context, and cancellation."""

import contextlib
import json
from dataclasses import replace

from assent.breakpoints.usecases.create import checked
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal
from assent.core.canonical import Json, is_array, is_object
from assent.core.draft import draft
from assent.core.errors import AlreadyEnded
from assent.core.gates import MAX_GATE
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.people.store.projects import Projects
from assent.triggers.event import TriggerEvent, seen
from assent.triggers.model import Hold
from assent.triggers.store.firings import Firing
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.templates import fill, spelt

LONGEST_QUESTION = 2_000
LONGEST_SUBJECT = 300
LONGEST_NAME = 200
DEEPEST = 8
LARGEST = 2**53 - 1
MOST_SHOWN = 8 * 1024
"""Maximum number of characters of JSON displayed for an event, and for the run's inputs."""
CUTS = ((MOST_SHOWN, 1_000), (500, 50), (100, 10))
"""The maximum text length and number of members to display. The next pair is used if the result is still too large."""
GATE = "trigger."


def principal_of(stored: StoredTrigger) -> Principal:
    """Return the principal that starts a trigger's runs and creates its breakpoints. Like agents, it cannot answer."""
    return Principal(kind=Kind.TRIGGER, id=stored.id, name=stored.name, project=stored.project)


def agent_of(stored: StoredTrigger) -> str:
    return stored.trigger.agent_id or f"trigger/{stored.name}"


def ask(
    tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, event: TriggerEvent, firing: Firing
) -> str:
    """Create the breakpoint for a run. Event data is displayed in its context, or as plain text in the question."""
    hold = stored.trigger.hold or Hold()
    payload: dict[str, Json] = {
        "question": question_of(stored, event, firing),
        "breakpointId": gate_of(stored),
        "context": _context(stored, event, firing),
    }
    if hold.expert:
        payload["expert"] = list(hold.expert)
    return raised(tx, breakpoints, principal_of(stored), agent_of(stored), payload)


def question_of(stored: StoredTrigger, event: TriggerEvent, firing: Firing) -> str:
    trigger, earlier = stored.trigger, _earlier(firing)
    more = f" and {plural(earlier, 'earlier event')}" if earlier else ""
    own = trigger.hold.question if trigger.hold is not None else ""
    said = _line(spelt(own, seen(event))[0], LONGEST_QUESTION - LONGEST_NAME)
    if said:
        return f"{said} (this{more})" if more else said
    about = " ".join(filter(None, (event.type, event.arrived.subject)))
    return f"Start {trigger.run} for {_line(about, LONGEST_SUBJECT)}{more}?"


def gate_of(stored: StoredTrigger) -> str:
    hold = stored.trigger.hold
    return ((hold.gate if hold is not None else "") or f"{GATE}{stored.name}")[:MAX_GATE]


def _earlier(firing: Firing) -> int:
    return len(firing.gathered) + firing.beyond


def _context(stored: StoredTrigger, event: TriggerEvent, firing: Firing) -> dict[str, Json]:
    about = {name: value for name, value in seen(event).items() if name != "data" and value is not None}
    told: dict[str, Json] = {
        "event": bounded({"id": event.id, **about}),
        "process": stored.trigger.run,
        "inputs": bounded(fill(dict(stored.trigger.inputs), seen(event))),
    }
    if firing.gathered:
        told["events"] = _earlier(firing) + 1
    return told


def raised(
    tx: Transaction, breakpoints: BreakpointService, by: Principal, agent_id: str, payload: dict[str, Json]
) -> str:
    """Create a breakpoint and return its ID."""
    wanted = draft(checked({"agentId": agent_id[:LONGEST_NAME], "payload": payload}))
    # A trigger's principal has no policy of its own, so use the project's policy.
    asking = replace(by, policy=tx[Projects].get_open(by.project).policy)
    made = breakpoints.create(tx, wanted, by=asking, digest=wanted.digest(by.project), once=None)
    assert not isinstance(made, str), "an ID is returned only for an idempotency key"
    return made.id


def withdraw(tx: Transaction, breakpoints: BreakpointService, breakpoint_id: str, *, by: Principal) -> None:
    with contextlib.suppress(AlreadyEnded):
        breakpoints.cancel(tx, breakpoint_id, by=by)


def clean(text: str) -> str:
    """Replace characters that cannot be stored, because events may contain invalid text."""
    return text.encode(errors="replace").decode().replace("\x00", "\ufffd")


def _line(text: str, longest: int) -> str:
    """Return text as a single line, so that an event cannot add a second question below Assent's."""
    return " ".join(clean(text).split())[:longest]


def bounded(value: Json) -> Json:
    """Shorten a value from an event, whose content and size are arbitrary, to what a breakpoint accepts."""
    for longest, most in CUTS:
        found = shown(value, longest, most)
        if len(json.dumps(found)) <= MOST_SHOWN:
            return found
    return _cut(clean(json.dumps(shown(value, *CUTS[-1]), ensure_ascii=False)), MOST_SHOWN // 6)


def shown(value: Json, longest: int, most: int, depth: int = 0) -> Json:
    if is_object(value) and depth < DEEPEST:
        members = list(value.items())
        found = {_cut(clean(name), longest): shown(each, longest, most, depth + 1) for name, each in members[:most]}
        return found | ({"…": f"{len(members) - most} more"} if len(members) > most else {})
    if is_array(value) and depth < DEEPEST:
        items = [shown(each, longest, most, depth + 1) for each in value[:most]]
        return [*items, *([f"… {len(value) - most} more"] if len(value) > most else [])]
    if isinstance(value, str):
        return _cut(clean(value), longest)
    # Larger integers would lose precision in JavaScript, so they are shown as text.
    is_small = value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST)
    return value if is_small else _cut(clean(str(value)), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
