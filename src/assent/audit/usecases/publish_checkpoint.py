"""Publishes checkpoints to a file and to a webhook, where the database's owner cannot change them."""

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from assent.audit.store.checkpoints import Anchored, Checkpoints, StoredCheckpoint
from assent.audit.usecases.checkpoints import ANCHOR_JOB
from assent.core.canonical import is_object
from assent.core.errors import AssentError
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.kernel.outbound import Outbound, Permanent, Transient, Undelivered
from assent.kernel.ports import Clock, Database
from assent.kernel.telemetry import Metrics

FILE_SECONDS = 1.0
TOLD_AT_ONCE = 100
LONGEST_LINE = 8 * 1024
WAITS = (5, 30, 120, 600, 1800, 3600)
"""Seconds to wait before each webhook retry. The last value repeats, because checkpoints are never skipped."""
WEBHOOK = "webhook"
BEGINNING = '{"number": '
"""The start of every line in the file, even of an incomplete line."""
_log = structlog.get_logger()


class Disagreement(AssentError):
    """The anchor file does not match the database: one of the two was changed or restored from a backup."""

    code = "anchor_disagrees"


class AnchorFile:
    """An append-only file with one line of JSON per checkpoint; each append is synced to disk before it counts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def last(self) -> Mapping[str, Any] | None:
        """Return the last complete line."""
        try:
            with self.path.open("rb") as file:
                return _last(file.fileno())
        except FileNotFoundError:
            return None

    def append(self, checkpoints: Sequence[StoredCheckpoint]) -> int:
        """Append the checkpoints that are newer than the last line; return how many were appended."""
        with self._alone() as file:
            # Read under the lock, because another process may have appended checkpoints.
            last = _last(file)
            newer = [each for each in checkpoints if last is None or each.number > last["number"]]
            text = "".join(map(line_of, newer))
            if _torn(file):
                # An incomplete line is left as it is, because readers find the complete line below it.
                text = "\n" + text
            os.write(file, text.encode())
            os.fsync(file)
            return len(newer)

    @contextlib.contextmanager
    def _alone(self) -> Generator[int, None, None]:
        file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            # Several processes may append to the same file.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)

    def lines(self) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
        """Yield each line's number and content (None if unreadable); skip lines that the next line repeats in full."""
        torn: tuple[int, str] | None = None
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, start=1):
                if torn is not None and not text.startswith(torn[1]):
                    yield torn[0], None
                value = _read(text)
                torn = (number, text.rstrip("\n")) if value is None else None
                if value is not None:
                    yield number, value
        if torn is not None:
            yield torn[0], None


def told(checkpoint: StoredCheckpoint) -> dict[str, Any]:
    """Return the published form of a checkpoint. Only the note is authoritative; the rest is for human readers."""
    return {
        "number": checkpoint.number,
        "size": checkpoint.size,
        "root": checkpoint.root,
        "at": iso(checkpoint.at),
        "note": checkpoint.note,
    }


def line_of(checkpoint: StoredCheckpoint) -> str:
    return json.dumps(told(checkpoint), ensure_ascii=False) + "\n"


class Anchoring:
    def __init__(
        self,
        database: Database[Transaction],
        outbound: Outbound,
        *,
        clock: Clock,
        file: AnchorFile | None,
        webhook: str | None,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._outbound = outbound
        self._clock = clock
        self._file = file
        self._webhook = webhook
        self._metrics = metrics

    async def run(self, patient: Callable[[str], AbstractContextManager[None]]) -> None:
        """Keep this node's file complete, no matter which node creates the checkpoints."""
        while self._file is not None:
            with patient("anchor-file"):
                await self.write_file()
            await asyncio.sleep(FILE_SECONDS)

    async def write_file(self) -> int:
        """Append missing checkpoints and return how many; raise Disagreement if the file belongs to a different log."""
        if self._file is None:
            return 0
        written = 0
        while True:
            last = await asyncio.to_thread(self._file.last)
            newer = await self._database.read(partial(_continuing, last=last))
            if not newer:
                return written
            written += await asyncio.to_thread(self._file.append, newer)
            self._metrics.anchored("file", "sent", len(newer))

    async def send(self, job: Mapping[str, Any]) -> None:
        """Send new checkpoints to the webhook; retry failures with increasing delays."""
        if self._webhook is None:
            return
        now = self._clock.now()
        state, newer = await self._database.read(_untold)
        # A scheduled retry will also send this checkpoint.
        waits_for_another = state.next_at is not None and state.next_at > now and not job.get("again")
        if not newer or waits_for_another:
            return
        try:
            await self._post(self._webhook, newer)
        except Undelivered as error:
            await self._again(state, error)
            return
        self._metrics.anchored(WEBHOOK, "sent", len(newer))
        more = len(newer) == TOLD_AT_ONCE
        await self._database.write(partial(_told, number=newer[-1].number, more=more))

    async def _post(self, webhook: str, newer: Sequence[StoredCheckpoint]) -> None:
        body = {"type": "audit.checkpoint", "checkpoints": [told(each) for each in newer]}
        headers = {
            "content-type": "application/json",
            "webhook-id": f"checkpoint-{newer[-1].number}",
            "webhook-timestamp": str(self._clock.now() // SECOND),
        }
        await self._outbound.post(webhook, body=json.dumps(body, ensure_ascii=False).encode(), headers=headers)

    async def _again(self, state: Anchored, error: Undelivered) -> None:
        self._metrics.anchored(WEBHOOK, "failed", 1)
        attempts = state.attempts + 1
        wait = WAITS[min(attempts, len(WAITS)) - 1]
        if isinstance(error, Transient):
            wait = max(wait, error.retry_after or 0)
        if isinstance(error, Permanent):
            # There is only one receiver, so keep retrying until an operator corrects the address.
            wait = WAITS[-1]
        _log.warning("checkpoint_publish_failed", error=str(error), attempts=attempts, wait=wait)
        missed = Anchored(state.number, attempts, self._clock.now() + wait * SECOND, str(error))
        await self._database.write(partial(_later, missed=missed, wait=wait))


def _continuing(tx: Transaction, *, last: Mapping[str, Any] | None) -> list[StoredCheckpoint]:
    if last is None:
        return tx[Checkpoints].after(0, limit=TOLD_AT_ONCE)
    known = tx[Checkpoints].find(last["number"])
    if known is None or known.note != last["note"]:
        msg = (
            f"The anchor file contains checkpoint {last['number']}, which is not in the database. Run: assent "
            "audit verify. If you restored an older backup on purpose, keep this file and configure a new one."
        )
        raise Disagreement(msg)
    return tx[Checkpoints].after(known.number, limit=TOLD_AT_ONCE)


def _untold(tx: Transaction) -> tuple[Anchored, list[StoredCheckpoint]]:
    state = tx[Checkpoints].anchored(WEBHOOK)
    return state, tx[Checkpoints].after(state.number, limit=TOLD_AT_ONCE)


def _told(tx: Transaction, *, number: int, more: bool) -> None:
    tx[Checkpoints].note_anchored(WEBHOOK, number=number, now=tx.now())
    if more:
        tx.enqueue(ANCHOR_JOB, key=f"more:{number}", payload={"number": number, "again": True})


def _later(tx: Transaction, *, missed: Anchored, wait: float) -> None:
    tx[Checkpoints].note_not_anchored(WEBHOOK, missed, now=tx.now())
    payload = {"number": missed.number, "again": True}
    tx.enqueue(ANCHOR_JOB, key=f"again:{missed.number}:{missed.next_at}", payload=payload, delay=wait)


def _last(file: int) -> Mapping[str, Any] | None:
    """Return the last complete line."""
    # Reading two lines is enough, because only the last line can be incomplete.
    size = os.fstat(file).st_size
    tail = os.pread(file, 2 * LONGEST_LINE, max(0, size - 2 * LONGEST_LINE)).decode("utf-8", "replace")
    lines = tail.split("\n")
    for text in reversed(lines):
        value = _read(text)
        if value is not None:
            return value
    # An incomplete first line is acceptable; anything else means that the file is used for another purpose.
    if not all(BEGINNING.startswith(text[: len(BEGINNING)]) for text in lines):
        msg = (
            "The anchor file does not end with a checkpoint. Check its content. If the file is used for something "
            "else, configure a different one."
        )
        raise Disagreement(msg)
    return None


def _torn(file: int) -> bool:
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _read(text: str) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    whole = is_object(value) and type(value.get("number")) is int and isinstance(value.get("note"), str)
    return value if whole else None
