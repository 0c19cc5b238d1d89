"""Verifies that hash chains are unbroken, that rows match their events, and that all PROMISES hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from assent.audit.chain_checks import Stored, findings
from assent.audit.routing_checks import routing_findings
from assent.audit.rule_checks import (
    COUNT,
    approval_findings,
    approving,
    missing_shadows,
    rule_findings,
    shadow_findings,
    shadows_told,
    wanted,
)
from assent.audit.store.chains import LOCKS, Audit
from assent.audit.usecases.verify_admin_log import route_log, verify_chains, verify_unrecorded, verify_uses
from assent.audit.usecases.verify_log import LogAudit
from assent.core.canonical import sha256
from assent.core.chain import Finding, Part
from assent.core.errors import NotFound
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.platform.queue import SCHEMA as JOB_SCHEMA
from assent.platform.queue import TABLES as JOB_TABLES

Place = TypeVar("Place")
"""Where the next batch starts."""

BATCH = 500
FILES = 4
"""Maximum number of files per batch; low because their complete contents are read into memory."""
WORKER_ALIVE = 30 * SECOND


@dataclass(slots=True)
class Audited:
    """The progress and findings of an audit."""

    breakpoints: int = 0
    events: int = 0
    purged: int = 0
    files: int = 0
    rules: int = 0
    rule_events: int = 0
    admin_events: int = 0
    entries: int = 0
    checkpoints: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, the number of rows checked, and the violations found."""

    name: str
    promise: str
    looked_at: int
    findings: Sequence[Finding]
    nothing: str | None = None
    """Why nothing was checked, if applicable; in that case, the promise was neither confirmed nor violated."""

    @property
    def holds(self) -> bool:
        return not self.findings


PROMISES: Mapping[str, str] = {
    "I1": "Every recorded answer is stored, and every stored answer was recorded.",
    "I2": "Every ended breakpoint has exactly one end event, and no pending breakpoint has one.",
    "I3": "Every breakpoint and rule matches its history.",
    "I4": "No event was removed or changed: the numbering has no gaps, and the hash chains are unbroken.",
    "I5": "Every decision refers to the stored content, and the content is unchanged.",
    "I6": "Every approval came from an eligible person or a matching rule, and no one approved their own breakpoint.",
    "I7": "Nothing was approved at or after its deadline.",
    "I8": "Every event that must be sent to a callback URL has exactly one delivery.",
    "I9": "Every idempotency key refers to exactly one existing breakpoint.",
    "I10": "No deadline, answer, notification or run is overdue.",
    "I11": "The signed checkpoints match the events.",
    "I12": "Every row belongs to the same project as its parent row.",
    "I13": "People, access, policy and settings match the admin events.",
    "rows": "Every row is readable, and its parent row exists.",
    "file": "The database's integrity check passes.",
    "locks": "The database triggers that protect the history are in place.",
    "jobs": "All job queue tables exist.",
}
_PARTS: Mapping[str, Part] = {
    "I1": Part.ANSWERS,
    "I2": Part.ENDS,
    "I3": Part.FOLD,
    "I4": Part.CHAIN,
    "I5": Part.CONTENT,
    "I6": Part.PEOPLE,
    "I11": Part.LOG,
    "I13": Part.ADMIN,
    "rows": Part.ROWS,
}
Acknowledged = Mapping[str, Any]


class AuditService:
    """Runs read-only audits. Each batch is read from a snapshot, so an audit can run while the server is in use."""

    def __init__(self, database: Database[Transaction], *, anchor_file: Path | None = None) -> None:
        self._database = database
        self._log = LogAudit(database, anchor_file)

    async def verify(
        self,
        *,
        project: str | None = None,
        breakpoint_id: str | None = None,
        anchors: Path | None = None,
        keys: Mapping[str, bytes] | None = None,
        progress: Callable[[Audited], None] = lambda _: None,
    ) -> Audited:
        """Recompute every chain and digest, and compare each row with the state that its events produce.

        Without a project or breakpoint, also verify the log of all events, which covers all projects, and its
        checkpoints.
        """
        audited = Audited()
        only = {"project": project, "breakpoint_id": breakpoint_id}
        await self._through(partial(_batch, audited=audited, only=only), 0, lambda: progress(audited))
        nowhere = ("", "")
        await self._through(partial(_files, audited=audited, only=only), nowhere, lambda: progress(audited))
        await self._through(partial(_shadows, audited=audited, only=only), nowhere, lambda: progress(audited))
        if breakpoint_id is None:
            await self._through(partial(_rules, audited=audited, project=project), "", lambda: progress(audited))
            await self._admin(audited, project, lambda: progress(audited))
        if breakpoint_id is not None and not audited.breakpoints:
            msg = f"Breakpoint {breakpoint_id} not found."
            raise NotFound(msg)
        if project is None and breakpoint_id is None:
            audited.findings += await self._database.read(lambda tx: tx[Audit].orphans())
            await self._log.verify(partial(_logged, audited, progress), keys=keys, anchors=anchors)
        return audited

    async def _admin(self, audited: Audited, project: str | None, progress: Callable[[], None]) -> None:
        found, events, begun = await self._database.read(partial(verify_chains, project=project))
        audited.findings += found
        audited.admin_events += events
        await self._through(partial(_uses, audited=audited, project=project), "", progress)
        if begun:
            audited.findings += await self._database.read(partial(verify_unrecorded, project=project))

    async def _through(self, batch: Callable[..., Place | None], start: Place, progress: Callable[[], None]) -> None:
        """Process all batches; each batch returns where the next batch starts."""
        after: Place | None = start
        while after is not None:
            after = await self._database.read(partial(batch, after=after))
            progress()

    async def check(
        self, acknowledged: Sequence[Acknowledged] = (), *, progress: Callable[[Audited], None] = lambda _: None
    ) -> list[Check]:
        """Check every promise; `acknowledged` contains results that clients received and that must still be stored."""
        audited = await self.verify(progress=progress)
        checks = [await self._database.read(partial(_check, name=name, audited=audited)) for name in PROMISES]
        if acknowledged:
            checks[0] = await self._database.read(partial(_stored_too, check=checks[0], acknowledged=acknowledged))
        return checks


def _logged(
    audited: Audited, progress: Callable[[Audited], None], found: Sequence[Finding], entries: int, checkpoints: int
) -> None:
    audited.findings += found
    audited.entries += entries
    audited.checkpoints += checkpoints
    progress(audited)


def _batch(tx: Transaction, *, audited: Audited, after: int, only: Mapping[str, str | None]) -> int | None:
    tx[Audit].one_moment()
    batch = tx[Audit].batch(after=after, limit=BATCH, **only)
    audited.breakpoints += len(batch.stored) + len(batch.unreadable)
    audited.events += batch.events
    audited.findings += batch.unreadable
    for stored in batch.stored:
        audited.purged += stored.purged_at is not None
        audited.findings += findings(stored)
    audited.findings += _decided_by_rules(tx, batch.stored)
    # Read the route log in the same snapshot as the breakpoints.
    log = route_log(tx)
    for stored in batch.stored:
        audited.findings += routing_findings(stored, log)
    return batch.last


def _decided_by_rules(tx: Transaction, batch: Sequence[Stored]) -> Iterator[Finding]:
    """Compare the effects of rules on breakpoints with the rule versions that were current at the time."""
    names = {name for each in batch if (name := approving(each))}
    histories = tx[Audit].rules.histories(sorted(names)) if names else {}
    told = {each.breakpoint.id: rules for each in batch if (rules := shadows_told(each))}
    there = tx[Audit].rules.shadowing(told) if told else {}
    for each in batch:
        name = approving(each) or ""
        counted = tx[Audit].rules.approvals(each.breakpoint, limit=wanted(each)) if name == COUNT else 0
        yield from approval_findings(each, histories.get(name, ()), approvals=counted)
        if each.breakpoint.id in told:
            yield from missing_shadows(each, there.get(each.breakpoint.id, ()))


def _rules(tx: Transaction, *, audited: Audited, after: str, project: str | None) -> str | None:
    tx[Audit].one_moment()
    batch = tx[Audit].rules.batch(after=after, limit=BATCH, project=project)
    audited.rules += len(batch.stored) + len(batch.unreadable)
    audited.rule_events += batch.events
    audited.findings += batch.unreadable
    for stored in batch.stored:
        audited.findings += rule_findings(stored)
    return batch.last


def _uses(tx: Transaction, *, audited: Audited, after: str, project: str | None) -> str | None:
    found, events, following = verify_uses(tx, after=after, project=project)
    audited.findings += found
    audited.admin_events += events
    return following


def _shadows(
    tx: Transaction, *, audited: Audited, after: tuple[str, str], only: Mapping[str, str | None]
) -> tuple[str, str] | None:
    tx[Audit].one_moment()
    rows = tx[Audit].rules.shadows(after=after, limit=BATCH, **only)
    for row in rows:
        audited.findings += shadow_findings(row)
    return (rows[-1].rule_id, rows[-1].breakpoint_id) if len(rows) == BATCH else None


def _files(
    tx: Transaction, *, audited: Audited, after: tuple[str, str], only: Mapping[str, str | None]
) -> tuple[str, str] | None:
    """Check that stored file contents match their digests and sizes."""
    rows = tx[Audit].files(after=after, limit=FILES, **only)
    for project, digest, size, content in rows:
        if sha256(content) != digest or len(content) != size:
            what = f"the content of file {digest} in project {project} differs from the uploaded content"
            audited.findings.append(Finding(Part.CONTENT, None, None, what))
    audited.files += len(rows)
    return (rows[-1][0], rows[-1][1]) if len(rows) == FILES else None


def _check(tx: Transaction, *, name: str, audited: Audited) -> Check:
    tx[Audit].one_moment()
    return _HOW.get(name, _by_question)(tx, name, audited)


def _by_audit(tx: Transaction, name: str, audited: Audited) -> Check:
    del tx
    looked_at = {
        "I3": audited.breakpoints + audited.rules,
        "I4": audited.events + audited.rule_events + audited.admin_events,
    }
    looked_at["I13"] = audited.admin_events
    return Check(name, PROMISES[name], looked_at.get(name, audited.breakpoints), _found(audited, name))


def _by_question(tx: Transaction, name: str, audited: Audited) -> Check:
    found = [*_found(audited, name), *tx[Audit].wrong(name, now=tx.now())]
    return Check(name, PROMISES[name], tx[Audit].count(name), found)


def _found(audited: Audited, name: str) -> list[Finding]:
    return [each for each in audited.findings if name in _PARTS and each.part is _PARTS[name]]


def _while_somebody_works(tx: Transaction, name: str, audited: Audited) -> Check:
    """Skip the check if no worker is running, because overdue work is expected in that case."""
    if tx[Audit].worker_seen(tx.now() - WORKER_ALIVE):
        return _by_question(tx, name, audited)
    return Check(name, PROMISES[name], 0, (), "no worker is running")


def _checkpoints(tx: Transaction, name: str, audited: Audited) -> Check:
    del tx
    found = _found(audited, name)
    if not found and not audited.checkpoints:
        return Check(name, PROMISES[name], 0, (), "no checkpoints yet")
    return Check(name, PROMISES[name], audited.entries + audited.checkpoints, found)


def _file(tx: Transaction, name: str, audited: Audited) -> Check:
    del audited
    if tx.session.dialect != "sqlite":
        return Check(name, PROMISES[name], 0, (), "PostgreSQL verifies pages when it reads them")
    return Check(name, PROMISES[name], 1, [Finding(Part.ROWS, None, None, said) for said in tx[Audit].damage()])


def _locks(tx: Transaction, name: str, audited: Audited) -> Check:
    del audited
    missing = [f"the trigger {each} is missing or disabled" for each in tx[Audit].missing_locks()]
    found = [Finding(Part.ROWS, None, None, said) for said in missing]
    return Check(name, PROMISES[name], len(LOCKS[tx.session.dialect]), found)


def _jobs(tx: Transaction, name: str, audited: Audited) -> Check:
    del audited
    missing = tx[Audit].missing_tables(JOB_TABLES, schema=JOB_SCHEMA)
    found = [Finding(Part.ROWS, None, None, f"the table {each} is missing; restore a backup") for each in missing]
    return Check(name, PROMISES[name], len(JOB_TABLES), found)


_HOW: Mapping[str, Callable[[Transaction, str, Audited], Check]] = {
    **dict.fromkeys(("I1", "I2", "I3", "I4", "I5", "I13", "rows"), _by_audit),
    "I10": _while_somebody_works,
    "I11": _checkpoints,
    "file": _file,
    "locks": _locks,
    "jobs": _jobs,
}


def _stored_too(tx: Transaction, *, check: Check, acknowledged: Sequence[Acknowledged]) -> Check:
    """Add a finding for each result that was acknowledged to a client but is now missing or different."""
    there = tx[Audit].outcomes([each["id"] for each in acknowledged])
    lost = [
        Finding(Part.ANSWERS, each["id"], None, f"it was acknowledged as {_outcome(each)}, but {_instead(each, there)}")
        for each in acknowledged
        if _instead(each, there)
    ]
    return replace(check, looked_at=check.looked_at + len(acknowledged), findings=[*check.findings, *lost])


def _outcome(acknowledged: Acknowledged) -> str:
    return acknowledged.get("decision") or acknowledged.get("status") or "created"


def _instead(acknowledged: Acknowledged, there: Mapping[str, tuple[str, str | None]]) -> str | None:
    """Describe the stored outcome if it contradicts the acknowledged outcome; a pending breakpoint may have ended."""
    found = there.get(acknowledged["id"])
    if found is None:
        return "it does not exist"
    told = acknowledged.get("status") or ("released" if acknowledged.get("decision") else "waiting")
    wanted = acknowledged.get("decision", found[1])
    if told != "waiting" and (told, wanted) != found:
        return f"it is {found[1] or found[0]}"
    return None
