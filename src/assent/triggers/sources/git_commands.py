"""Runs Git in untrusted repositories with a clean environment and a timeout, and without hooks, pager or network."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 20.0
LARGEST = 32 * 1024 * 1024
_QUIETLY = (
    "--no-pager", "-c", "core.pager=cat", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false",
    "-c", "gpg.program=false", "-c", "protocol.allow=never",
)  # fmt: skip
"""Options that prevent Git from running programs specified in the repository's configuration."""
_WITHOUT_HOOKS = ("-c", "core.hooksPath=/dev/null")
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class Place:
    """A repository, as seen from a folder inside it."""

    folder: Path
    common: Path
    """The Git directory shared by all worktrees."""
    is_bare: bool

    @property
    def name(self) -> str:
        own = self.common if self.is_bare or self.common.name != ".git" else self.common.parent
        return own.name.removesuffix(".git") or own.name

    @property
    def spool(self) -> Path:
        return self.common / "assent-spool"

    @property
    def script(self) -> Path:
        return self.common / "assent-hook"


def place(folder: Path) -> Place:
    """Find the repository that contains a folder, or raise OSError with a message for users."""
    if not folder.is_dir():
        msg = f"Folder not found: {folder}."
        raise FileNotFoundError(msg)
    done = _run(folder, [*_WITHOUT_HOOKS, "rev-parse", "--git-common-dir", "--is-bare-repository"])
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        msg = f"Cannot read a Git repository in {folder}: {said[0] if said else 'unknown error'}"
        raise OSError(msg)
    common, is_bare = os.fsdecode(done.stdout).rstrip("\n").rsplit("\n", 1)
    return Place(folder, (folder / common).resolve(), is_bare == "true")


def git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a command, or None if it fails. Raise OSError if it times out."""
    done = _run(folder, [*_WITHOUT_HOOKS, *arguments])
    return None if done.returncode else done.stdout[:LARGEST].decode(errors="backslashreplace")


def plainly(folder: Path, *arguments: str) -> str | None:
    """Like `git`, but using the repository's `core.hooksPath`, for commands about its hooks."""
    done = _run(folder, [*arguments])
    return None if done.returncode else os.fsdecode(done.stdout)


def version(folder: Path) -> tuple[int, int]:
    said = (plainly(folder, "version") or "").split()
    numbers = [part for part in (said[2] if len(said) > 2 else "").split(".") if part.isdigit()]  # noqa: PLR2004 # `git version 2.54.1`
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)


def _run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    # GIT_* variables could redirect commands to another repository.
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        # Reading must not lock the repository for the people who work in it.
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PAGER": "cat",
    }
    try:
        return subprocess.run(  # noqa: S603  # no shell, and callers validate refs and commits
            ["git", "-C", str(folder), *_QUIETLY, *arguments],  # noqa: S607  # the git on the PATH
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        msg = "Git is not installed."
        raise OSError(msg) from None
    except subprocess.TimeoutExpired:
        msg = f"Git did not finish within {PATIENCE:.0f} seconds in {folder}."
        raise OSError(msg) from None
