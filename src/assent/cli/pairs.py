"""NAME=VALUE on the command line."""

import json
from collections.abc import Sequence
from typing import Any

import typer

from assent.cli import output


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Take them apart; the last of two with one name counts."""
    taken: dict[str, str] = {}
    for pair in given or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            msg = f"{output.visible(pair)!r} is not in the form NAME=VALUE"
            raise typer.BadParameter(msg, param_hint=option)
        taken[name] = text
    return taken


def settings_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Read what --set was given."""
    return {name: value(text) for name, text in pairs(given, "--set").items()}


def inputs_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Read what --input was given."""
    return {name: _as_written(text) for name, text in pairs(given, "--input").items()}


def value(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Read JSON, and take everything else for a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_written(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Leave as text what JSON would write otherwise: 1.10 is a version, not 1.1."""
    read = value(text)
    return text if isinstance(read, int | float) and json.dumps(read) != text else read
