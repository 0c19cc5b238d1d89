"""Parsing of NAME=VALUE options."""

import json
from collections.abc import Sequence
from typing import Any

import typer

from assent.console import output


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse NAME=VALUE pairs; if a name is repeated, its last value is used."""
    taken: dict[str, str] = {}
    for pair in given or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            msg = f"{output.visible(pair)!r} is not in the form NAME=VALUE"
            raise typer.BadParameter(msg, param_hint=option)
        taken[name] = text
    return taken


def settings_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse the values of --set."""
    return {name: value(text) for name, text in pairs(given, "--set").items()}


def inputs_of(given: Sequence[str] | None) -> dict[str, Any]:
    """Parse the values of --input."""
    return {name: _as_written(text) for name, text in pairs(given, "--input").items()}


def value(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Parse JSON, or return the text if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_written(text: str) -> Any:  # noqa: ANN401  # any JSON
    """Keep a number as text if JSON would write it differently: 1.10 is a version, not 1.1."""
    read = value(text)
    return text if isinstance(read, int | float) and json.dumps(read) != text else read
