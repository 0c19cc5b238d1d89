"""The terms for answers to a breakpoint: options, form, edits and confirmation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.errors import ConfirmationRequired, InvalidRequest

MAX_FIELDS = 50
MAX_TEXT = 20_000
_FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
_FIELD_KEYWORDS = frozenset(
    {
        "type", "title", "description", "default", "enum", "format", "minLength", "maxLength", "minimum", "maximum",
        "examples",
    }
)  # fmt: skip
_FORM_KEYWORDS = frozenset(
    {"type", "title", "description", "properties", "required", "additionalProperties", "$schema"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reviewer's answer as received, before it is checked against the terms."""

    approved: bool
    comment: str | None = None
    option: str | None = None
    answers: Mapping[str, Json] | None = None
    edits: Mapping[str, Json] | None = None
    confirm: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    gate: str
    risk: str | None
    options: tuple[str, ...]
    form: Mapping[str, Json] | None
    editable: tuple[str, ...]

    @classmethod
    def of(cls, gate: str, payload: Mapping[str, Any]) -> "Terms":
        return cls(
            gate=gate,
            risk=payload.get("risk"),
            options=tuple(payload.get("options") or ()),
            form=payload.get("form"),
            editable=tuple(payload.get("editable") or ()),
        )

    @property
    def plain(self) -> bool:
        """Whether an approval is complete without an option or form answers, which only a person can give."""
        fields: Json = self.form.get("required") if self.form else None
        return not self.options and not fields

    def check(self, answer: Answer) -> None:
        """Raise an error unless the answer is valid and complete."""
        if answer.option is not None and answer.option not in self.options:
            known = f"must be one of {', '.join(self.options)}"
            problem = known if self.options else "must be omitted: this breakpoint does not have options"
            raise InvalidRequest.at("/option", problem)
        if answer.answers is not None:
            if self.form is None:
                raise InvalidRequest.at("/answers", "must be omitted: this breakpoint does not have a form")
            check_answers(self.form, answer.answers)
        for name in answer.edits or ():
            if name not in self.editable:
                raise InvalidRequest.at(f"/edits/{pointer_step(name)}", "cannot be edited")
        # A rejection does not require an option, form answers or a confirmation.
        if answer.approved:
            self._check_approval(answer)

    def _check_approval(self, answer: Answer) -> None:
        if self.options and answer.option is None:
            raise InvalidRequest.at("/option", f"must be one of {', '.join(self.options)} to approve")
        if self.form is not None and answer.answers is None:
            check_answers(self.form, {})
        if self.risk == "high" and answer.confirm != self.gate:
            msg = f"This breakpoint is high risk. To approve it, set confirm to the gate name, {self.gate!r}."
            raise ConfirmationRequired(msg, confirm=self.gate)


def reason(comment: str | None, problem: str = "is required when rejecting; it is sent to the agent") -> str:
    """Return the reason for a rejection, or raise InvalidRequest if it is empty."""
    said = (comment or "").strip()
    if not said:
        raise InvalidRequest.at("/comment", problem)
    return said


def check_form(form: Mapping[str, Json]) -> None:
    """Raise InvalidRequest unless the form is a flat JSON Schema that Assent can display and validate."""
    _refuse_unknown("/payload/form", form, _FORM_KEYWORDS)
    properties: dict[str, Json] | None = form.get("properties")
    if form.get("type", "object") != "object" or not isinstance(properties, dict) or not properties:
        raise InvalidRequest.at("/payload/form", "must be a JSON Schema of type object with properties")
    if len(properties) > MAX_FIELDS:
        raise InvalidRequest.at("/payload/form/properties", f"has more than {MAX_FIELDS} fields")
    for name, field in properties.items():
        _check_field(f"/payload/form/properties/{pointer_step(name)}", field)
    required: list[Json] | None = form.get("required", [])
    # Compare with a tuple, because an element of an invalid list may not be hashable.
    if not isinstance(required, list) or any(name not in tuple(properties) for name in required):
        raise InvalidRequest.at("/payload/form/required", "must list property names")


def _check_field(pointer: str, given: Json) -> None:
    field = given if is_object(given) else {}
    if field.get("type") not in tuple(_FIELD_TYPES):
        raise InvalidRequest.at(
            pointer, f"must have one of these types: {', '.join(_FIELD_TYPES)} (nested fields are not supported)"
        )
    _refuse_unknown(pointer, field, _FIELD_KEYWORDS)
    for keyword in ("minLength", "maxLength", "minimum", "maximum"):
        if keyword in field and not _is(field[keyword], "number"):
            raise InvalidRequest.at(f"{pointer}/{keyword}", "must be a number")
    choices: Json = field.get("enum", ())
    if "enum" in field and (not is_array(choices) or not choices):
        raise InvalidRequest.at(f"{pointer}/enum", "must be a list of values")
    for choice in choices:
        if not _is(choice, field["type"]):
            raise InvalidRequest.at(f"{pointer}/enum", f"must contain values of type {field['type']}")


def _refuse_unknown(pointer: str, schema: Mapping[str, Json], known: frozenset[str]) -> None:
    unknown = sorted(set(schema) - known)
    if unknown:
        raise InvalidRequest.at(pointer, f"uses {', '.join(unknown)}, which forms do not support")


def answer_place(name: str) -> str:
    """Return the JSON pointer to the answer for a form field."""
    return f"/answers/{pointer_step(name)}"


def check_answers(form: Mapping[str, Json], answers: Mapping[str, Json]) -> None:
    properties: Mapping[str, Mapping[str, Json]] = form["properties"]
    for name in form.get("required", ()):
        if name not in answers:
            raise InvalidRequest.at(answer_place(name), "is required")
    for name, value in answers.items():
        if name not in properties:
            raise InvalidRequest.at(answer_place(name), "is not a field of the form")
        _check_value(answer_place(name), properties[name], value)


def _check_value(pointer: str, field: Mapping[str, Json], value: Json) -> None:
    if not _is(value, field["type"]):
        raise InvalidRequest.at(pointer, f"must be of type {field['type']}")
    if "enum" in field and value not in field["enum"]:
        raise InvalidRequest.at(pointer, f"must be one of {', '.join(map(str, field['enum']))}")
    size = len(value) if isinstance(value, str) else value
    low = field.get("minLength") if isinstance(value, str) else field.get("minimum")
    high = field.get("maxLength", MAX_TEXT) if isinstance(value, str) else field.get("maximum")
    unit = " characters" if isinstance(value, str) else ""
    if low is not None and size < low:
        raise InvalidRequest.at(pointer, f"must be at least {low}{unit}")
    if high is not None and size > high:
        raise InvalidRequest.at(pointer, f"must be at most {high}{unit}")


def _is(value: Json, kind: str) -> bool:
    # In Python, bool is a subclass of int, but true is not a valid number in a form.
    return isinstance(value, _FIELD_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
