"""Adds Assent's hooks to Claude Code's settings and removes them, without changing anything else."""

import contextlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from assent.core.canonical import Json, is_array, is_object
from assent.core.claude_code import TTL_SECONDS, Event
from assent.core.errors import InvalidRequest

HOOK_PATH = "/api/hooks/claude"
MARGIN_SECONDS = 120
"""How long the client waits beyond the deadline, to allow for a server restart and the response."""
MATCHER = "^(Bash|Edit|MultiEdit|Write|NotebookEdit|WebFetch|AskUserQuestion|mcp__.*)$"
"""Anchored, because Claude Code searches for the pattern anywhere in the name and would find Write in TodoWrite."""
TOKEN = "ASSENT_TOKEN"  # noqa: S105  # the name of a variable
_OURS = ["hook", "claude"]
_PROGRAM = re.compile(r"(?:.*[/\\])?assent(?:\.exe)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Which tool calls require approval, and how to request it."""

    program: str = "assent"
    before: Sequence[str] = ()
    """The program's arguments before the command, such as -I -m assent."""
    pins: Sequence[tuple[str, str]] = ()
    """The command's options for the server: url, receipt-key, token-env …"""
    url: str | None = None
    """The server's URL, if the client calls the server itself."""
    matcher: str = MATCHER
    ttl: int = TTL_SECONDS
    defer: bool = False
    options: Sequence[tuple[str, str]] = ()
    """Additional options of the hook: editable, agent-id, tag, expert, risk."""

    @property
    def hook(self) -> dict[str, Json]:
        kept: dict[str, Json] = {"timeout": self.ttl + MARGIN_SECONDS, "onFailure": "block"}
        if self.url is None:
            return {"type": "command", "command": self.program, "args": [*self.before, *_OURS, *self._words()]} | kept
        authorization = {"headers": {"Authorization": f"Bearer ${TOKEN}"}, "allowedEnvVars": [TOKEN]}
        return {"type": "http", "url": f"{self.url.rstrip('/')}{HOOK_PATH}?{self._query()}"} | authorization | kept

    @property
    def groups(self) -> dict[str, dict[str, Json]]:
        """The hooks for each event; deferred sessions show no dialogs."""
        before: dict[str, dict[str, Json]] = {Event.PRE_TOOL_USE: {"matcher": self.matcher, "hooks": [self.hook]}}
        dialogs: dict[str, dict[str, Json]] = {Event.PERMISSION_REQUEST: {"matcher": "*", "hooks": [self.hook]}}
        return before if self.defer else before | dialogs

    def _words(self) -> list[str]:
        given = [word for name, value in (*self.pins, *self.options) for word in (f"--{name}", value)]
        return ["--ttl", str(self.ttl), *(["--defer"] if self.defer else []), *given]

    def _query(self) -> str:
        deferring = [("defer", "true")] if self.defer else []
        given = [("agentId" if name == "agent-id" else name, value) for name, value in self.options]
        return urlencode([("ttl", str(self.ttl)), *deferring, *given])


def installed(settings: Mapping[str, Json], gate: Gate) -> dict[str, Json]:
    """Return the settings with our hooks exactly once, even if they were installed before."""
    cleared = uninstalled(settings)
    hooks: dict[str, Json] = dict(cleared.get("hooks") or {})
    for event, group in gate.groups.items():
        hooks[event] = [*hooks.get(event, ()), group]
    return {**cleared, "hooks": hooks}


def uninstalled(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Return the settings without our hooks and any entries that become empty. Everything else stays unchanged."""
    hooks = _events(settings)
    if not any(_has_ours(groups) for groups in hooks.values()):
        return dict(settings)
    left = {event: _without_ours(groups) if _has_ours(groups) else groups for event, groups in hooks.items()}
    kept = {event: groups for event, groups in left.items() if groups or not _has_ours(hooks[event])}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {name: kept if name == "hooks" else value for name, value in settings.items()} if kept else rest


def has_hooks(settings: Mapping[str, Json]) -> bool:
    return any(_has_ours(groups) for groups in _events(settings).values())


def pinned(settings: Mapping[str, Json], option: str) -> list[str]:
    """Return the values of an option in our hooks, without duplicates."""
    hooks = [hook for groups in _events(settings).values() for group in groups for hook in _hooks(group)]
    words = [each for hook in hooks if _is_ours(hook) for each in _texts(hook)]
    return list(dict.fromkeys(value for name, value in itertools.pairwise(words) if name == f"--{option}"))


def _texts(hook: Mapping[str, Json]) -> list[str]:
    args: Json = hook.get("args")
    words = [hook.get("command"), *(args if is_array(args) else ())]
    return [word if isinstance(word, str) else "" for word in words]


def _events(settings: Mapping[str, Json]) -> dict[str, list[Json]]:
    """Return each event's groups; raise if their structure is invalid."""
    hooks: Json = settings.get("hooks", {})
    if not is_object(hooks) or not all(isinstance(groups, list) for groups in hooks.values()):
        msg = "The hooks in these settings do not have the structure that Claude Code expects. Fix them first."
        raise InvalidRequest(msg)
    return hooks


def _has_ours(groups: Sequence[Json]) -> bool:
    return any(_is_ours(hook) for group in groups for hook in _hooks(group))


def _hooks(group: Json) -> Sequence[Json]:
    found: Json = group.get("hooks") if is_object(group) else None
    return found if is_array(found) else ()


def _without_ours(groups: Sequence[Json]) -> list[Json]:
    kept: list[Json] = []
    for group in groups:
        others = [hook for hook in _hooks(group) if not _is_ours(hook)]
        # Keep an untouched group as it is, even if it has no hooks at all.
        if len(others) == len(_hooks(group)):
            kept.append(group)
        elif others:
            kept.append({**group, "hooks": others})
    return kept


def _is_ours(hook: Json) -> bool:
    if not is_object(hook):
        return False
    if hook.get("type") == "http":
        return urlsplit(str(hook.get("url"))).path.endswith(HOOK_PATH)
    texts = _texts(hook)
    return any(_PROGRAM.fullmatch(word) and texts[n + 1 : n + 3] == _OURS for n, word in enumerate(texts))


def read(path: Path) -> dict[str, Json]:
    """Read settings strictly: raise for content that would not be written back unchanged."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        msg = f"Cannot read {path}: {error}"
        raise InvalidRequest(msg) from error
    try:
        # Python would silently drop duplicate keys and accept NaN, which cannot be written back unchanged.
        found: Json = json.loads(text or "{}", object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not valid JSON ({error}). Nothing was changed."
        raise InvalidRequest(msg) from error
    if not is_object(found):
        msg = f"{path} must contain a JSON object. Nothing was changed."
        raise InvalidRequest(msg)
    return found


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "duplicate key"
        raise ValueError(msg)
    return found


def _refuse(name: str) -> NoReturn:
    msg = f"{name} is not valid JSON"
    raise ValueError(msg)


def _finite(digits: str) -> float:
    found = float(digits)
    return _refuse(digits) if found in {float("inf"), float("-inf")} else found


def write(path: Path, settings: Mapping[str, Json]) -> None:
    """Write settings atomically, keeping a symbolic link and the file's permissions."""
    target = path.resolve()
    new = target.with_name(f".{target.name}.{uuid.uuid4().hex}.new")
    text = json.dumps(settings, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), target.stat().st_mode & 0o7777)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # Replace the file only after the sync, so that a crash leaves either the old or the new settings.
        new.replace(target)
    except (OSError, UnicodeEncodeError) as error:
        new.unlink(missing_ok=True)
        msg = f"Cannot write {path}: {error}"
        raise InvalidRequest(msg) from error
