"""The trigger form, and the conversion between its fields and the format of assent.yaml."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assent.core.canonical import Json, is_array, strict_loads
from assent.core.errors import AssentError, InvalidRequest, MalformedJson, PatternError
from assent.triggers.model import WhenFull
from assent.triggers.pages.layout import Fault, pointer_of, said

FIELDS = (
    "id", "on", "run", "inputs", "once", "debounce-quiet", "debounce-max", "debounce-key", "concurrency-limit",
    "concurrency-when_full", "concurrency-key", "hold", "hold-gate", "hold-question", "hold-expert", "hold-when",
    "breaker-limit", "breaker-within", "breaker-echoes", "max_depth", "agent_id", "enabled", "note",
)  # fmt: skip
"""The names of the form controls. The part before the hyphen is the section that the control belongs to."""
STATES = {
    "true": "Enabled: starts runs",
    "suspended": "Suspended: events are queued, and no runs start",
    "false": "Disabled: events are ignored",
}
WHEN_FULL = {
    WhenFull.QUEUE.value: "Queue the new event",
    WhenFull.SKIP.value: "Skip the new event",
    WhenFull.REPLACE.value: "Queue only the newest event",
    WhenFull.CANCEL.value: "Cancel the oldest runs and start the new run",
}
LABELS = {
    "id": "Name", "on": "Events", "run": "Process", "inputs": "Inputs", "once": "Run once per",
    "debounce-quiet": "Quiet period", "debounce-max": "Maximum wait", "debounce-key": "Debounce per",
    "concurrency-limit": "Maximum concurrent runs", "concurrency-when_full": "At the limit",
    "concurrency-key": "Limit per", "hold": "Approval required", "hold-gate": "Gate", "hold-question": "Question",
    "hold-expert": "Assigned to", "hold-when": "Only for events where", "breaker-limit": "Suspend after",
    "breaker-within": "Within", "breaker-echoes": "Echo limit", "max_depth": "Maximum chain length",
    "agent_id": "Agent ID", "enabled": "State", "note": "Note",
}  # fmt: skip
_PARTS = {
    "debounce": ("quiet", "max", "key"),
    "concurrency": ("limit", "when_full", "key"),
    "hold": ("gate", "question", "expert", "when"),
    "breaker": ("limit", "within", "echoes"),
}
_FIRST = {"debounce": "debounce-quiet", "concurrency": "concurrency-limit", "hold": "hold-gate"} | {
    "breaker": "breaker-limit"
}
_NUMBERS = frozenset({"concurrency-limit", "breaker-limit", "breaker-echoes", "max_depth"})
_ENABLED: dict[str, Json] = {"true": True, "false": False, "suspended": "suspended"}


@dataclass(frozen=True, slots=True)
class Typed:
    """The values of the trigger form."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, form: Mapping[str, str]) -> "Typed":
        return cls({name: form.get(name, "").strip() for name in FIELDS})

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> "Typed":
        """Read a trigger in the format of assent.yaml."""
        found = {name: _shown(body[name]) for name in ("id", "on", "run", "once", "agent_id", "note") if name in body}
        found["inputs"] = "\n".join(f"{name} = {_as_line(value)}" for name, value in body.get("inputs", {}).items())
        found["max_depth"] = _shown(body.get("max_depth"))
        found["enabled"] = {True: "true", False: "false"}.get(body.get("enabled", True), "suspended")
        for part, names in _PARTS.items():
            held = body.get(part)
            if isinstance(held, Mapping):
                found |= {f"{part}-{name}": _shown(held[name]) for name in names if name in held}
        found["hold"] = "yes" if body.get("hold") else ""
        return cls(found)

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def body(self) -> dict[str, Any]:
        """Return the trigger in the format of assent.yaml, without empty fields."""
        found: dict[str, Any] = {name: self[name] for name in ("id", "on", "run")}
        found["inputs"] = inputs(self["inputs"])
        found |= {name: self[name] for name in ("once", "agent_id", "note") if self[name]}
        if self["max_depth"]:
            found["max_depth"] = _number("max_depth", self["max_depth"])
        found |= {part: given for part in ("debounce", "concurrency", "breaker") if (given := self._part(part))}
        if self["hold"]:
            found["hold"] = self._part("hold") or True
        found["enabled"] = _ENABLED.get(self["enabled"], True)
        return found

    def _part(self, part: str) -> dict[str, Any]:
        typed = {name: self[f"{part}-{name}"] for name in _PARTS[part]}
        # `when_full` is a choice that always has a value, so it does not define a limit on its own.
        if part == "concurrency" and not typed["limit"] and not typed["key"]:
            return {}
        given: dict[str, Any] = {name: value for name, value in typed.items() if value}
        numbers = [name for name in given if f"{part}-{name}" in _NUMBERS]
        given |= {name: _number(f"{part}/{name}", given[name]) for name in numbers}
        if "expert" in given:
            given["expert"] = [each.strip() for each in given["expert"].replace(",", "\n").splitlines() if each.strip()]
        return given

    @property
    def more(self) -> bool:
        """Whether any advanced field is set."""
        return any(
            self[name] for name in ("breaker-limit", "breaker-within", "breaker-echoes", "max_depth", "agent_id")
        )


def inputs(typed: str) -> dict[str, Json]:
    """Parse lines of the form `name = value`; a value that is not valid JSON is a string."""
    found: dict[str, Json] = {}
    for n, line in enumerate(typed.splitlines(), start=1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidRequest.at(
                "/inputs", f"line {n} must have the form name = value, such as repo = {{{{ event.repo }}}}"
            )
        if name in found:
            raise InvalidRequest.at("/inputs", f"line {n}: {name} is already defined")
        found[name] = _read(value.strip())
    return found


def _read(text: str) -> Json:
    try:
        return strict_loads(text.encode())
    except (MalformedJson, UnicodeEncodeError):
        return text


def _as_line(value: Json) -> str:
    """Format a value so that parsing it returns the same value."""
    # Quote strings that parsing would change: valid JSON, and strings with outer whitespace or line breaks.
    if isinstance(value, str) and value == value.strip() and len(value.splitlines()) == 1 and _read(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Json) -> str:
    if value is None:
        return ""
    return "\n".join(map(str, value)) if is_array(value) else str(value)


def _number(pointer: str, typed: str) -> int:
    if not (typed.isascii() and typed.isdigit() and len(typed) < 10):  # noqa: PLR2004  # longer than every limit of a trigger
        raise InvalidRequest.at(f"/{pointer}", "must be a whole number")
    return int(typed)


def fault(error: AssentError) -> Fault:
    """Find the form control for the JSON pointer of an error."""
    if isinstance(error, PatternError):
        return Fault(error.message, "on")
    pointer, detail = pointer_of(error)
    parts = pointer.strip("/").split("/")
    control = f"{parts[0]}-{parts[1]}" if len(parts) > 1 and parts[0] in _PARTS else _FIRST.get(parts[0], parts[0])
    if control not in LABELS:
        control = _FIRST.get(parts[0], "")
    if not control:
        return Fault(said(error))
    inside = f" {parts[1]}" if parts[0] == "inputs" and len(parts) > 1 else ""
    return Fault(f"{LABELS[control]}{inside}: {detail}", control)
