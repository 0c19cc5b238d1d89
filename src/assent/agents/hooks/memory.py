"""Remembers that a server was unreachable, so that the next hooks block immediately instead of retrying.

The memory can only block calls. It is a file that belongs to the current user; anything else in its place is ignored.
"""

import contextlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from assent.core.canonical import sha256
from assent.sdk.errors import Unreachable

REMEMBER_SECONDS = 30.0
LONGEST_MEMORY = 3600.0
_LONGEST_TEXT = 32


@dataclass(frozen=True, slots=True)
class Memory:
    """The time when a server was last found unreachable."""

    url: str
    seconds: float
    """How long the time is remembered; 0 disables the memory."""

    def refuse_if_dead(self) -> None:
        """Raise if the server was unreachable less than `seconds` ago."""
        at = _read(self._path) if self.seconds else None
        ago = time.time() - at if at is not None else -1.0
        # A time in the future, such as after a clock change, must not block calls.
        if 0 <= ago < self.seconds:
            left = max(1, round(self.seconds - ago))
            msg = f"{self.url} was unreachable {round(ago)} s ago. The hook will not retry for another {left} s."
            raise Unreachable(msg)

    def remember(self) -> None:
        if self.seconds:
            with contextlib.suppress(OSError):
                _write(self._path, time.time())

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return _folder() / f"unreachable-{sha256(self.url.encode())[:16]}"


def _folder() -> Path:
    chosen = os.environ.get("XDG_STATE_HOME")
    with contextlib.suppress(RuntimeError):
        return (Path(chosen) if chosen else Path.home() / ".local" / "state") / "assent"
    return Path(os.devnull) / "assent"


def _read(path: Path) -> float | None:
    """Return the time in the file, or None if it is not a regular file that only the current user can write."""
    try:
        # Neither follow a symbolic link nor block on a pipe that another user put there.
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o022:
            return None
        with contextlib.suppress(ValueError):
            return float(file.read(_LONGEST_TEXT))
    return None


def _write(path: Path, at: float) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Write to a new file and rename it, so that hooks running concurrently never read a partial file.
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(repr(at))
    new.replace(path)
