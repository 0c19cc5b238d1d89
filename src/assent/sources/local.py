"""Settings that the sources of this machine share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assent.domain.canonical import is_array
from assent.domain.errors import InvalidRequest
from assent.domain.trigger_events import Trust
from assent.sources.fields import Fields
from assent.sources.tools import SourceTools

HOST = "host"
"""The machine that watches; unless it is named, every node that has the path may."""
VERIFIED = "local"
MOST_TEXTS = 100
LONGEST = 1_000
MOST_SHOWN = 1_000
"""How many paths patterns and templates see."""
MOST_KEPT = 10_000
"""How many paths an event tells in full; the rest is counted."""


def fields(settings: Mapping[str, Any], tools: SourceTools, *, known: frozenset[str]) -> Fields:
    found = Fields(settings, tools, known=known | {HOST})
    found.text(HOST)
    return found


def trust(settings: Mapping[str, Any], default: Trust) -> Trust:
    """Return how far its events are trusted; that it is one of the choices has been checked."""
    return Trust(settings.get("trust", default))


def folder(found: Fields, tools: SourceTools) -> Path:
    """Return the path that is watched, which need not be there yet."""
    given = found.text("path")
    if given is None:
        raise InvalidRequest.at("/settings/path", "is required: a folder on this machine")
    try:
        return (tools.base / Path(given).expanduser()).absolute()
    except RuntimeError as error:  # the home of somebody who has none
        raise InvalidRequest.at("/settings/path", str(error)) from error


def texts(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value: object = settings.get(name, [])
    given = [value] if isinstance(value, str) else value
    if not is_array(given) or len(given) > MOST_TEXTS:
        raise InvalidRequest.at(f"/settings/{name}", f"must be a list of at most {MOST_TEXTS} strings")
    for place, each in enumerate(given):
        if not isinstance(each, str) or not each.strip() or len(each) > LONGEST or not each.isprintable():
            raise InvalidRequest.at(f"/settings/{name}/{place}", f"must be a string of 1 to {LONGEST} characters")
    return tuple(str(each) for each in given)
