"""Reads the files in which Assent's Git hooks record events, one file per event."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assent.core.timestamps import SECOND

MERGED, PUSHED, RECEIVED = "merged", "pushed", "received"
HOOKS = {"post-merge": MERGED, "reference-transaction": PUSHED, "post-receive": RECEIVED}
LARGEST = 32 * 1024 * 1024
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NOTHING = re.compile(r"0+")
_REF = re.compile(r"(?:refs/|HEAD$)[^\x00-\x20\x7f~^:?*\[\\]*")
_NAME = re.compile(r"(\d{1,12})-\d+(?:-[0-9a-f]{1,40})?")


class BadRecord(ValueError):
    """A file that Assent's hooks did not write."""


@dataclass(frozen=True, slots=True)
class Move:
    """A ref that moved from one commit to another. For a created or deleted ref, `old` or `new` is None."""

    ref: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    """The name of the file, which identifies the record."""
    event: str
    moves: tuple[Move, ...]
    at: int | None
    """Microseconds since 1970."""
    is_squash: bool = False


def waiting(spool: Path) -> list[Path]:
    """Return the recorded files in the order in which they were written."""
    # Hidden files are incomplete records, the lock and invalid records.
    names = [each for each in spool.iterdir() if not each.name.startswith(".")]
    # The repository may be malicious, so links are not followed.
    files = [each for each in names if each.is_file() and not each.is_symlink()]
    return sorted(files, key=lambda each: (each.stat().st_mtime_ns, each.name))


def read(path: Path) -> Record:
    """Parse a file, or raise BadRecord if it is invalid."""
    if path.stat().st_size > LARGEST:
        msg = "too large"
        raise BadRecord(msg)
    # Git allows ref names that are not UTF-8.
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    hook = lines[0] if lines else ""
    if hook not in HOOKS:
        msg = "not written by an Assent hook"
        raise BadRecord(msg)
    named = _NAME.fullmatch(path.name)
    at = int(named[1]) * SECOND if named else None
    if hook == "post-merge":
        return Record(path.name, MERGED, (_merge(lines),), at, is_squash=lines[1:2] == ["1"])
    return Record(path.name, HOOKS[hook], tuple(_moves(lines[1:])), at)


def _merge(lines: list[str]) -> Move:
    _, _, new, ref, *rest = [*lines, "", "", ""]
    return Move(_checked(ref), _commit(rest[0]) if rest[0] else None, _commit(new))


def _moves(lines: list[str]) -> Iterator[Move]:
    for line in lines:
        old, _, rest = line.partition(" ")
        new, _, ref = rest.partition(" ")
        # For symbolic refs, Git records ref names instead of commits.
        if not ref.startswith("refs/") or old.startswith("ref:") or new.startswith("ref:"):
            continue
        yield Move(_checked(ref), _commit(old), _commit(new))


def _commit(text: str) -> str | None:
    if not _SHA.fullmatch(text):
        msg = "invalid commit hash"
        raise BadRecord(msg)
    return None if _NOTHING.fullmatch(text) else text


def _checked(ref: str) -> str:
    if not _REF.fullmatch(ref):
        msg = "invalid ref name"
        raise BadRecord(msg)
    return ref.encode(errors="surrogateescape").decode(errors="backslashreplace")
