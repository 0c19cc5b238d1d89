"""Settings shared by all local sources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assent.core.canonical import is_array
from assent.core.errors import InvalidRequest
from assent.triggers.event import Trust
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.tools import SourceTools

HOST = "host"
"""The setting for the host that watches. By default, any node that has the path can watch it."""
VERIFIED = "local"
MOST_TEXTS = 100
LONGEST = 1_000
MOST_SHOWN = 1_000
"""Maximum number of paths that patterns and templates can use."""
MOST_KEPT = 10_000
"""Maximum number of paths in an event; additional paths are only counted."""


def fields(settings: Mapping[str, Any], tools: SourceTools, *, known: frozenset[str]) -> Fields:
    found = Fields(settings, tools, known=known | {HOST})
    found.text(HOST)
    return found


def trust(settings: Mapping[str, Any], default: Trust) -> Trust:
    """Return the trust setting, which has already been validated."""
    return Trust(settings.get("trust", default))


def folder(found: Fields, tools: SourceTools) -> Path:
    """Return the path to watch, which may not exist yet."""
    given = found.text("path")
    if given is None:
        raise InvalidRequest.at("/settings/path", "is required: a folder on this machine")
    try:
        return (tools.base / Path(given).expanduser()).absolute()
    except RuntimeError as error:  # ~ cannot be expanded if the user has no home directory
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
