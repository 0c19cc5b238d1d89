"""The local journal: an append-only file with one JSON object per line, each containing the previous line's hash."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assent.core.breakpoint import Event
from assent.core.canonical import GENESIS, Json, sha256
from assent.core.timestamps import iso
from assent.sdk.errors import AssentError

JOURNAL = "journal.jsonl"
_CHUNK = 64 * 1024


class JournalUnusable(AssentError):
    """Nothing is asked or approved if it cannot be recorded."""

    code = "journal_unusable"
    title = "The local journal cannot be used"


@contextlib.contextmanager
def sole(folder: Path) -> Generator[None, None, None]:
    """Create the folder if necessary, and lock it against other processes that do the same."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(folder, error) from error
    try:
        # The lock is released when the file is closed, even if the process crashes.
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def unusable(path: Path, error: OSError) -> JournalUnusable:
    msg = f"Cannot use {path}: {error.strerror or error}. Set ASSENT_LOCAL_DIR to a writable directory."
    return JournalUnusable(msg)


@dataclass(frozen=True, slots=True)
class Journal:
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / JOURNAL

    def append(self, events: Sequence[Event]) -> None:
        """Append events durably: once this returns, they survive a crash."""
        with sole(self.folder):
            try:
                is_new = not self.path.exists()
                file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    _write(file, _chained(events, *_end(file)))
                    os.fsync(file)
                finally:
                    os.close(file)
                # A new file survives a crash only if its folder entry is also on disk.
                if is_new:
                    _sync_folder(self.folder)
            except OSError as error:
                raise unusable(self.path, error) from error

    def streak(
        self, gate: str, agent_id: str, counts_as: str, *, key: Callable[[Mapping[str, Json]], str]
    ) -> dict[str, Mapping[str, Json]]:
        """Return the consecutive approvals at this gate for this agent that count as the same, by ID.

        An approval with changes is ignored, because the person approved something else. A line that cannot be read, or
        that does not match the hash chain, may have been a rejection, so it resets the count.
        """
        asked: dict[str, Mapping[str, Json] | None] = {}
        approved: dict[str, Mapping[str, Json]] = {}
        edited: set[str] = set()
        for event in self.events():
            edited |= _edited(event)
            if event is None:
                asked, approved = {}, {}
            elif event["type"] == "created":
                said: Mapping[str, Json] = event["metadata"]
                is_mine = (said.get("gate"), said.get("agentId")) == (gate, agent_id)
                asked[event["breakpointId"]] = (said.get("payload") or {}) if is_mine else None
            elif event["type"] == "released" and not str(event["actor"]).startswith("rule:"):
                name = event["breakpointId"]
                # For a breakpoint created before a reset, only a rejection counts.
                payload = asked.get(name, {})
                if payload is None:
                    continue
                if event["metadata"].get("decision") != "approved":
                    approved = {}
                elif name in asked and name not in edited and key(payload) == counts_as:
                    approved[name] = payload
        return approved

    def events(self) -> Iterator[Mapping[str, Any] | None]:
        """Yield every event, oldest first, and None for a line that is not a valid event."""
        previous = GENESIS
        try:
            with self.path.open("rb") as file:
                for line in file:
                    yield _read(line, previous)
                    previous = sha256(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise unusable(self.path, error) from error


def _edited(event: Mapping[str, Any] | None) -> set[str]:
    """Return the ID of the breakpoint if a person answered it with changes, otherwise nothing."""
    is_edit = event is not None and event["type"] == "responded" and bool(event["metadata"].get("edits"))
    return {event["breakpointId"]} if event is not None and is_edit else set()


def _read(line: bytes, previous: str) -> Mapping[str, Any] | None:
    try:
        event: Any = json.loads(line)
        whole = (
            event["previous"] == previous
            and line.endswith(b"\n")
            and isinstance(event["metadata"], dict)
            and all(isinstance(event[name], str) for name in ("breakpointId", "type", "actor"))
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return event if whole else None


def _chained(events: Sequence[Event], previous: str, torn: bool) -> bytes:  # noqa: FBT001  # returned by _end
    # End a truncated line, so that the lines after it are valid.
    lines = [b"\n"] if torn else []
    for event in events:
        line = json.dumps({"previous": previous, **_body(event)}, ensure_ascii=True).encode() + b"\n"
        previous = sha256(line)
        lines.append(line)
    return b"".join(lines)


def _body(event: Event) -> dict[str, Json]:
    return {
        "breakpointId": event.breakpoint_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "timestamp": iso(event.at),
        "metadata": dict(event.metadata),
        "hash": event.hash,
    }


def _end(file: int) -> tuple[str, bool]:
    """Return the hash of the last line, and whether a crash truncated that line."""
    size = os.fstat(file).st_size
    if size == 0:
        return GENESIS, False
    tail = b""
    while len(tail) < size and tail.count(b"\n", 0, -1) == 0:
        wanted = min(_CHUNK, size - len(tail))
        # Read backwards, because a journal can be large and only its last line is needed.
        tail = os.pread(file, wanted, size - len(tail) - wanted) + tail
    torn = not tail.endswith(b"\n")
    last = (tail + b"\n" if torn else tail).split(b"\n")[-2] + b"\n"
    return sha256(last), torn


def _write(file: int, data: bytes) -> None:
    while data:
        # A single write may accept only a part of the data.
        data = data[os.write(file, data) :]


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
