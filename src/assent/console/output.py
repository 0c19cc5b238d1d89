"""Command output: sanitized text from agents, tables for people, JSON for programs, and error messages."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assent.core.errors import AssentError
from assent.sdk.visible import visible as visible  # noqa: PLC0414  # re-exported for the commands

APPROVED, FAILED, USAGE = 0, 1, 2
REJECTED, EXPIRED, CANCELLED, UNREACHABLE, STILL_WAITING = 10, 11, 12, 13, 14

Json = Annotated[bool, typer.Option("--json", help="Output JSON")]

_STYLES = {
    "approved": "green",
    "rejected": "red",
    "waiting": "yellow",
    "expired": "magenta",
    "cancelled": "dim",
    "high": "bold red",
}
_HINTS = {
    "unauthenticated": "Set ASSENT_TOKEN to a valid token (create one with `assent token create`).",
    "unreachable": "Check that the server is running (`assent serve`) and that ASSENT_URL is correct.",
    "unavailable": "Try again in a moment.",
    "confirmation_required": "Run the command again with --confirm and the gate name.",
    "already_ended": "To see the outcome, run `assent show`.",
}
_EXITS = {"unreachable": UNREACHABLE, "unavailable": UNREACHABLE, "still_waiting": STILL_WAITING, "bad_address": USAGE}

WIDE = 120
LONGEST_CELL = 80
_POINTER = re.compile(r"^/(?=[\w~/]*: )")
_WHOLE = frozenset({"id", "status", "asked", "due", "setting"})

out = Console(markup=False, highlight=False, emoji=False)
err = Console(stderr=True, markup=False, highlight=False, emoji=False)


def emit(value: object) -> None:
    """Print a line of JSON in ASCII, so that it cannot contain terminal control characters."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def emit_beside(value: object) -> None:
    """Print a line of JSON to standard error, for commands whose standard output belongs to another program."""
    sys.stderr.write(json.dumps(value, ensure_ascii=True) + "\n")
    sys.stderr.flush()


def say(text: str, style: str = "") -> None:
    """Print a line without wrapping it, so that it can be copied in one piece."""
    out.print(Text(text, style=style), soft_wrap=True)


def remark(text: str, style: str = "dim") -> None:
    """Print a message for the user to standard error."""
    err.print(Text(text, style=style), soft_wrap=True)


def fail(error: AssentError) -> int:
    """Print what is wrong and what to do, and return the exit code."""
    # A pointer into the body, such as /option, means nothing to a user who typed --option.
    message = _POINTER.sub("", visible(error.message))
    sentence = message if message.endswith((".", "?", "!")) else message + "."
    if not sentence.startswith("bp_"):  # keep an ID unchanged so that it can be copied
        sentence = sentence[:1].upper() + sentence[1:]
    hint = _HINTS.get(error.code, "")
    err.print(Text.assemble(("Error: ", "bold red"), f"{sentence} {hint}".strip()), soft_wrap=True)
    return _EXITS.get(error.code, FAILED)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str, wide: Sequence[str] = ()) -> None:
    """Print a table in a terminal and tab-separated lines elsewhere; a narrow terminal omits the wide columns."""
    if not rows:
        remark(empty)
        return
    if not out.is_terminal:
        # Rich would convert the tabs to spaces.
        lines = ["\t".join(map(visible, row)) for row in ([name.upper() for name in columns], *rows)]
        sys.stdout.write("\n".join(lines) + "\n")
        return
    # Omitting whole columns keeps the others readable, while wrapping would break the table.
    kept = [n for n, name in enumerate(columns) if out.width >= WIDE or name not in wide]
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for n in kept:
        shown.add_column(columns[n].upper(), no_wrap=columns[n] in _WHOLE, overflow="fold")
    for row in rows:
        shown.add_row(*(_cell(row[n]) for n in kept))
    out.print(shown)


def _cell(text: str) -> Text:
    shown = visible(text)
    return Text(shown if len(shown) <= LONGEST_CELL else shown[: LONGEST_CELL - 1] + "…", style=_STYLES.get(text, ""))


def fields(pairs: Mapping[str, str | None], *, console: Console = out) -> None:
    """Print names and values, one pair per line."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        if value:
            line = Text.assemble((f"{name:<{width}}  ", "dim"), (visible(value), _STYLES.get(value, "")))
            console.print(line, soft_wrap=True)


def block(text: str, *, console: Console = out) -> None:
    """Print multi-line text with indentation, so that text from others cannot look like our own output."""
    indented = "\n".join(f"  {line}".rstrip() for line in visible(text, lines=True).split("\n"))
    console.print(Text(indented), soft_wrap=True)


def pretty(value: Any) -> str:  # noqa: ANN401  # any JSON
    return json.dumps(value, ensure_ascii=False, indent=2)


def ago(moment: str, *, now: float) -> str:
    return f"{_length(now - _seconds(moment))} ago"


def until(moment: str | None, *, now: float) -> str:
    if moment is None:
        return ""
    left = _seconds(moment) - now
    return f"in {_length(left)}" if left > 0 else "passed"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _length(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
