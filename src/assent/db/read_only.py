"""Reads SQLite files that must stay unchanged, such as an auditor's copy.

Where SQLite cannot create the index of a write-ahead log, it can only open the file as immutable, and then it does not
read the log. So a file with changes that are only in its log is copied, together with the log.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import sqlalchemy as sa

from assent.core.errors import AssentError

_ANY_WRITE = 0o222
_LOGS = ("-wal", "-journal")


class NotAtRest(AssentError):
    """A file was modified while it was being read."""

    code = "not_at_rest"


class NotCopied(AssentError):
    """A read-only file cannot be copied, which is required for reading it."""

    code = "not_copied"


def is_read_only(path: Path) -> bool:
    """Return whether the file or its directory is read-only. The mode is checked too, because root can ignore it."""
    path = path.resolve()
    return path.is_file() and not all(map(_takes_writes, (path, path.parent)))


def _takes_writes(path: Path) -> bool:
    return bool(path.stat().st_mode & _ANY_WRITE) and os.access(path, os.W_OK, effective_ids=True)


def logs(path: Path) -> list[Path]:
    """Return the logs next to the file that may contain changes that are not in the file yet."""
    path = path.resolve()
    found = [path.with_name(path.name + end) for end in _LOGS]
    return [each for each in found if each.exists() and each.stat().st_size]


@contextlib.contextmanager
def at_rest(path: Path) -> Generator[None, None, None]:
    """Raise if the file is modified during the block, because what the block has read may then be inconsistent."""
    path = path.resolve()
    before = _state(path)
    try:
        yield
    finally:
        if _state(path) != before:
            msg = f"{path} was modified while it was being read, so the result is unreliable. Use a copy instead."
            raise NotAtRest(msg)


def _state(path: Path) -> Sequence[tuple[int, int, int] | None]:
    return [_stamp(path.with_name(path.name + end)) for end in ("", *_LOGS)]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def copied(path: Path) -> Generator[Path, None, None]:
    """Copy the file and its logs into a new private directory, which is removed afterwards; yield the directory."""
    real = path.resolve()
    with contextlib.ExitStack() as kept:
        try:
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="assent-")))
            with at_rest(path):
                for each in (real, *logs(path)):
                    shutil.copyfile(each, folder / each.name.replace(real.name, path.name, 1))
        except OSError as error:
            msg = (
                f"{path} is read-only, so it must be copied before it can be read. The copy failed: "
                f"{error.strerror}. Set TMPDIR to a directory with enough space."
            )
            raise NotCopied(msg) from error
        yield folder


def connect_immutable(path: Path) -> sqlite3.Connection:
    """Open a file that nothing writes to, without locking it and without creating any file next to it."""
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )


def immutable_engine(path: Path) -> sa.Engine:
    return sa.create_engine("sqlite://", creator=lambda: connect_immutable(path), poolclass=sa.NullPool)
