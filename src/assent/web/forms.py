"""Converts a breakpoint's flat JSON Schema to HTML inputs, and submitted inputs to JSON values.

Inputs are named by position, so that their names never contain text from an agent.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import MAX_INTEGER, Json, is_object, pointer_step, strict_loads
from assent.core.errors import AssentError, InvalidRequest
from assent.core.safe_text import visible
from assent.core.terms import Answer, answer_place

SHORT_TEXT = 200
TRUE, FALSE = "yes", "no"
# Stricter than int(), which also accepts underscores and digits of other scripts.
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class Input:
    """A form field as an HTML control: line, text, integer, number, boolean or choice."""

    id: str
    name: str
    label: str
    hint: str
    control: str
    required: bool
    value: str
    choices: Sequence[str]
    limits: Mapping[str, str]


def inputs(form: Mapping[str, Any], typed: Mapping[str, str]) -> list[Input]:
    required = form.get("required", ())
    return [
        _input(f"field-{n}", name, field, typed, required=name in required)
        for n, (name, field) in enumerate(form["properties"].items())
    ]


def _input(field_id: str, name: str, field: Mapping[str, Any], typed: Mapping[str, str], *, required: bool) -> Input:
    return Input(
        id=field_id,
        name=name,
        label=_text(field.get("title")) or name,
        hint=_text(field.get("description")),
        control=_control(field),
        required=required,
        value=typed[field_id] if field_id in typed else _default(field),
        choices=[_shown(choice) for choice in field.get("enum", ())],
        limits=_limits(field),
    )


def _control(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return "choice"
    if field["type"] != "string":
        return str(field["type"])
    longest = field.get("maxLength")
    return "line" if isinstance(longest, int) and longest <= SHORT_TEXT else "text"


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if value is None:
        return ""
    if "enum" in field:
        return str(field["enum"].index(value)) if value in field["enum"] else ""
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if not isinstance(value, (str, int, float)):
        return ""
    # People must not submit a default value that they cannot see in full.
    return str(value) if visible(value) == str(value) else ""


def _limits(field: Mapping[str, Any]) -> dict[str, str]:
    names = (
        {"minLength": "minlength", "maxLength": "maxlength"}
        if field["type"] == "string"
        else {"minimum": "min", "maximum": "max"}
    )
    found = {attribute: str(field[keyword]) for keyword, attribute in names.items() if keyword in field}
    if field["type"] in {"integer", "number"} and "enum" not in field:
        found["step"] = "1" if field["type"] == "integer" else "any"
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return TRUE if value else FALSE
    return str(value)


def answers(form: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Json]:
    """Convert the submitted values to the types that the form requires; omit empty fields."""
    found: dict[str, Json] = {}
    for n, (name, field) in enumerate(form["properties"].items()):
        text = typed.get(f"field-{n}", "")
        if text:
            found[name] = _value(answer_place(name), field, text)
    return found


def _value(pointer: str, field: Mapping[str, Any], text: str) -> Json:
    if "enum" in field:
        choices: Sequence[Json] = field["enum"]
        # isdigit() alone accepts characters such as “²”, for which int() raises an error.
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < len(choices)):  # noqa: PLR2004
            raise InvalidRequest.at(pointer, "choose one of the listed values")
        return choices[int(text)]
    kind = field["type"]
    if kind == "boolean":
        if text not in {TRUE, FALSE}:
            raise InvalidRequest.at(pointer, "choose yes or no")
        return text == TRUE
    return text if kind == "string" else _number(pointer, kind, text.strip())


def _number(pointer: str, kind: str, text: str) -> Json:
    number = int(text) if _INTEGER.fullmatch(text) else _fraction(text)
    if isinstance(number, float) and (kind == "integer" or not math.isfinite(number)):
        raise InvalidRequest.at(pointer, "must be a whole number" if kind == "integer" else "must be a number")
    # Larger numbers lose digits in JSON parsers that use floating point.
    if abs(number) > MAX_INTEGER:
        raise InvalidRequest.at(pointer, "is too large")
    return number


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def typed_again(payload: Mapping[str, Any], answer: Answer) -> dict[str, str]:
    """Return the form values that would result in this answer."""
    found = {"comment": answer.comment or ""}
    options: Sequence[str] = payload.get("options") or ()
    if answer.option in options:
        found["option"] = str(options.index(answer.option))
    form: Mapping[str, Any] = payload.get("form") or {"properties": {}}
    for n, (name, field) in enumerate(form["properties"].items()):
        if answer.answers and name in answer.answers:
            found[f"field-{n}"] = _default(field | {"default": answer.answers[name]})
    for each in edits(payload, {}):
        if answer.edits and each.name in answer.edits:
            found[each.id] = _edit_text(each.control, answer.edits[each.name])
    return found


def filled_in(payload: Mapping[str, Any], typed: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return a form's answers and edited arguments as labeled text, without validating them."""
    asked = {each.id: each for each in (inputs(payload["form"], {}) if payload.get("form") else ())}
    before = {each.id: each for each in edits(payload, {})}
    found: list[tuple[str, str]] = []
    for name, text in typed.items():
        if name in asked:
            each = asked[name]
            found.append((each.label, _choice(each.choices, text) if each.control == "choice" else text))
        elif name in before:
            found += [] if _same(before[name].value, text, before[name].control) else [(before[name].name, text)]
        elif name.startswith(("field-", "edit-")):  # the breakpoint's content was purged
            found.append(("Answer", text))
    return found


def _choice(choices: Sequence[str], index: str) -> str:
    return choices[int(index)] if index in map(str, range(len(choices))) else ""


@dataclass(frozen=True, slots=True)
class Edit:
    """An argument that the reviewer can edit as text, integer, number, boolean or JSON."""

    id: str
    name: str
    control: str
    value: str


def edits(payload: Mapping[str, Any], typed: Mapping[str, str]) -> list[Edit]:
    values = _arguments(payload)
    found: list[Edit] = []
    for n, name in enumerate(payload.get("editable") or ()):
        control = _editor(values[name]) if name in values else "json"
        before = _edit_text(control, values[name]) if name in values else ""
        found.append(Edit(f"edit-{n}", name, control, typed.get(f"edit-{n}", before)))
    return found


def edited(payload: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Json] | None:
    """Return the edited arguments, or None if nothing was edited."""
    found: dict[str, Json] = {}
    for before, after in zip(edits(payload, {}), edits(payload, typed), strict=True):
        if _same(before.value, after.value, after.control):
            continue
        pointer = edit_place(after.name)
        if after.control == "text":
            # Browsers submit all line breaks as CR LF.
            breaks = "\r\n" if "\r\n" in before.value else "\n"
            found[after.name] = after.value.replace("\r\n", "\n").replace("\n", breaks)
        elif after.control == "json":
            found[after.name] = _from_json(pointer, after.value)
        else:
            found[after.name] = _value(pointer, {"type": after.control}, after.value)
    return found or None


def changes(payload: Mapping[str, Any], answer: Answer) -> list[tuple[str, str, str]]:
    """Return the name, original value and new value of each edited argument, for the confirmation page."""
    values = _arguments(payload)
    return [(name, _plain(values.get(name)), _plain(value)) for name, value in (answer.edits or {}).items()]


def edit_place(name: str) -> str:
    return f"/edits/{pointer_step(name)}"


def _arguments(payload: Mapping[str, Any]) -> Mapping[str, Json]:
    arguments: Json = payload.get("arguments")
    return arguments if is_object(arguments) else {}


def _editor(value: Json) -> str:
    """Return the control for a value; text with hidden characters is edited as escaped JSON."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str) and visible(value) == value:
        return "text"
    return "json"


def _edit_text(control: str, value: Json) -> str:
    if control == "text" and isinstance(value, str):
        return value
    if control == "boolean":
        return TRUE if value else FALSE
    # Strings are escaped, so that the reviewer sees hidden characters.
    return json.dumps(value, ensure_ascii=isinstance(value, str))


def _same(before: str, after: str, control: str) -> bool:
    if control == "text":
        return before.replace("\r\n", "\n") == after.replace("\r\n", "\n")
    # An empty field counts as unchanged, because only text arguments can be empty.
    return not after.strip() or after.strip() == before


def _from_json(pointer: str, text: str) -> Json:
    try:
        return strict_loads(text.encode())
    except AssentError as error:
        raise InvalidRequest.at(pointer, "is not valid JSON. Put text in double quotes") from error


def _plain(value: Json) -> str:
    if isinstance(value, bool):
        return TRUE if value else FALSE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
