"""Headlines: a single line that describes what an approval would allow."""

import json
import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from assent.core.canonical import Json, is_array, is_object
from assent.core.protected_paths import DIRECTORY

LONGEST_HEADLINE = 500
LONGEST_VALUE = 60
NEW_LINE = " ⏎ "
"""Replaces line breaks. They separate shell commands, so they must not look like spaces."""
SHELLS = frozenset(
    {
        "bash", "shell", "sh", "zsh", "powershell", "pwsh", "terminal", "exec", "execute_command", "run_command",
        "run_shell_command", "run_terminal_cmd", "local_shell",
    }
)  # fmt: skip
"""Tools whose name is omitted, because their command says everything."""
_COMMANDS = ("command", "cmd", "script", "sql", "url", "query")
_FILES = ("file_path", "notebook_path", "path", "filename")
_AMOUNTS = ("amount", "total", "price")
_RECIPIENTS = ("to", "recipient", "payee", "account", "customer")
_MCP = re.compile(r"mcp__(.+?)__(.+)", re.DOTALL)
_BLANKS = re.compile(r"[ \t\n]+")
_LINE_BREAKS = re.compile(r"[ \t]*(?:\r?\n[ \t]*)+")


@dataclass(frozen=True, slots=True)
class Headline:
    """The line that represents a breakpoint in lists and messages."""

    text: str
    title: str = ""
    """The agent's title, if the headline does not include it."""
    code: bool = False
    """Whether the text is a command, a file or a URL, to be shown in a monospaced font."""


def headline(title: str | None, gate: str, payload: Mapping[str, Json]) -> Headline:
    """Return the headline of a breakpoint.

    A command, file, URL or amount in the payload takes precedence over the title, because an approval allows the call
    and not what the agent says about it.
    """
    text, code = action(payload)
    named = one_line(title or "")
    if named in (payload.get("tool"), payload.get("function"), _name(payload)):
        named = ""  # older integrations used the name of the tool or function as the title
    if text:
        return Headline(text, "" if _same(named, text) else named, code=code)
    question: Json = payload.get("question")
    asked = one_line(question) if isinstance(question, str) else ""
    return Headline(named or _named_call(payload) or asked or one_line(title or "") or gate)


def action(payload: Mapping[str, Json]) -> tuple[str, bool]:
    """Return the command, file, URL or amount in a payload (empty if there is none), and whether it is code."""
    directory, arguments = payload.get(DIRECTORY), payload.get("arguments")
    name = _name(payload)
    if name and is_object(arguments):
        found = _code(name, arguments, directory if isinstance(directory, str) else "")
        return (found, True) if found else (_amount(name, arguments), False)
    return _command(payload.get("command")), True


def call_headline(tool: str, arguments: Mapping[str, Json], *, directory: str = "") -> str:
    """Describe a tool call: "git status", "Edit src/app.py", "refund 129 EUR", "deploy target=prod"."""
    name = _spoken(tool)
    return _code(name, arguments, directory) or _amount(name, arguments) or _with_arguments(name, arguments)


def _named_call(payload: Mapping[str, Json]) -> str:
    name, arguments = _name(payload), payload.get("arguments")
    return _with_arguments(name, arguments) if name and is_object(arguments) else ""


def _name(payload: Mapping[str, Json]) -> str:
    """Return the name of the tool or function in a payload, in a readable form."""
    tool, function = payload.get("tool"), payload.get("function")
    if isinstance(tool, str) and tool.strip():
        return _spoken(tool)
    return one_line(function.rpartition(".")[2]) if isinstance(function, str) else ""


def _spoken(tool: str) -> str:
    """Return `mcp__github__create_issue` as "github create_issue"."""
    found = _MCP.fullmatch(tool)
    return one_line(f"{found[1]} {found[2]}" if found else tool)


def _code(name: str, arguments: Mapping[str, Json], directory: str) -> str:
    for key in _COMMANDS:
        command = _command(arguments.get(key))
        if command:
            return command if name.lower() in SHELLS else cut(f"{name}: {command}")
    for key in _FILES:
        path: Json = arguments.get(key)
        if isinstance(path, str) and path.strip():
            return one_line(f"{name} {_below(path, directory)}")
    return ""


def _command(value: Json) -> str:
    """Return a command as a single line. A list of words is quoted as in a shell."""
    if is_array(value) and all(isinstance(each, str) for each in value):
        value = shlex.join(str(each) for each in value)
    if not isinstance(value, str):
        return ""
    return cut(_BLANKS.sub(" ", _LINE_BREAKS.sub(NEW_LINE, value.strip(" \t\r\n"))))


def _amount(name: str, arguments: Mapping[str, Json]) -> str:
    amount = next((found for key in _AMOUNTS if (found := _number(arguments.get(key)))), "")
    if not amount:
        return ""
    currency, given = arguments.get("currency"), [arguments.get(key) for key in _RECIPIENTS]
    parts = [name, amount, _shown(currency).upper() if isinstance(currency, str) else ""]
    recipient = next((_shown(each) for each in given if isinstance(each, str) and each.strip()), "")
    return cut(" ".join(filter(None, [*parts, f"to {recipient}" if recipient else ""])))


def _number(value: Json) -> str:
    """Return an amount exactly as it was sent. It is not converted, because its unit is unknown."""
    if isinstance(value, str):
        return _shown(value) if any(each.isdigit() for each in value) else ""
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _with_arguments(name: str, arguments: Mapping[str, Json]) -> str:
    return cut(" ".join([name, *(f"{key}={_shown(value)}" for key, value in arguments.items())]))


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(one_line(text), LONGEST_VALUE)


def _same(title: str, text: str) -> bool:
    """Return whether a title equals the headline or is a truncated form of it."""
    return text.startswith(title.removesuffix("…"))


def _below(path: str, directory: str) -> str:
    """Return a path relative to the directory. Paths that are not normalized (for example with ..) are unchanged."""
    start = f"{directory.rstrip('/')}/"
    inside = directory.startswith("/") and path.startswith(start) and posixpath.normpath(path) == path
    return path.removeprefix(start) if inside else path


def one_line(text: str) -> str:
    """Return a text as a single line. Only ordinary whitespace is collapsed; hidden characters are marked later."""
    return cut(_BLANKS.sub(" ", text.replace("\r\n", "\n")).strip(" \t\n"))


def cut(text: str, longest: int = LONGEST_HEADLINE) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
