"""A breakpoint's flat JSON Schema as inputs, and what people typed into them as JSON values.

Inputs are named by their position: nothing an agent wrote becomes the name of anything.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.domain.canonical import MAX_INTEGER, Json, is_object, pointer_step, strict_loads
from assent.domain.errors import AssentError, InvalidRequest
from assent.domain.terms import Answer, answer_place
from assent.domain.visible import visible

SHORT_TEXT = 200
TRUE, FALSE = "yes", "no"
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class Input:
    """One field of a form as an HTML control: line, text, integer, number, boolean or choice."""

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
    # Nobody sends as their own answer what they could not see in the box.
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
    """Return what was typed with the types the form asks for; what was left empty is left out."""
    found: dict[str, Json] = {}
    for n, (name, field) in enumerate(form["properties"].items()):
        text = typed.get(f"field-{n}", "")
        if text:
            found[name] = _value(answer_place(name), field, text)
    return found


def _value(pointer: str, field: Mapping[str, Any], text: str) -> Json:
    if "enum" in field:
        choices: Sequence[Json] = field["enum"]
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < len(choices)):  # noqa: PLR2004
            raise InvalidRequest.at(pointer, "pick one of the choices")
        return choices[int(text)]
    kind = field["type"]
    if kind == "boolean":
        if text not in {TRUE, FALSE}:
            raise InvalidRequest.at(pointer, "answer yes or no")
        return text == TRUE
    return text if kind == "string" else _number(pointer, kind, text.strip())


def _number(pointer: str, kind: str, text: str) -> Json:
    number = int(text) if _INTEGER.fullmatch(text) else _fraction(text)
    if isinstance(number, float) and (kind == "integer" or not math.isfinite(number)):
        raise InvalidRequest.at(pointer, "must be a whole number" if kind == "integer" else "must be a number")
    if abs(number) > MAX_INTEGER:
        raise InvalidRequest.at(pointer, "is too large a number")
    return number


def _fraction(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def typed_again(payload: Mapping[str, Any], answer: Answer) -> dict[str, str]:
    """Return what must stand in the form for this answer to come out of it."""
    found = {"comment": answer.comment or ""}
    options: Sequence[str] = payload.get("options") or ()
    if answer.option in options:
        found["option"] = str(options.index(answer.option))
    form: Mapping[str, Any] = payload.get("form") or {"properties": {}}
    for n, (name, field) in enumerate(form["properties"].items()):
        if answer.answers and name in answer.answers:
            found[f"field-{n}"] = _default(field | {"default": answer.answers[name]})
    for n, name in enumerate(payload.get("editable") or ()):
        if answer.edits and name in answer.edits:
            found[f"edit-{n}"] = _as_json(answer.edits[name])
    return found


@dataclass(frozen=True, slots=True)
class Edit:
    """An argument that the reviewer may change, as JSON in a box."""

    id: str
    name: str
    value: str


def edits(payload: Mapping[str, Any], typed: Mapping[str, str]) -> list[Edit]:
    arguments: Json = payload.get("arguments")
    values = arguments if is_object(arguments) else {}
    return [
        Edit(f"edit-{n}", name, typed.get(f"edit-{n}", _as_json(values[name]) if name in values else ""))
        for n, name in enumerate(payload.get("editable") or ())
    ]


def edited(payload: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Json] | None:
    """Return the arguments that were changed; what was left as it stood, or empty, is not."""
    found: dict[str, Json] = {}
    for before, after in zip(edits(payload, {}), edits(payload, typed), strict=True):
        if after.value.strip() and after.value.strip() != before.value:
            try:
                found[after.name] = strict_loads(after.value.encode())
            except AssentError as error:
                raise InvalidRequest.at(
                    f"/edits/{pointer_step(after.name)}", "must be JSON; put text in quotes"
                ) from error
    return found or None


def _as_json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
