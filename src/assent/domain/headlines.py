"""The headline of a tool call: what would be done, in one line."""

import posixpath
from collections.abc import Mapping

from assent.domain.canonical import Json

LONGEST_HEADLINE = 500
_COMMANDS = ("command", "cmd", "script", "url")
_FILES = ("file_path", "notebook_path", "path", "filename")


def headline(tool: str, arguments: Mapping[str, Json], *, directory: str = "") -> str:
    """Return what a call does, as in "Bash: git status" and "Edit src/app.py"; "" where its arguments do not say."""
    for name in _COMMANDS:
        value: Json = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return one_line(f"{tool}: {value}")
    for name in _FILES:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return one_line(f"{tool} {_below(value, directory)}")
    return ""


def _below(path: str, directory: str) -> str:
    """Return a path as somebody in the directory would say it; one that goes through .. stays as it is."""
    start = f"{directory.rstrip('/')}/"
    inside = directory.startswith("/") and path.startswith(start) and posixpath.normpath(path) == path
    return path.removeprefix(start) if inside else path


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_HEADLINE else f"{line[: LONGEST_HEADLINE - 1]}…"
