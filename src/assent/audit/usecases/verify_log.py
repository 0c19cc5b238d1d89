"""Verifies that the log of all events is complete and matches the signed and published checkpoints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from assent.audit.log_checks import LogCheck, about, anchor_findings
from assent.audit.store.chains import Audit
from assent.audit.store.checkpoints import Checkpoints, StoredCheckpoint
from assent.audit.usecases.publish_checkpoint import AnchorFile
from assent.core.chain import UNREADABLE, Finding
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.kernel.ports import Database

BATCH = 2_000
ANCHORS = 200


class LogAudit:
    """Verifies the log without changing it. Each batch is a snapshot; entries added after the first are not checked."""

    def __init__(self, database: Database[Transaction], anchor_file: Path | None) -> None:
        self._database = database
        self._anchor_file = anchor_file

    async def verify(
        self,
        found: Callable[[Sequence[Finding], int, int], None],
        *,
        keys: Mapping[str, bytes] | None = None,
        anchors: Path | None = None,
    ) -> None:
        """Verify the log in batches; report each batch's findings and how many entries and checkpoints were checked.

        Without `keys`, the keys in the database are trusted. In that case, only an anchor file can reveal that
        everything was signed again with a different key.
        """
        size, log, findings = await self._database.read(partial(_begin, keys=keys))
        found(findings, 0, 0)
        for first in range(0, size, BATCH):
            found(*await self._database.read(partial(_batch, log=log, first=first, size=size)))
        where = anchors or self._anchor_file
        if where is not None:
            await self._anchors(where, found)

    async def _anchors(self, where: Path, found: Callable[[Sequence[Finding], int, int], None]) -> None:
        try:
            lines = AnchorFile(where).lines()
            while batch := list(islice(lines, ANCHORS)):
                found(await self._database.read(partial(_anchored, where=where.name, lines=batch)), 0, 0)
        except OSError as error:
            # Before the first checkpoint, the file may not exist yet.
            if await self._database.read(lambda tx: tx[Checkpoints].last()) is not None:
                found([about(None, None, f"the anchor file {where} cannot be read: {error.strerror}")], 0, 0)


def _begin(tx: Transaction, *, keys: Mapping[str, bytes] | None) -> tuple[int, LogCheck, list[Finding]]:
    """Return the current length of the log, a new check, and findings for events that are missing from the log."""
    tx[Audit].one_moment()
    try:
        known = {each.key_id: each.public for each in tx[Checkpoints].every_key()}
    except UNREADABLE:
        known = {}
    last, entries = tx[Checkpoints].last(), tx[Checkpoints].entries()
    findings = [about(*each, "the event is neither in the log nor queued for it") for each in tx[Checkpoints].nowhere()]
    findings += [about(*each, "the event was queued for the log and is now missing") for each in tx[Checkpoints].gone()]
    signed = last.size if last else 0
    if signed != entries:
        findings.append(
            about(
                None,
                None,
                f"the last checkpoint covers {plural(signed, 'entry', 'entries')}, but the log has {entries}",
            )
        )
    return max(signed, entries), LogCheck(known if keys is None else keys), findings


def _batch(tx: Transaction, *, log: LogCheck, first: int, size: int) -> tuple[list[Finding], int, int]:
    tx[Audit].one_moment()
    end = min(first + BATCH, size)
    checkpoints = tx[Checkpoints].of_sizes(first, end)
    rows = [row for row in tx[Checkpoints].logged(first=first, limit=BATCH) if row[0] < end]
    findings = list(_gone_through(log, rows, checkpoints))
    for made in log.made:
        findings += log.subtree(_kept(tx, made.level, made.n), made)
    log.made.clear()
    return findings, len(rows), len(checkpoints)


def _gone_through(
    log: LogCheck, rows: Sequence[Sequence[Any]], checkpoints: Sequence[StoredCheckpoint]
) -> Iterator[Finding]:
    """Check the entries, and the checkpoints between them, in order."""
    waiting = iter(checkpoints)
    due = next(waiting, None)
    for row in rows:
        while due is not None and due.size <= row[0]:
            yield from log.checkpoint(due)
            due = next(waiting, None)
        yield from log.entry(*row)
    while due is not None:
        yield from log.checkpoint(due)
        due = next(waiting, None)


def _kept(tx: Transaction, level: int, n: int) -> bytes | None:
    try:
        return next(iter(tx[Checkpoints].kept(level, n, 1)), None)
    except ValueError:
        return None


def _anchored(tx: Transaction, *, where: str, lines: Sequence[tuple[int, Mapping[str, Any] | None]]) -> list[Finding]:
    findings: list[Finding] = []
    for number, line in lines:
        if line is None:
            findings.append(about(None, None, f"line {number} of {where} cannot be read"))
        else:
            findings += anchor_findings(where, line, tx[Checkpoints].find(line["number"]))
    return findings
