"""docs/reference/cli.md: the commands, and the notes in tools/cli_notes.md."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from assent.cli.help import name_of, value_of
from assent.cli.main import loaded
from assent.cli.registry import HOMES
from tools.docs.notes import read_notes

NOTES = Path(__file__).parents[1] / "cli_notes.md"
EVERYWHERE = ("--json", "--help")
"""Options of every command, which the introduction describes."""
COMMON = 3
"""Options with the same meaning in at least this many commands are described once, in a separate table."""
LIKE = {
    "wait": "ask",
    "gate": "ask",
    "hook claude install": "hook claude",
    "hook claude uninstall": "hook claude install",
    "rule change": "rule add",
    "rule shadow": "rule backtest",
}
"""Commands that share options with another command; options with the same meaning are only named."""
SELF_EXPLANATORY = 6
"""An argument whose description has at most this many words is only named."""

Command = TyperCommand | TyperGroup
Option = TyperOption


class Row(NamedTuple):
    names: str
    meaning: str


def every_command() -> Iterator[tuple[str, str, Command]]:
    """Yield the heading, the name and the object of each command that can be called."""
    for name, home in HOMES.items():
        for path, command in _callable(name, loaded(name)):
            yield home.heading, path, command


def _callable(path: str, command: Any) -> Iterator[tuple[str, Command]]:  # noqa: ANN401  # typer's own click
    if not isinstance(command, TyperGroup) or command.invoke_without_command:
        yield path, command
    if isinstance(command, TyperGroup):
        for name, sub in command.commands.items():
            yield from _callable(f"{path} {name}", sub)


def options(command: Command) -> list[Option]:
    """Return the options that are shown in the help."""
    return [each for each in command.params if isinstance(each, TyperOption) and not each.hidden]


def cli_page() -> str:
    introduction, notes = read_notes(NOTES)
    commands = list(every_command())
    unknown = set(notes) - {path for _, path, _ in commands} - {heading for heading, _, _ in commands}
    if unknown:
        sys.exit(f"{NOTES.name} has notes on commands that do not exist: {', '.join(sorted(unknown))}")
    rows = {path: [_row(each) for each in options(command)] for _, path, command in commands}
    counted = Counter(row for each in rows.values() for row in each)
    common = [row for row, count in counted.items() if count >= COMMON and row.names not in EVERYWHERE]
    parts = [introduction, "## Common options", _table(sorted(common))]
    for heading, listed in groupby(commands, key=lambda each: each[0]):
        parts += [f"## {heading}", *([notes[heading]] if heading in notes else [])]
        for _, path, command in listed:
            other = LIKE.get(path, "")
            shared = {row: f"Options as in `{other}`" for row in rows.get(other, ()) if row.names not in EVERYWHERE}
            parts.append(_section(path, command, notes.get(path), shared | dict.fromkeys(common, "Common options")))
    return "\n\n".join(parts) + "\n"


def _section(path: str, command: Command, note: str | None, elsewhere: Mapping[Row, str]) -> str:
    """Describe a command: its usage as the heading, its summary, a note, and a table of its options."""
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    usage = " ".join(["assent", path, *(each.get_usage_pieces(_NO_CONTEXT)[0] for each in arguments)])
    explained = [each for each in arguments if len((each.help or "").split()) > SELF_EXPLANATORY]
    listed = [Row(name_of(each).replace("|", "\\|"), _text(each.help or "")) for each in explained]
    also: dict[str, list[str]] = {}
    for each in options(command):
        row = _row(each)
        if row in elsewhere:
            also.setdefault(elsewhere[row], []).append(f"`{_long(each)}`")
        elif row.names not in EVERYWHERE:
            listed.append(row)
    named = [f"**{where}:** {', '.join(names)}." for where, names in also.items()]
    said = [command.help or "", note, _table(listed), "\n".join(named)]
    return "\n\n".join(filter(None, [f"### `{usage}`", *said]))


def _table(rows: Sequence[Row]) -> str:
    lines = [f"|`{each.names}`|{each.meaning}|" for each in rows]
    return "\n".join(["|option|meaning|", "|---|---|", *lines]) if lines else ""


_NO_CONTEXT: Any = None


def _row(option: Option) -> Row:
    return Row(_names(option), _meaning(option))


def _long(option: Option) -> str:
    return max(option.opts, key=len)


def _names(option: Option) -> str:
    value = value_of(option)
    if value and option.metavar is None:
        value = value.strip("[]").replace("|", "\\|")
    return ", ".join([*option.opts, *option.secondary_opts]) + (f" {value}" if value else "")


def _meaning(option: Option) -> str:
    extra = [f"environment variable: `{option.envvar}`"] if option.envvar else []
    extra += [f"default: `{default}`"] if (default := _default(option)) else []
    extra += ["required"] if option.required else []
    text = _text(option.help or "")
    if not extra:
        return text
    start = f"{text.removesuffix(')')}; " if text.endswith(")") else f"{text} ("
    return f"{start}{'; '.join(extra)})"


def _default(option: Option) -> str:
    default: Any = option.default
    if default in (None, "", False) or callable(default):
        return ""
    if option.is_flag:
        return option.opts[0]
    return f"{default:g}" if isinstance(default, float) else str(default).replace("|", "\\|")


def _text(text: str) -> str:
    return re.sub(r"([*|])", r"\\\1", text)
