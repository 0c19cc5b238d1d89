"""Verifies the admin event chains, and that the current state results from their events."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from assent.audit.routing_checks import RouteLog
from assent.audit.store.chains import Audit
from assent.core.chain import UNREADABLE, Finding, Part
from assent.db.sql import Row
from assent.db.transaction import Transaction
from assent.platform.admin_events import AdminEvent, Fold, chain_findings, unrecorded_use, use_findings
from assent.platform.admin_log import event_of
from assent.platform.admin_state import KINDS

BATCH = 2_000


def verify_chains(tx: Transaction, *, project: str | None) -> tuple[list[Finding], int, bool]:
    """Return the findings, the number of events, and whether the log has a baseline."""
    tx[Audit].one_moment()
    rows, heads = tx[Audit].admin.chains(project), tx[Audit].admin.heads(project)
    fold = Fold(KINDS)
    # The baseline is in the installation's chain, which is not among the chains of a single project.
    fold.begun = project is not None and has_baseline(tx)
    found: list[Finding] = []
    for chain_id, each in groupby(rows, key=lambda row: str(row[0])):
        events, unreadable = _events(list(each))
        found += unreadable
        found += chain_findings(chain_id, events, heads.pop(chain_id, None))
        for event in events:
            fold.take(event)
    # The remaining heads belong to chains whose events are all missing.
    for chain_id, head in sorted(heads.items()):
        found += chain_findings(chain_id, (), head)
    found += _folded(tx, fold, project)
    return found, len(rows), fold.begun


def has_baseline(tx: Transaction) -> bool:
    return any(row[3] == "baseline" for row in tx[Audit].admin.chains("*"))


def _folded(tx: Transaction, fold: Fold, project: str | None) -> list[Finding]:
    try:
        return list(fold.compare(tx[Audit].admin.states(project)))
    except UNREADABLE as error:
        what = f"people, access or settings cannot be read: {type(error).__name__}: {error}"
        return [Finding(Part.ROWS, None, None, what)]


def _events(rows: Sequence[Row]) -> tuple[list[AdminEvent], list[Finding]]:
    events: list[AdminEvent] = []
    unreadable: list[Finding] = []
    for row in rows:
        try:
            events.append(event_of(row))
        except UNREADABLE as error:
            what = f"the event cannot be read: {type(error).__name__}: {error}"
            unreadable.append(Finding(Part.ROWS, None, row[1], what, admin_chain=str(row[0])))
    return events, unreadable


def verify_uses(tx: Transaction, *, after: str, project: str | None) -> tuple[list[Finding], int, str | None]:
    """Verify a batch of used receipts; return the findings, the number of events, and where the next batch starts."""
    tx[Audit].one_moment()
    rows = tx[Audit].admin.uses(after=after, limit=BATCH, project=project)
    found = list(_uses(tx, rows))
    return found, len(rows), rows[-1][0] if len(rows) == BATCH else None


def _uses(tx: Transaction, rows: Sequence[Row]) -> Iterator[Finding]:
    events, unreadable = _events(rows)
    yield from unreadable
    stored = tx[Audit].admin.used([each.chain_id for each in events])
    for chain_id, each in groupby(events, key=lambda event: event.chain_id):
        chain = list(each)
        yield from chain_findings(chain_id, chain, None)
        yield from use_findings(chain[-1], stored.get(chain_id))


def route_log(tx: Transaction) -> RouteLog:
    """Return the recorded versions of all routes and preferences; `verify_chains` reports unreadable events."""
    log = tx[Audit].admin
    events, _ = _events(log.routes())
    return RouteLog.of(events, began_at=log.began_at(), preferences_began_at=log.preferences_began_at())


def verify_unrecorded(tx: Transaction, *, project: str | None) -> list[Finding]:
    return [unrecorded_use(each) for each in tx[Audit].admin.unrecorded_uses(project)]
