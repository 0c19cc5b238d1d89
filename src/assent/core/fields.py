"""The fields of a breakpoint that agents can set, declared once for the API, SDK, CLI, MCP tools and docs."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from typing import Any

from assent.core.errors import InvalidRequest

MAX_SUGGESTIONS = 3
MIN_NEAR_MISS = 5
"""Minimum length of keys that cause a warning. Shorter ones are too similar to ordinary words such as `from`."""
_SIMILAR = 0.6
_CLOSE_TO_BEST = 0.2


class Place(StrEnum):
    """Where a field is sent."""

    BODY = "body"
    PAYLOAD = "payload"
    CLIENT = "client"
    """Used only by the SDK, and not sent to the server."""


class Door(StrEnum):
    """An interface that accepts some of the fields; `create` and `breakpoint` accept all of them."""

    APPROVE = "@approve"
    TOOLS = "terms"
    """The `terms` argument of the framework integrations."""
    CLI = "CLI"
    MCP = "MCP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field with its names in the SDK and in JSON, its type as documented, and its help text."""

    name: str
    wire: str
    place: Place
    kind: str
    help: str
    choices: tuple[str, ...] = ()
    doors: frozenset[Door] = frozenset()


def _field(
    name: str,
    kind: str,
    text: str,
    *doors: Door,
    place: Place = Place.PAYLOAD,
    choices: tuple[str, ...] = (),
) -> Field:
    first, *rest = name.split("_")
    wire = first + "".join(word.capitalize() for word in rest)
    return Field(name=name, wire=wire, place=place, kind=kind, help=text, choices=choices, doors=frozenset(doors))


_EVERYWHERE = (Door.APPROVE, Door.TOOLS, Door.CLI, Door.MCP)
RISKS = ("low", "medium", "high")
STRATEGIES = ("single", "first-response-wins", "collect-all", "quorum")
TIMEOUT_ACTIONS = ("expire", "reject")
PRIORITIES = ("low", "normal", "high", "urgent")

FIELDS: tuple[Field, ...] = (
    _field("question", "str", "Question for the reviewers, in complete sentences", Door.CLI, Door.MCP),
    _field("agent_id", "str", "ID of the requesting agent", Door.APPROVE, Door.TOOLS, Door.CLI, place=Place.BODY),
    _field(
        "run_id",
        "str",
        "ID of the run that the breakpoint belongs to",
        Door.APPROVE,
        Door.CLI,
        Door.MCP,
        place=Place.BODY,
    ),
    _field("title", "str", "Short title", Door.APPROVE, Door.CLI, Door.MCP, place=Place.BODY),
    _field("tags", "list[str]", "Tags that rules and reviewers can filter by", *_EVERYWHERE, place=Place.BODY),
    _field("ttl_seconds", "int", "Number of seconds until the deadline", *_EVERYWHERE, place=Place.BODY),
    _field(
        "on_timeout",
        "str",
        "Outcome if no decision is made by the deadline (never an approval)",
        *_EVERYWHERE,
        place=Place.BODY,
        choices=TIMEOUT_ACTIONS,
    ),
    _field("priority", "str", "Priority", Door.APPROVE, Door.TOOLS, place=Place.BODY, choices=PRIORITIES),
    _field("callback_url", "str", "URL to which the server sends the decision", place=Place.BODY),
    _field(
        "breakpoint_id",
        "str",
        "Gate: a stable name for this kind of question, such as deploy.production",
        Door.APPROVE,
        Door.CLI,
        Door.MCP,
    ),
    _field("expert", "str or list[str]", "People or groups to ask (default: any reviewer)", *_EVERYWHERE),
    _field(
        "strategy", "str", "Strategy that determines how answers become a decision", *_EVERYWHERE, choices=STRATEGIES
    ),
    _field("options", "list[str]", "Options that reviewers can choose from when approving", Door.CLI, Door.MCP),
    _field("form", "dict", "Form for reviewers to fill in, as a flat JSON Schema"),
    _field(
        "risk",
        "str",
        "Risk level; to approve high risk, reviewers must type the gate name",
        *_EVERYWHERE,
        choices=RISKS,
    ),
    _field(
        "hard_stop",
        "bool",
        "Exclude the breakpoint from auto-approval and bulk approval",
        Door.APPROVE,
        Door.TOOLS,
        Door.CLI,
        Door.MCP,
    ),
    _field("editable", "list[str]", "Names of the values that reviewers can change", Door.APPROVE, Door.MCP),
    _field("consumer", "str", "ID of another agent that may use the receipt, or a pattern for such IDs"),
    _field("attempt", "int", "Number of the agent's current attempt"),
    _field("previous_feedback", "str", "Feedback that the agent received on its previous attempt"),
    _field(
        "auto_approve_after_n",
        "int",
        "Number of consecutive human approvals after which breakpoints are auto-approved",
        Door.APPROVE,
        Door.TOOLS,
    ),
    _field("present_always_approve", "bool", "Whether to offer reviewers the “Always approve” button"),
    _field("context", "dict", "Additional context; it can contain runId and files to show"),
    _field(
        "payload",
        "dict",
        "JSON object with payload fields and any other content to show",
        Door.CLI,
        Door.MCP,
        place=Place.CLIENT,
    ),
    _field("extra", "dict", "Any other content to show; it must not use names of known fields", place=Place.CLIENT),
)
BY_NAME: Mapping[str, Field] = {each.name: each for each in FIELDS}
BY_WIRE: Mapping[str, Field] = {each.wire: each for each in FIELDS}
PAYLOAD_FIELDS = frozenset({"title", "tags", *(each.wire for each in FIELDS if each.place is Place.PAYLOAD)})
BODY_FIELDS = frozenset(each.wire for each in FIELDS if each.place is Place.BODY)
CONTEXT_FIELDS = frozenset({"runId", "files"})
CRITICAL_FIELDS = frozenset(
    {"question", "hardStop", "risk", "expert", "strategy", "autoApproveAfterN", "breakpointId", "ttlSeconds"}
)
"""Fields whose misspellings are rejected, because a misspelling would silently weaken the check."""
OTHER_WORDS: Mapping[str, str] = {
    "gate": "breakpoint_id",
    "deadline": "ttl_seconds",
    "reviewer": "expert",
    "approver": "expert",
    "severity": "risk",
    "metadata": "extra",
    "data": "extra",
    "choice": "options",
}


def names_for(door: Door) -> frozenset[str]:
    """Return the names of the fields that an interface accepts."""
    return frozenset(each.name for each in FIELDS if door in each.doors)


def folded(name: str) -> str:
    """Normalize a name for comparison: ignore case, punctuation, invisible characters and a final s."""
    letters = "".join(char for char in unicodedata.normalize("NFKC", name).casefold() if char.isalnum())
    return letters[:-1] if letters.endswith("s") and len(letters) > 1 else letters


def suggestions(given: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most similar to the given one, best match first."""
    scores = {name: _likeness(given, name) for name in known}
    best = max(scores.values(), default=0.0)
    if best < _SIMILAR:
        return []
    close = sorted((-score, name) for name, score in scores.items() if score >= max(_SIMILAR, best - _CLOSE_TO_BEST))
    if best == 1.0:  # do not suggest other names in addition to an exact match
        close = [each for each in close if each[0] == -1.0]
    return [name for _, name in close[:MAX_SUGGESTIONS]]


def _likeness(given: str, name: str) -> float:
    mine, its = folded(given), folded(name)
    if mine == its or OTHER_WORDS.get(mine) == name:
        return 1.0
    similar = SequenceMatcher(None, mine, its).ratio()
    starts = bool(mine) and (its.startswith(mine) or mine.startswith(its))
    return max(similar, 0.9) if starts or _one_slip(mine, its) else similar


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests similar names, or an empty string if there are none."""
    found = [repr(name) for name in suggestions(given, known)]
    if not found:
        return ""
    return f"Did you mean {', '.join(found[:-1])} or {found[-1]}?" if len(found) > 1 else f"Did you mean {found[0]}?"


def check_choices(given: Mapping[str, Any]) -> None:
    """Reject a value that is not among a field's choices, such as risk="HIGH"."""
    for name, value in given.items():
        field = BY_NAME.get(name)
        if field is None or not field.choices or value in field.choices:
            continue
        *most, last = field.choices
        shown = repr(value)[:100]
        hint = did_you_mean(value, field.choices) if isinstance(value, str) else ""
        raise InvalidRequest(f"{name} must be {', '.join(most)} or {last}, not {shown}. {hint}".rstrip())


_FOLDED_CRITICAL = {folded(name): name for name in CRITICAL_FIELDS}
_KNOWN = PAYLOAD_FIELDS | BODY_FIELDS


def misspelled(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Reject misspellings of critical fields, and return warnings about other keys that are similar to fields."""
    warnings = _misspelled(payload, "/payload", PAYLOAD_FIELDS)
    context: object = payload.get("context")
    if isinstance(context, Mapping):
        warnings += _misspelled(context, "/payload/context", CONTEXT_FIELDS)  # pyright: ignore[reportUnknownArgumentType]  # JSON
    return tuple(warnings)


def _misspelled(found: Mapping[str, Any], where: str, fields: frozenset[str]) -> list[str]:
    warnings: list[str] = []
    for key in found:
        if key in fields:
            continue
        if (meant := _FOLDED_CRITICAL.get(folded(key))) is not None:
            _refuse_or_warn(key, meant, where, warnings)
        elif (near := _near_miss(key, fields)) is not None:
            warnings.append(f"{where}/{key[:100]} is not a field and has no effect. Did you mean {near!r}?")
    return warnings


def _refuse_or_warn(key: str, meant: str, where: str, warnings: list[str]) -> None:
    if meant == "ttlSeconds":
        raise InvalidRequest.at(
            f"{where}/{key}", "has no effect here. Set 'ttlSeconds' at the top level, next to payload."
        )
    # The name is correct, but the field belongs in the payload and not in its context.
    if key == meant:
        warnings.append(f"{where}/{key} has no effect here. Set {meant!r} in the payload.")
        return
    raise InvalidRequest.at(f"{where}/{key[:100]}", f"is not a field. Did you mean {meant!r}?")


@lru_cache(maxsize=4096)
def _near_miss(key: str, fields: frozenset[str]) -> str | None:
    """Return the field that a key misspells with different case or punctuation, or with a single typo."""
    # A key this long cannot be a near miss, so skip the normalization and comparison.
    if len(key) > 2 * max(map(len, _KNOWN)):
        return None
    mine = folded(key)
    for name in sorted(fields):
        its = folded(name)
        if mine == its or (min(len(mine), len(its)) >= MIN_NEAR_MISS and _one_slip(mine, its)):
            return name
    return None


def _one_slip(one: str, other: str) -> bool:
    """Return whether two adjacent letters are swapped, or one letter is missing from either name."""
    if len(one) == len(other):
        differ = [n for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        swapped = len(differ) == 2 and differ[1] == differ[0] + 1  # noqa: PLR2004  # two adjacent letters
        return swapped and one[differ[0]] == other[differ[1]] and one[differ[1]] == other[differ[0]]
    short, long = sorted((one, other), key=len)
    return len(long) - len(short) == 1 and any(long[:n] + long[n + 1 :] == short for n in range(len(long)))


def refuse_unknown_fields(given: Sequence[str], known: Iterable[str], *, where: str) -> None:
    """Reject unknown keys of a breakpoint that is passed as a single object."""
    names = sorted(known)
    for key in given:
        if key not in names:
            hint = did_you_mean(key, names)
            raise InvalidRequest.at(f"{where}/{key[:100]}", f"is not a field. {hint}".rstrip())
