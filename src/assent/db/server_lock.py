"""One server per SQLite data directory: a file lock that the operating system releases when the process ends."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path
from typing import Self

import msgspec

from assent.core.errors import AssentError

RETRY_SECONDS = 0.05
ATTEMPTS = 20
"""A probe by another command holds the lock only for microseconds. After this many attempts, it must be a server."""
LARGEST = 4096
_held: set[int] = set()


class DataInUse(AssentError):
    """A server already runs on this data directory."""

    code = "data_in_use"
    title = "Another server is already using this data"


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process that holds the lock, as it describes itself in the lock file."""

    pid: int | None = None
    host: str | None = None
    address: str | None = None

    def __str__(self) -> str:
        elsewhere = f"on {self.host}" if self.host not in {None, socket.gethostname()} else None
        pid = f"pid {self.pid}" if self.pid is not None else None
        return ", ".join(filter(None, (pid, elsewhere, self.address))) or "unknown process"


class ServerLock:
    """Held from before a server accesses its data until its process ends for any reason."""

    def __init__(self, path: Path, database: Path | None = None) -> None:
        """Acquire the lock, or raise DataInUse and change nothing.

        The database file is locked too, if it exists: a lock file can be deleted, and a hard link has a different path.
        SQLite's own locks are of another kind (fcntl) and do not conflict with this one (flock).
        """
        self._files = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)]
        if database is not None:
            with contextlib.suppress(FileNotFoundError):
                self._files.append(os.open(database, os.O_RDONLY | os.O_CLOEXEC))
        if not all(map(_locked, self._files)):
            with contextlib.closing(self):
                raise DataInUse(_refusal(path, _described(self._files[0])))
        _held.update(self._files)
        self.describe(None)

    def describe(self, address: str | None) -> None:
        """Record which process holds the lock, for the message that a second server prints."""
        holder = Holder(pid=os.getpid(), host=socket.gethostname(), address=address)
        os.ftruncate(self._files[0], 0)
        os.pwrite(self._files[0], msgspec.json.encode(holder), 0)

    def close(self) -> None:
        _held.difference_update(self._files)
        for file in self._files:
            os.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def holder_of(path: Path) -> Holder | None:
    """Return which process holds the lock, or None if no process does."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with _closing(file):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _described(file)
    return None


def _locked(file: int) -> bool:
    for attempt in range(ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < ATTEMPTS:
                time.sleep(RETRY_SECONDS)
        else:
            return True
    return False


def _described(file: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(file, LARGEST, 0), type=Holder)
    except msgspec.MsgspecError:
        return Holder()


def _refusal(path: Path, holder: Holder) -> str:
    return (
        f"Another server is already using the data in {path.parent} ({holder}). Use that server, stop it, or choose "
        "another directory with --data."
    )


@contextlib.contextmanager
def _closing(file: int) -> Generator[None, None, None]:
    try:
        yield
    finally:
        os.close(file)


def _leave_to_parent() -> None:
    """Close the parent's lock in a forked child, which would otherwise keep it after the parent was killed."""
    for file in _held:
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
