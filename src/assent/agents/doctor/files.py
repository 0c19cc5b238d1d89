"""Finds and reads the configuration files that `assent doctor` checks, without writing anything."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assent.agents.doctor.findings import URL, Document, Machine
from assent.sdk.connection import DEFAULT_URL

_MANAGED = {
    "darwin": Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
    "linux": Path("/etc/claude-code/managed-settings.json"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The files found: Claude Code settings in ascending precedence, and MCP server configurations."""

    settings: Sequence[Document]
    mcp: Sequence[Document]

    @property
    def paths(self) -> list[str]:
        return list(dict.fromkeys(each.path for each in (*self.settings, *self.mcp)))


def papers(settings: Sequence[Path], mcp: Sequence[Path]) -> Papers:
    """Read the default files that exist, and the given files, which must exist."""
    return Papers(
        settings=[
            *(_read(path) for path in _settings() if _is_there(path)),
            *(_read(path) for path in settings),
            *(_read(path, managed=True) for path in _managed() if _is_there(path)),
        ],
        mcp=[*(_read(path) for path in _mcp() if _is_there(path)), *(_read(path) for path in mcp)],
    )


def machine() -> Machine:
    server = os.environ.get(URL) or DEFAULT_URL
    return Machine(env=dict(os.environ), runs=_runs, server=server, project=str(Path.cwd()))


def exposed_data() -> list[Path]:
    """Return the data directory of a server on this machine, and its database, if other users can access them."""
    folder = Path(os.environ.get("ASSENT_DATA_DIR") or "data")
    database = folder / "assent.db"
    if not database.exists() or not _is_open(folder):
        return []
    return [folder, *filter(_is_open, [database])]


def _is_open(path: Path) -> bool:
    try:
        return path.stat().st_mode & 0o077 != 0
    except OSError:
        return False


def _runs(program: str) -> bool:
    try:
        return shutil.which(Path(program).expanduser()) is not None
    except RuntimeError:  # the home folder of an unknown user
        return False


def _claude_folder(env: Mapping[str, str]) -> Path:
    return Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else Path.home() / ".claude"


def _settings() -> Iterator[Path]:
    """Yield the paths in ascending precedence."""
    yield _claude_folder(os.environ) / "settings.json"
    project = Path.cwd() / ".claude"
    # In the home folder, both are the same file, which must not be checked twice.
    if project != _claude_folder(os.environ):
        yield project / "settings.json"
    yield project / "settings.local.json"


def _managed() -> Iterator[Path]:
    if sys.platform in _MANAGED:
        yield _MANAGED[sys.platform]


def _mcp() -> Iterator[Path]:
    yield Path.cwd() / ".mcp.json"
    yield (_claude_folder(os.environ) if os.environ.get("CLAUDE_CONFIG_DIR") else Path.home()) / ".claude.json"
    yield _desktop() / "claude_desktop_config.json"


def _desktop() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Claude"
    folder = os.environ.get("APPDATA") or os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "Claude"


def _is_there(path: Path) -> bool:
    # A broken symbolic link counts as a file, so that it is reported instead of silently ignored.
    return os.path.lexists(path)


def _read(path: Path, *, managed: bool = False) -> Document:
    whole = str(path.absolute())
    try:
        # Opening a pipe would block until another process writes to it.
        if path.exists() and not path.is_file():
            return Document(path=whole, managed=managed, trouble="it is not a regular file")
        # Accepts a byte order mark, which some editors add.
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        return Document(path=whole, managed=managed, trouble=error.strerror or type(error).__name__)
    except (ValueError, RecursionError) as error:
        return Document(path=whole, managed=managed, trouble=_wrong(error))
    if not isinstance(content, dict):
        return Document(path=whole, managed=managed, trouble="it is not a JSON object")
    return Document(path=whole, managed=managed, content=content)


def _wrong(error: ValueError | RecursionError) -> str:
    """Say where the JSON is invalid without quoting its content."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is not valid JSON: line {error.lineno}, column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8 encoded JSON"
