"""Routes in assent.yaml, in the API and in the database: parsing, validation and serialization."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeVar

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.durations import duration, whole_seconds
from assent.core.errors import InvalidRequest
from assent.core.patterns.pattern import parse
from assent.core.seats import OWNER
from assent.delivery.routes import EXPERTS, GROUP, PERSON, Escalation, Route, Timeout

MOST = 20
"""Maximum number of channels, recipients, reminders or escalations in one route."""
LONGEST = 366 * 86_400
LONGEST_NOTE = 500
CHANNEL_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}", re.ASCII)
CHANNEL_NAME_RULE = (
    "must start with a lowercase letter or a digit, and contain only lowercase letters, digits, dots, "
    "hyphens and underscores; at most 60 characters"
)
ENDINGS = ("expire", "reject")
_TARGET = re.compile(rf"{EXPERTS}|{OWNER}|(?:{PERSON}|{GROUP})\S.{{0,99}}")
_KEYS = frozenset({"pattern", "channels", "to", "fallback", "remind", "escalate", "timeout", "quiet", "note"})

Value = TypeVar("Value")


def read(body: Mapping[str, Json], *, route_id: str) -> Route:
    """Parse a route, or raise InvalidRequest with the location of the error."""
    _refuse_unknown(body, _KEYS, "")
    return Route(
        id=route_id,
        pattern=_text(body.get("pattern"), "/pattern", 4_000),
        channels=_list(body.get("channels"), "/channels", _channel, at_least=1),
        to=_list(body.get("to", [EXPERTS]), "/to", _target, at_least=1),
        fallback=_list(body.get("fallback", []), "/fallback", _channel),
        remind=_rising(_list(body.get("remind", []), "/remind", _length), "/remind"),
        escalate=_escalations(body.get("escalate")),
        timeout=_timeout(body.get("timeout")),
        quiet=_flag(body.get("quiet", True), "/quiet"),
        note=None if body.get("note") is None else _text(body["note"], "/note", LONGEST_NOTE),
    )


def checked(body: Mapping[str, Json], *, route_id: str) -> Route:
    """Parse a route that is about to be saved, and validate its pattern."""
    route = read(body, route_id=route_id)
    parse(route.pattern)
    return route


def written(route: Route) -> dict[str, Json]:
    """Return the route in the form that `read` accepts, omitting fields that have their default value."""
    body: dict[str, Json] = {"pattern": route.pattern, "channels": list(route.channels), "to": list(route.to)}
    more: dict[str, tuple[Json, bool]] = {
        "fallback": (list(route.fallback), bool(route.fallback)),
        "remind": ([duration(each) for each in route.remind], bool(route.remind)),
        "escalate": ([_level(each) for each in route.escalate], bool(route.escalate)),
        "timeout": (_end(route.timeout), route.timeout is not None),
        "quiet": (route.quiet, not route.quiet),
        "note": (route.note, route.note is not None),
    }
    return body | {name: value for name, (value, told) in more.items() if told}


def _level(level: Escalation) -> dict[str, Json]:
    body: dict[str, Json] = {"after": duration(level.after), "to": list(level.to)}
    return body | ({"channels": list(level.channels)} if level.channels else {})


def _end(timeout: Timeout | None) -> Json:
    return None if timeout is None else {"after": duration(timeout.after), "then": timeout.then}


def _escalations(given: Json) -> tuple[Escalation, ...]:
    """Parse the escalations; a single one does not have to be in a list."""
    if given is None:
        return ()
    listed: Json = [given] if is_object(given) else given
    levels = _list(listed, "/escalate", _escalation)
    _rising(tuple(each.after for each in levels), "/escalate", "/after")
    return levels


def _escalation(given: Json, pointer: str) -> Escalation:
    body = _mapping(given, pointer, frozenset({"after", "to", "channels"}))
    return Escalation(
        after=_length(body.get("after"), f"{pointer}/after"),
        to=_list(body.get("to"), f"{pointer}/to", _target, at_least=1),
        channels=_list(body.get("channels", []), f"{pointer}/channels", _channel),
    )


def _timeout(given: Json) -> Timeout | None:
    if given is None:
        return None
    body = _mapping(given, "/timeout", frozenset({"after", "then"}))
    if body.get("then") not in ENDINGS:
        raise InvalidRequest.at("/timeout/then", f"must be {' or '.join(ENDINGS)}; a timeout never approves")
    return Timeout(_length(body.get("after"), "/timeout/after"), str(body["then"]))


def _mapping(given: Json, pointer: str, known: frozenset[str]) -> Mapping[str, Json]:
    if not is_object(given):
        raise InvalidRequest.at(pointer, f"must be an object with {', '.join(sorted(known))}")
    _refuse_unknown(given, known, pointer)
    return given


def _refuse_unknown(body: Mapping[str, Json], known: frozenset[str], pointer: str) -> None:
    for name in body:
        if name not in known:
            what = f"is not a known field. Use one of {', '.join(sorted(known))}"
            raise InvalidRequest.at(f"{pointer}/{pointer_step(name)}", what)


def _list(given: Json, pointer: str, of: Callable[[Json, str], Value], *, at_least: int = 0) -> tuple[Value, ...]:
    """Parse a list; a bare string is accepted as a one-item list."""
    listed: Json = [given] if isinstance(given, str) else given
    if not is_array(listed) or not at_least <= len(listed) <= MOST:
        raise InvalidRequest.at(pointer, f"must be a list of {at_least} to {MOST} items")
    read_ = tuple(of(each, f"{pointer}/{n}") for n, each in enumerate(listed))
    for n, each in enumerate(read_):
        # Comparing parsed values also finds duplicates such as 1h and 60m.
        if each in read_[:n]:
            raise InvalidRequest.at(f"{pointer}/{n}", "is listed twice")
    return read_


def _text(given: Json, pointer: str, longest: int) -> str:
    if not isinstance(given, str) or not 1 <= len(given.strip()) <= longest:
        raise InvalidRequest.at(pointer, f"must be text of 1 to {longest:,} characters")
    return given.strip()


def _flag(given: Json, pointer: str) -> bool:
    if not isinstance(given, bool):
        raise InvalidRequest.at(pointer, "must be true or false")
    return given


def _channel(given: Json, pointer: str) -> str:
    if not isinstance(given, str) or CHANNEL_NAME.fullmatch(given) is None:
        raise InvalidRequest.at(pointer, f"a channel's name {CHANNEL_NAME_RULE}")
    return given


def _target(given: Json, pointer: str) -> str:
    if not isinstance(given, str) or _TARGET.fullmatch(given) is None:
        raise InvalidRequest.at(pointer, "must be experts, owner, group:NAME or person:NAME")
    return given


def _length(given: Json, pointer: str) -> int:
    try:
        length = whole_seconds(given if isinstance(given, str) else "")
    except ValueError as error:
        raise InvalidRequest.at(pointer, str(error)) from error
    if not 1 <= length <= LONGEST:
        raise InvalidRequest.at(pointer, f"must be between 1s and {duration(LONGEST)}")
    return length


def _rising(lengths: tuple[int, ...], pointer: str, below: str = "") -> tuple[int, ...]:
    for n, (before, after) in enumerate(pairwise(lengths), start=1):
        if after <= before:
            raise InvalidRequest.at(
                f"{pointer}/{n}{below}", f"must be later than the previous step at {duration(before)}"
            )
    return lengths
