"""Triggers in assent.yaml, in the API and in the database: parsing, validation and serialization."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.durations import duration, seconds
from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.pattern import parse
from assent.delivery.routes_file import CHANNEL_NAME_RULE
from assent.triggers import templates
from assent.triggers.event import EVENT_ATTRIBUTES
from assent.triggers.model import MAX_DEPTH, Breaker, Concurrency, Debounce, Hold, Trigger, TriggerState, WhenFull

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}", re.ASCII)
NAME_RULE = CHANNEL_NAME_RULE
LONGEST_KEY = 500
LONGEST_NOTE = 500
LONGEST_WAIT = 7 * 86_400
DEEPEST = 20
MOST_ECHOES = 1_000
LONGEST_NAME = 200
_KEYS = frozenset(
    {"id", "on", "run", "inputs", "once", "debounce", "concurrency", "hold", "breaker", "max_depth", "agent_id",
     "enabled", "note"}
)  # fmt: skip
_GATE = re.compile(rf"[^\s\x00-\x1f\x7f]{{1,{LONGEST_NAME}}}")
_CONDITION = re.compile(r"['\"=<>!\s]|(?<![\w.-])not(?![\w.-])", re.IGNORECASE)
_PROCESS = re.compile(r"(?:processes/)?([A-Za-z0-9][A-Za-z0-9._-]{0,99}?)(?:\.py)?", re.ASCII)

_ENABLED: Mapping[TriggerState, dict[str, Any]] = {
    TriggerState.ENABLED: {},
    TriggerState.SUSPENDED: {"enabled": "suspended"},
    TriggerState.DISABLED: {"enabled": False},
}

Value = TypeVar("Value")


def checked(body: Mapping[str, Json]) -> Trigger:
    """Parse a trigger, or raise InvalidRequest with the location of the error."""
    for name in body:
        if name not in _KEYS:
            what = f"is not a known field. Use one of {', '.join(sorted(_KEYS))}"
            raise InvalidRequest.at(f"/{pointer_step(name)}", what)
    inputs = body.get("inputs", {})
    if not is_object(inputs):
        raise InvalidRequest.at("/inputs", "must be a mapping of names to values")
    if "event" in inputs or "events" in inputs:
        raise InvalidRequest.at("/inputs/event", "is a built-in input; choose another name")
    templates.check(inputs, EVENT_ATTRIBUTES, "/inputs")
    return Trigger(
        name=_name(body.get("id")),
        on=_pattern(body.get("on"), "/on"),
        run=_process(body.get("run")),
        inputs=dict(inputs),
        once=_optional(body, "once", _key),
        debounce=_optional(body, "debounce", _debounce),
        concurrency=_optional(body, "concurrency", _concurrency),
        hold=_hold(body.get("hold"), "/hold"),
        breaker=_optional(body, "breaker", _breaker) or Breaker(),
        max_depth=_whole(body.get("max_depth", MAX_DEPTH), "/max_depth", least=0, most=DEEPEST),
        agent_id=_optional(body, "agent_id", _agent),
        state=_state(body.get("enabled", True)),
        note=_optional(body, "note", _note),
    )


def written(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger in the format that `checked` accepts, omitting empty fields."""
    found: dict[str, Any] = {"id": trigger.name, "on": trigger.on, "run": trigger.run}
    found |= _given(inputs=dict(trigger.inputs), once=trigger.once)
    if trigger.debounce:
        each = trigger.debounce
        found["debounce"] = {"quiet": duration(each.quiet), "max": duration(each.most)} | _given(key=each.key)
    if trigger.concurrency:
        room = trigger.concurrency
        found["concurrency"] = {"limit": room.limit, "when_full": room.when_full.value} | _given(key=room.key)
    if trigger.hold:
        # A hold with only default values must still be written.
        found["hold"] = _hold_written(trigger.hold) or True
    if trigger.breaker != Breaker():
        each_breaker = trigger.breaker
        found["breaker"] = {"limit": each_breaker.limit, "within": duration(each_breaker.within)}
        found["breaker"] |= {} if each_breaker.echoes == Breaker().echoes else {"echoes": each_breaker.echoes}
    if trigger.max_depth != MAX_DEPTH:
        found["max_depth"] = trigger.max_depth
    found |= _given(agent_id=trigger.agent_id, note=trigger.note)
    return found | _ENABLED[trigger.state]


def _hold_written(hold: Hold) -> dict[str, Any]:
    said = _given(gate=hold.gate, question=hold.question, expert=list(hold.expert))
    return said | ({"when": hold.when} if hold.when != "*" else {})


def _given(**values: Json) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _optional(body: Mapping[str, Json], name: str, read: Callable[[Json, str], Value]) -> Value | None:
    value = body.get(name)
    return None if value is None else read(value, f"/{name}")


def _name(value: Json) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InvalidRequest.at("/id", NAME_RULE)
    return value


def _pattern(value: Json, pointer: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest.at(pointer, "must be an event pattern, for example github.push(branch = 'main')")
    try:
        return parse(value, EVENT_ATTRIBUTES).source
    except PatternError as error:
        raise InvalidRequest.at(pointer, error.message) from error


def _process(value: Json) -> str:
    found = _PROCESS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidRequest.at("/run", "must be a process name")
    path = str(value).endswith(".py")
    # Convert a path to the name that its file gives the process. Other names are used unchanged.
    return found[1].lower().replace("_", "-") if path else found[1]


def _key(value: Json, pointer: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_KEY:
        raise InvalidRequest.at(pointer, f"must be text of 1 to {LONGEST_KEY} characters")
    templates.check(value, EVENT_ATTRIBUTES, pointer)
    return value


def _debounce(value: Json, pointer: str) -> Debounce:
    if isinstance(value, str):
        quiet = _length(value, pointer)
        return Debounce(quiet, _most(quiet))
    body = _mapping(value, pointer, {"quiet", "max", "key"})
    quiet = _length(body.get("quiet"), f"{pointer}/quiet")
    most = _length(body["max"], f"{pointer}/max") if "max" in body else _most(quiet)
    if most < quiet:
        raise InvalidRequest.at(f"{pointer}/max", "must not be shorter than quiet")
    return Debounce(quiet, most, _key(body["key"], f"{pointer}/key") if "key" in body else "")


def _most(quiet: float) -> float:
    """Return ten times `quiet`, capped at the longest duration that is still valid when a stored trigger is parsed."""
    return min(quiet * 10, LONGEST_WAIT)


def _concurrency(value: Json, pointer: str) -> Concurrency:
    if not is_object(value):
        return Concurrency(_whole(value, pointer, least=1, most=1_000))
    body = _mapping(value, pointer, {"limit", "when_full", "key"})
    full = body.get("when_full", WhenFull.QUEUE.value)
    if full not in [each.value for each in WhenFull]:
        raise InvalidRequest.at(f"{pointer}/when_full", f"must be one of {', '.join(WhenFull)}")
    limit = _whole(body.get("limit", 1), f"{pointer}/limit", least=1, most=1_000)
    return Concurrency(limit, WhenFull(full), _key(body["key"], f"{pointer}/key") if "key" in body else "")


def _hold(value: Json, pointer: str) -> Hold | None:
    if value is None or isinstance(value, bool):
        return Hold() if value else None
    if isinstance(value, str):
        return Hold(gate=_gate(value, pointer))
    body = _mapping(value, pointer, {"gate", "question", "expert", "when"})
    experts = body.get("expert", [])
    listed = [experts] if isinstance(experts, str) else experts
    if not is_array(listed) or not all(isinstance(each, str) and 0 < len(each) <= LONGEST_NAME for each in listed):
        raise InvalidRequest.at(f"{pointer}/expert", "must be a name or a list of names")
    return Hold(
        gate=_gate(body["gate"], f"{pointer}/gate") if "gate" in body else "",
        question=_key(body["question"], f"{pointer}/question") if "question" in body else "",
        expert=tuple(listed),
        when=_when(body["when"], f"{pointer}/when") if "when" in body else "*",
    )


def _when(value: Json, pointer: str) -> str:
    """Parse a pattern. A condition on its own, such as trust = 'untrusted', applies to events of every type."""
    if isinstance(value, str):
        try:
            return parse(f"*({value.strip()})", EVENT_ATTRIBUTES).source
        except PatternError as error:
            # Parsed as an event type, the condition would never match, and approval would never be requested.
            if _CONDITION.search(value.partition("(")[0].strip()):
                raise InvalidRequest.at(pointer, error.message) from error
    return _pattern(value, pointer)


def _gate(value: Json, pointer: str) -> str:
    if not isinstance(value, str) or not _GATE.fullmatch(value) or not value.isprintable():
        raise InvalidRequest.at(pointer, "must be a gate name without spaces")
    return value


def _breaker(value: Json, pointer: str) -> Breaker:
    body = _mapping(value, pointer, {"limit", "within", "echoes"})
    limit = _whole(body.get("limit", Breaker().limit), f"{pointer}/limit", least=1, most=1_000_000)
    within = _length(body["within"], f"{pointer}/within") if "within" in body else Breaker().within
    echoes = _whole(body.get("echoes", Breaker().echoes), f"{pointer}/echoes", least=0, most=MOST_ECHOES)
    return Breaker(limit, within, echoes)


def _agent(value: Json, pointer: str) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= LONGEST_NAME or not value.isprintable():
        raise InvalidRequest.at(pointer, "must be an agent name")
    return value.strip()


def _note(value: Json, pointer: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NOTE:
        raise InvalidRequest.at(pointer, f"must be text of at most {LONGEST_NOTE} characters")
    return value


def _state(value: Json) -> TriggerState:
    if isinstance(value, bool):
        return TriggerState.ENABLED if value else TriggerState.DISABLED
    if value in [each.value for each in TriggerState]:
        return TriggerState(value)
    raise InvalidRequest.at("/enabled", "must be true, false or suspended")


def _whole(value: Json, pointer: str, *, least: int, most: int) -> int:
    # In Python, True and False are also integers.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest.at(pointer, f"must be a whole number from {least} to {most:,}")
    return value


def _length(value: Json, pointer: str) -> float:
    try:
        found = seconds(value) if isinstance(value, str) else 0
    except ValueError as error:
        raise InvalidRequest.at(pointer, str(error)) from error
    if not 0 < found <= LONGEST_WAIT:
        raise InvalidRequest.at(pointer, f"must be a duration from 1ms to {duration(LONGEST_WAIT)}")
    return found


def _mapping(value: Json, pointer: str, known: set[str]) -> Mapping[str, Json]:
    if not is_object(value):
        raise InvalidRequest.at(pointer, f"must be a mapping with {', '.join(sorted(known))}")
    for name in value:
        if name not in known:
            raise InvalidRequest.at(
                f"{pointer}/{pointer_step(name)}", f"is not a known field. Use one of {', '.join(sorted(known))}"
            )
    return value
