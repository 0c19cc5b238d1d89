"""Exports everything that an auditor needs to a single file of JSON lines, which other programs can fully verify.

The order is: a header and the keys; the log, with each checkpoint after the events it covers; events that no checkpoint
covers yet; the state of every breakpoint and rule; the heads of the admin event chains; the used receipts; and finally
the number of lines and their hash.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assent.audit import merkle
from assent.audit.chain_checks import SPOKEN
from assent.audit.checkpoint import verifier_key
from assent.audit.store.chains import Audit
from assent.audit.store.checkpoints import Checkpoints, StoredCheckpoint
from assent.audit.store.export import AuditExport, LoggedEvent, Standing
from assent.core.canonical import canonical
from assent.core.chain import stubbed
from assent.core.receipts import spelt
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.platform.admin_events import use_chain

VERSION = 1
BATCH = 1_000
Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Exported:
    events: int
    checkpoints: int
    breakpoints: int
    lines: int


class _Lines:
    """Writes lines, and counts and hashes them."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self.counts: dict[str, int] = {}
        self.total = 0

    def add(self, kind: str, **values: Any) -> None:  # noqa: ANN401  # any JSON value
        line = json.dumps({"kind": kind} | values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._hash.update(line)
        self._write(line)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.total += 1

    def end(self) -> None:
        self.add("end", lines=self.total, sha256=self._hash.hexdigest())


def export(tx: Transaction, write: Write, *, project: str | None = None) -> Exported:
    """Write a snapshot of all projects, or of one project with a proof for each of its events in the log."""
    tx[Audit].one_moment()
    lines, last = _Lines(write), tx[Checkpoints].last()
    size = last.size if last else 0
    lines.add(
        "assent-audit-export", version=VERSION, madeAt=iso(tx.now()), project=project, size=size,
        checkpoint=last.number if last else 0,
    )  # fmt: skip
    for key in tx[Checkpoints].every_key():
        vkey = verifier_key(key.origin, key.public)
        lines.add("key", keyId=key.key_id, origin=key.origin, publicKey=spelt(key.public), verifierKey=vkey)
    _log(tx, lines, size=size, project=project)
    for event in _through(lambda after: tx[AuditExport].unsigned(after, limit=BATCH, project=project), ("", 0)):
        lines.add("event", position=None, **_event(event))
    for each in _through(lambda after: tx[AuditExport].breakpoints(after, limit=BATCH, project=project), 0):
        lines.add("breakpoint", **_standing(each))
    for rule in tx[AuditExport].rules(project=project):
        lines.add("rule", **rule)
    for chain in tx[AuditExport].chains(project=project):
        lines.add("chain", **chain)
    for use in _through(lambda after: tx[AuditExport].uses(after, limit=BATCH, project=project), ""):
        lines.add("receipt", id=use_chain(use.place), used=canonical(use.state).decode())
    lines.end()
    counted = lines.counts
    return Exported(counted.get("event", 0), counted.get("checkpoint", 0), counted.get("breakpoint", 0), lines.total)


def _log(tx: Transaction, lines: _Lines, *, size: int, project: str | None) -> None:
    """Write the log; with `project`, each event includes its path to the root of the last checkpoint."""
    before: StoredCheckpoint | None = None
    for first in range(0, size, BATCH):
        end = min(first + BATCH, size)
        events = tx[AuditExport].logged(first, end, project=project)
        for each in _merged(events, tx[Checkpoints].of_sizes(first, end)):
            if isinstance(each, StoredCheckpoint):
                lines.add("checkpoint", **_checkpoint(tx, each, before))
                before = each
            else:
                proof = {} if project is None else {"proof": _proof(tx, each.position, size)}
                lines.add("event", position=each.position, **_event(each), **proof)


def _merged(
    events: Sequence[LoggedEvent], checkpoints: Iterable[StoredCheckpoint]
) -> Iterator[LoggedEvent | StoredCheckpoint]:
    """Put each checkpoint after the events it covers."""
    mixed: list[LoggedEvent | StoredCheckpoint] = [*events, *checkpoints]
    return iter(sorted(mixed, key=_place))


def _place(each: LoggedEvent | StoredCheckpoint) -> tuple[int, int]:
    return (each.size, 0) if isinstance(each, StoredCheckpoint) else (each.position, 1)


def _checkpoint(tx: Transaction, each: StoredCheckpoint, before: StoredCheckpoint | None) -> dict[str, Any]:
    path = merkle.consistency(tx[Checkpoints].kept, before.size, each.size) if before else []
    return {"number": each.number, "note": each.note, "consistency": [spelt(part) for part in path]}


def _proof(tx: Transaction, position: int, size: int) -> list[str]:
    return [spelt(part) for part in merkle.inclusion(tx[Checkpoints].kept, position, size)]


def _event(event: LoggedEvent) -> dict[str, Any]:
    digest = stubbed(event.metadata) if event.type in SPOKEN else None
    # Write the metadata as text in canonical form, so that a verifier only has to hash it.
    said = {"purged": digest} if digest else {"metadata": canonical(event.metadata).decode()}
    return {
        "of": event.of,
        "id": event.subject_id,
        "seq": event.seq,
        "type": event.type,
        "actor": event.actor,
        "at": event.at,
        **said,
        "previous": event.previous,
        "hash": event.hash,
    }


def _standing(each: Standing) -> dict[str, Any]:
    return {
        "id": each.id,
        "project": each.project,
        "status": each.status,
        "decision": each.decision,
        "digest": each.digest,
        "version": each.version,
        "head": each.head,
        "content": None if each.content is None else canonical(each.content).decode(),
    }


def _through(page: Callable[[Any], Sequence[Any]], start: Any) -> Iterator[Any]:  # noqa: ANN401  # any position
    after = start
    while found := page(after):
        yield from found
        after = found[-1].place
