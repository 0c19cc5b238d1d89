"""Builds Slack's modal forms for answers, and parses submitted ones.

Inputs are identified by position, so that no ID contains text from an agent.
"""

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from assent.core.breakpoint import Breakpoint
from assent.core.canonical import MAX_INTEGER, Json, is_array, is_object
from assent.core.errors import InvalidRequest
from assent.core.safe_text import visible
from assent.core.terms import Answer, answer_place, reason
from assent.delivery.channels.slack.api import as_object
from assent.delivery.channels.slack.text import DIGEST, ITEM, Block, fits, plain, section, sections, told
from assent.delivery.channels.wording import CONTENT_HASH, short_hash

APPROVING, REJECTING = "assent_approving", "assent_rejecting"
COMMENT, OPTION, VALUE = "comment", "option", "value"

_MOST_CHOICES, _LONGEST_CHOICE = 100, 75
_MOST_RADIO = 10
_LONGEST_INPUT, _SHORT_INPUT = 3000, 200
_MOST_FIELDS = 50
_MOST_GIVEN_BACK = 80
"""Maximum number of sections for returned text: Slack allows 100 blocks and 250 KB per view."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,16}")
_YES, _NO = "yes", "no"


def fillable(asked: Breakpoint) -> bool:
    """Return whether Slack can show, without truncation, everything that an approval requires."""
    options = asked.payload.get("options") or ()
    fields = _fields(asked)
    return _selectable(options) and len(fields) <= _MOST_FIELDS and all(_field_fits(field) for field in fields.values())


def modal(asked: Breakpoint, delivery_id: str, *, approve: bool) -> dict[str, Any]:
    """Return the view to open; it contains the delivery's ID and the digest of the content it shows."""
    verb = "Approve" if approve else "Reject"
    question = asked.payload.get("question")
    blocks: list[Block] = [section(question if isinstance(question, str) and question else asked.title or asked.gate)]
    if approve:
        blocks += _option(asked)
        blocks += [_input(n, name, field, asked) for n, (name, field) in enumerate(_fields(asked).items())]
    blocks.append(_comment(approve=approve))
    shown = plain(f"{CONTENT_HASH}: {short_hash(asked)}", 100)
    blocks.append({"type": "context", "block_id": DIGEST + asked.digest, "elements": [shown]})
    return {
        "type": "modal",
        "callback_id": APPROVING if approve else REJECTING,
        "private_metadata": delivery_id,
        "title": plain(verb, 24),
        "submit": plain(verb, 24),
        "close": plain("Cancel", 24),
        "blocks": blocks,
    }


def notice(text: str, base_url: str, *, typed: str = "") -> dict[str, Any]:
    """Return the view that shows the result of a submitted form, with the sender's text if it was not accepted."""
    blocks = told(text, base_url) + (sections(f"You wrote: {typed}", most=_MOST_GIVEN_BACK) if typed else [])
    return {"type": "modal", "title": plain("Assent", 24), "close": plain("Close", 24), "blocks": blocks}


def typed(asked: Breakpoint | None, values: Mapping[str, Any]) -> str:
    """Return all submitted values as text; if the sender may not see the breakpoint, number its fields."""
    comment = _typed(values, COMMENT)
    fields = list(_fields(asked).items()) if asked is not None else []
    labels = {f"field-{n}": _label(name, field) for n, (name, field) in enumerate(fields)}
    numbered = [(f"field-{n}", f"Field {n + 1}") for n in range(_MOST_FIELDS)]
    places = [(OPTION, "Option"), *((place, labels.get(place, label)) for place, label in numbered)]
    lines = [f"{label}: {said}" for place, label in places if (said := _picked(values, place))]
    if not lines:
        return comment
    return "\n".join([*lines, *([f"Comment: {comment}"] if comment else [])])


def filled(asked: Breakpoint, values: Mapping[str, Any], *, approve: bool, digest: str) -> Answer:
    """Return the submitted answer, converted to the types that the form requires and without empty fields."""
    comment = _typed(values, COMMENT)
    if not approve:
        return Answer(approved=False, comment=reason(comment), digest=digest)
    options: Sequence[str] = asked.payload.get("options") or ()
    chosen = _typed(values, OPTION)
    answers = {
        name: _value(answer_place(name), field, typed)
        for n, (name, field) in enumerate(_fields(asked).items())
        if (typed := _typed(values, f"field-{n}"))
    }
    return Answer(
        approved=True,
        comment=comment or None,
        option=_choice("/option", options, chosen) if chosen else None,
        answers=answers if asked.payload.get("form") else None,
        digest=digest,
    )


def errors(asked: Breakpoint | None, problems: Mapping[str, str]) -> dict[str, str]:
    """Return the problems by input; problems without an input are shown at the comment, which every form has."""
    places = {"/option": OPTION, "/comment": COMMENT}
    if asked is not None:
        places |= {answer_place(name): f"field-{n}" for n, name in enumerate(_fields(asked))}
    found: dict[str, str] = {}
    for pointer, problem in problems.items():
        place = places.get(pointer, COMMENT)
        found[place] = f"{found[place]} {problem}" if place in found else problem
    return found


def shown_digest(blocks: Json) -> str | None:
    """Return the digest of the content that the blocks show, or None."""
    ids: list[Json] = [each.get("block_id") for each in blocks if is_object(each)] if is_array(blocks) else []
    return next((found for each in ids if (found := digest_in(each)) is not None), None)


def digest_in(block_id: Json) -> str | None:
    """Return the digest in a block's ID, without the item number, or None."""
    if not isinstance(block_id, str) or not block_id.startswith(DIGEST):
        return None
    return block_id.removeprefix(DIGEST).partition(ITEM)[0]


def _fields(asked: Breakpoint) -> Mapping[str, Mapping[str, Any]]:
    form: Mapping[str, Any] = asked.payload.get("form") or {}
    return form.get("properties") or {}


def _selectable(choices: Sequence[Json]) -> bool:
    return len(choices) <= _MOST_CHOICES and all(fits(_shown(each), _LONGEST_CHOICE) for each in choices)


def _field_fits(field: Mapping[str, Any]) -> bool:
    if "enum" in field:
        return _selectable(field["enum"])
    return not isinstance(field.get("minLength"), (int, float)) or field["minLength"] <= _LONGEST_INPUT


def _option(asked: Breakpoint) -> list[Block]:
    options: Sequence[str] = asked.payload.get("options") or ()
    if not options:
        return []
    return [_block(OPTION, "Option", _select(options), optional=False)]


def _input(n: int, name: str, field: Mapping[str, Any], asked: Breakpoint) -> Block:
    form: Mapping[str, Any] = asked.payload.get("form") or {}
    required: Sequence[str] = form.get("required") or ()
    hint = field.get("description")
    block = _block(f"field-{n}", _label(name, field), _element(field), optional=name not in required)
    return block | ({"hint": plain(hint, 1900)} if isinstance(hint, str) and hint else {})


def _label(name: str, field: Mapping[str, Any]) -> str:
    title = field.get("title")
    return title if isinstance(title, str) and title else name


def _comment(*, approve: bool) -> Block:
    element = {"type": "plain_text_input", "action_id": VALUE, "multiline": True, "max_length": _LONGEST_INPUT}
    return _block(COMMENT, "Comment" if approve else "Reason", element, optional=approve)


def _block(block_id: str, label: str, element: Block, *, optional: bool) -> Block:
    return {
        "type": "input",
        "block_id": block_id,
        "label": plain(label, 1900),
        "element": element,
        "optional": optional,
    }


def _element(field: Mapping[str, Any]) -> Block:
    if "enum" in field:
        return _select(field["enum"], field.get("default"))
    if field["type"] == "boolean":
        return _select((True, False), field.get("default"))
    if field["type"] == "string":
        return _text(field)
    element: Block = {
        "type": "number_input",
        "action_id": VALUE,
        "is_decimal_allowed": field["type"] == "number",
    }
    limits = {
        "min_value": _limit(field, "minimum", math.ceil),
        "max_value": _limit(field, "maximum", math.floor),
        "initial_value": _limit(field, "default", math.floor),
    }
    return element | {name: value for name, value in limits.items() if value is not None}


def _limit(field: Mapping[str, Any], keyword: str, whole: Callable[[float], int]) -> str | None:
    value = field.get(keyword)
    if not _is_number(value) or not math.isfinite(value):
        return None
    spelt = str(whole(value) if field["type"] == "integer" else value)
    # Leave out a limit that Python would write in exponential notation; the answer is validated again anyway.
    return None if "e" in spelt else spelt


def _text(field: Mapping[str, Any]) -> Block:
    longest, shortest = field.get("maxLength"), field.get("minLength")
    most = min(int(longest), _LONGEST_INPUT) if _is_number(longest) and longest >= 1 else _LONGEST_INPUT
    element: Block = {
        "type": "plain_text_input",
        "action_id": VALUE,
        "multiline": most > _SHORT_INPUT,
        "max_length": most,
    }
    if _is_number(shortest) and 0 < shortest <= most:
        element["min_length"] = math.ceil(shortest)
    default = field.get("default")
    # People must not submit a default that they could not see in full.
    if isinstance(default, str) and default and len(default) <= most and visible(default) == default:
        element["initial_value"] = default
    return element


def _select(choices: Sequence[Json], default: Json = None) -> Block:
    # The value is the position, so that it does not contain text from an agent.
    options = [{"text": plain(_shown(each), _LONGEST_CHOICE), "value": str(n)} for n, each in enumerate(choices)]
    kind = "radio_buttons" if len(options) <= _MOST_RADIO else "static_select"
    element: Block = {"type": kind, "action_id": VALUE, "options": options}
    if default is not None and default in choices:
        element["initial_option"] = options[list(choices).index(default)]
    return element


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return _YES if value else _NO
    return str(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _typed(values: Mapping[str, Any], block_id: str) -> str:
    """Return the text of an input, or the number of a choice; an empty string if it was not filled in."""
    state = as_object(as_object(values.get(block_id)).get(VALUE))
    found: Json = (as_object(state.get("selected_option")) or state).get("value")
    return found if isinstance(found, str) else ""


def _picked(values: Mapping[str, Any], block_id: str) -> str:
    """Return the text of an input, or the label of a choice."""
    option = as_object(as_object(as_object(values.get(block_id)).get(VALUE)).get("selected_option"))
    shown: Json = as_object(option.get("text")).get("text")
    return html.unescape(shown) if isinstance(shown, str) and shown else _typed(values, block_id)


def _value(pointer: str, field: Mapping[str, Any], typed: str) -> Json:
    if "enum" in field:
        return _choice(pointer, field["enum"], typed)
    if field["type"] == "boolean":
        return _choice(pointer, (True, False), typed)
    return typed if field["type"] == "string" else _number(pointer, field["type"], typed.strip())


def _choice(pointer: str, choices: Sequence[Json], typed: str) -> Json:
    if not (typed.isascii() and typed.isdigit() and len(typed) < 4 and int(typed) < len(choices)):  # noqa: PLR2004
        raise InvalidRequest.at(pointer, "choose one of the options")
    return choices[int(typed)]


def _number(pointer: str, kind: str, typed: str) -> Json:
    number = int(typed) if _INTEGER.fullmatch(typed) else _fraction(typed)
    if isinstance(number, float) and (kind == "integer" or not math.isfinite(number)):
        raise InvalidRequest.at(pointer, "must be a whole number" if kind == "integer" else "must be a number")
    if abs(number) > MAX_INTEGER:
        raise InvalidRequest.at(pointer, "is too large")
    return number


def _fraction(typed: str) -> float:
    try:
        return float(typed)
    except ValueError:
        return math.nan
