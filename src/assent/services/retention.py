"""Deletes content after a project's retention period, unless it is under a legal hold."""

from assent.domain.access import Permission, Principal
from assent.domain.audit import kept_digest, purge
from assent.domain.errors import InvalidRequest
from assent.domain.instants import SECOND, iso
from assent.store.retention import Hold, Old
from assent.store.transaction import Transaction

PURGE_BATCH = 200
DAY = 24 * 3600 * SECOND


class RetentionService:
    def place(self, tx: Transaction, *, by: Principal, reason: str, breakpoint_id: str | None = None) -> Hold:
        """Exempt a breakpoint, or a whole project, from purging until the hold is lifted."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx.projects.get(by.project)
        tx.holds.wait_for_purging(by.project)
        if breakpoint_id is not None:
            purged_at = tx.holds.purged_at(breakpoint_id, project=by.project)
            if purged_at is not None:
                what = f"its content was purged on {iso(purged_at)[:10]}; there is nothing left to preserve"
                raise InvalidRequest.at("/breakpointId", what)
        hold = Hold(tx.new_id("hold"), by.project, breakpoint_id, reason, str(by.actor), tx.now())
        tx.holds.add(hold)
        return hold

    def lift(self, tx: Transaction, hold_id: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx.holds.lift(hold_id, project=by.project, by=str(by.actor), now=tx.now())

    def every(self, tx: Transaction, *, by: Principal) -> list[Hold]:
        """Return all holds, including those that were lifted."""
        by.require(Permission.AUDIT)
        return tx.holds.every(tx.projects.get(by.project).id)

    def purge_due(self, tx: Transaction) -> int:
        """Purge a batch of breakpoints and runs that ended too long ago; return how many."""
        purged = 0
        for project in tx.retention.days():
            days = tx.retention.lock(project)
            if days is None:
                continue
            before = tx.now() - days * DAY
            old = tx.retention.old(project, before=before, limit=PURGE_BATCH - purged)
            if old:
                at = tx.now()
                tx.retention.purge(project, old, [purge(each, at=at, kept=_kept(project, each)) for each in old])
            purged += len(old)
            runs = tx.retention.old_runs(project, before=before, limit=PURGE_BATCH - purged)
            if runs:
                tx.retention.purge_runs(project, runs)
            purged += len(runs)
            if purged == PURGE_BATCH:
                break
        return purged


def _kept(project: str, old: Old) -> str:
    return kept_digest(project, old.run_id, old.tags, old.answers, old.comments, old.files)
