"""The conversation in the terminal: only an explicit yes, with everything that it requires, is an approval."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from rich.padding import Padding
from rich.text import Text

from assent.core.canonical import MAX_INTEGER, Json, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson
from assent.core.terms import Answer, Terms, check_answers
from assent.sdk.local_terminal import Late, NoAnswer, Person
from assent.sdk.visible import visible

Read = TypeVar("Read")

YES = frozenset({"y", "Y", "yes", "Yes", "YES"})
NO = frozenset({"n", "N", "no", "No", "NO"})
ALWAYS = "always"
TRIES = 3
_MAX_COMMENT = 20_000
_BLANKS = " \t\r"


@dataclass(frozen=True, slots=True)
class Said:
    """The person's answer; `always` also asks for a rule."""

    answer: Answer
    always: bool = False


def talk(person: Person, terms: Terms, values: Mapping[str, Json], *, pattern: str | None) -> Said:
    """Ask for the decision and everything that it requires; anything but a complete yes is a rejection.

    `pattern` is the rule that "always" would add, if it may be offered. Raises Late when the deadline passes.
    """
    try:
        return _decided(person, terms, values, pattern)
    except Late:
        raise
    except NoAnswer as error:
        return _rejected(f"Not approved: {error}.")


def _decided(person: Person, terms: Terms, values: Mapping[str, Json], pattern: str | None) -> Said:
    always = False
    word = person.ask(f"Approve? [yes/NO{'' if pattern is None else f'/{ALWAYS}'}] ").strip(_BLANKS)
    if word == ALWAYS and pattern is not None:
        _tell(person, "This rule will approve matching requests without asking:")
        _quote(person, pattern)
        # Ask again after the rule is shown, because it approves future requests as well.
        word = person.ask("Approve and save this rule? [yes/NO] ").strip(_BLANKS)
        always = True
    if word not in YES:
        if word and word not in NO:
            _tell(person, 'Rejected because you did not answer "yes".')
        return _rejected(_comment(person, "Reason (optional): "))
    return _completed(person, terms, values, always=always)


def _completed(person: Person, terms: Terms, values: Mapping[str, Json], *, always: bool) -> Said:
    try:
        answer = Answer(
            approved=True,
            option=_option(person, terms.options),
            answers=_answers(person, terms.form),
            edits=_edits(person, terms.editable, values),
            comment=_comment(person, "Comment (optional): "),
            confirm=_confirmed(person, terms),
        )
        # The prompts only guide the input; the same check as on a server decides whether it is complete.
        terms.check(answer)
    except InvalidRequest as error:
        _tell(person, f"Not approved: {visible(error.message)}", style="red")
        return _rejected(f"Not approved: {error.message}")
    return Said(answer, always)


def _rejected(comment: str | None) -> Said:
    return Said(Answer(approved=False, comment=comment))


def _comment(person: Person, prompt: str) -> str | None:
    return person.ask(prompt).strip()[:_MAX_COMMENT] or None


def _option(person: Person, options: Sequence[str]) -> str | None:
    """Choose by number only, because a label can itself be a number."""
    if not options:
        return None
    _tell(person, "Options:")
    for n, each in enumerate(options, start=1):
        _quote(person, f"{n}  {each}")
    return _asked(person, f"Number [1-{len(options)}]: ", lambda text: options[_place(text, len(options))])


def _place(text: str, count: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= count):  # noqa: PLR2004
        raise InvalidRequest(f"Type a number from 1 to {count}.")
    return int(text) - 1


def _answers(person: Person, form: Mapping[str, Any] | None) -> dict[str, Json] | None:
    if form is None:
        return None
    found: dict[str, Json] = {}
    for name, field in form["properties"].items():
        value = _field(person, name, field, required=name in form.get("required", ()))
        if value is not None:
            found[name] = value
    return found


def _field(person: Person, name: str, field: Mapping[str, Any], *, required: bool) -> Json:
    _quote(person, str(field.get("title") or name))
    if field.get("description"):
        _quote(person, str(field["description"]), style="dim")
    choices: Sequence[Json] = field.get("enum") or ()
    for n, choice in enumerate(choices, start=1):
        _quote(person, f"{n}  {choice}")

    def read(text: str) -> Json:
        if not text:
            if required:
                raise InvalidRequest("An answer is required.")
            return None
        value = choices[_place(text, len(choices))] if choices else _typed(str(field["type"]), text)
        check_answers({"properties": {name: field}}, {name: value})
        return value

    kind = f"1-{len(choices)}" if choices else {"boolean": "yes/no"}.get(field["type"], field["type"])
    return _asked(person, f"Answer [{kind}{'' if required else ', optional'}]: ", read)


def _typed(kind: str, text: str) -> Json:
    if kind == "string":
        return text
    if kind == "boolean":
        if text not in YES | NO:
            raise InvalidRequest("Type yes or no.")
        return text in YES
    try:
        # Converting every number to float would lose digits of large integers.
        number: int | float = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or abs(number) > MAX_INTEGER or (kind == "integer" and isinstance(number, float)):
        raise InvalidRequest("Type a whole number." if kind == "integer" else "Type a number.")
    return number


def _edits(person: Person, editable: Sequence[str], values: Mapping[str, Json]) -> dict[str, Json] | None:
    found: dict[str, Json] = {}
    for name in editable:
        current = values.get(name)
        _quote(person, f"{name} is {json.dumps(current, ensure_ascii=False)}")
        found |= _asked(person, "New value (leave empty to keep the current value): ", partial(_edited, name, current))
    return found or None


def _edited(name: str, current: Json, text: str) -> dict[str, Json]:
    """Return the edit: text stays text, other values are JSON of the same type, and empty input changes nothing."""
    if not text:
        return {}
    if isinstance(current, str):
        return {name: text}
    try:
        value = strict_loads(text.encode())
    except MalformedJson as error:
        raise InvalidRequest("Type a JSON value such as 12, true or [1, 2].") from error
    # An unset value has no type to compare with.
    if current is not None and _kind(value) != _kind(current):
        raise InvalidRequest("Enter a value of the same type.")
    return {name: value}


def _kind(value: Json) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _confirmed(person: Person, terms: Terms) -> str | None:
    if terms.risk != "high":
        return None
    return person.ask(f"High risk. Type {visible(terms.gate)} to approve: ").strip(_BLANKS)


def _asked(person: Person, prompt: str, read: Callable[[str], Read]) -> Read:
    """Repeat the prompt until the line is valid; after a few attempts, raise the error."""
    for left in reversed(range(TRIES)):
        try:
            return read(person.ask(prompt).strip(_BLANKS))
        except InvalidRequest as error:
            _tell(person, visible(error.message.rpartition(": ")[2]), style="yellow")
            if not left:
                raise
    raise AssertionError


def _quote(person: Person, text: str, style: str = "") -> None:
    """Print text from others, indented even where it wraps, so that it cannot pass for our own output."""
    person.console.print(Padding(Text(visible(text), style=style), (0, 0, 0, 2)))


def _tell(person: Person, text: str, style: str = "") -> None:
    person.console.print(Text(text, style=style), soft_wrap=True)
