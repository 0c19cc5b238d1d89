"""Deletes content after a project's retention period, unless the content is under a legal hold."""

from assent.audit.chain_checks import kept_digest, purge
from assent.audit.store.retention import Hold, Holds, Old, Retention
from assent.core.access import Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.people.store.projects import Projects

PURGE_BATCH = 200
DAY = 24 * 3600 * SECOND


class RetentionService:
    def place(self, tx: Transaction, *, by: Principal, reason: str, breakpoint_id: str | None = None) -> Hold:
        """Exempt a breakpoint or an entire project from purging until the hold is lifted."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Projects].get(by.project)
        # Wait before checking the breakpoint, because a running purge may be deleting its content.
        tx[Holds].wait_for_purging(by.project)
        if breakpoint_id is not None:
            purged_at = tx[Holds].purged_at(breakpoint_id, project=by.project)
            if purged_at is not None:
                what = f"its content was purged on {iso(purged_at)[:10]}; there is nothing left to preserve"
                raise InvalidRequest.at("/breakpointId", what)
        hold = Hold(tx.new_id("hold"), by.project, breakpoint_id, reason, str(by.actor), tx.now())
        tx[Holds].add(hold)
        return hold

    def lift(self, tx: Transaction, hold_id: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Holds].lift(hold_id, project=by.project, by=str(by.actor), now=tx.now())

    def every(self, tx: Transaction, *, by: Principal) -> list[Hold]:
        """Return all holds, including those that were lifted."""
        by.require(Permission.AUDIT)
        return tx[Holds].every(tx[Projects].get(by.project).id)

    def purge_due(self, tx: Transaction) -> int:
        """Purge a batch of breakpoints and runs whose retention period has ended; return how many were purged."""
        purged = 0
        for project in tx[Retention].days():
            # Read the policy again under the lock, because it may have changed.
            days = tx[Retention].lock(project)
            if days is None:
                continue
            before = tx.now() - days * DAY
            old = tx[Retention].old(project, before=before, limit=PURGE_BATCH - purged)
            if old:
                at = tx.now()
                tx[Retention].purge(project, old, [purge(each, at=at, kept=_kept(project, each)) for each in old])
            purged += len(old)
            runs = tx[Retention].old_runs(project, before=before, limit=PURGE_BATCH - purged)
            if runs:
                tx[Retention].purge_runs(project, runs)
            purged += len(runs)
            if purged == PURGE_BATCH:
                break
        return purged


def _kept(project: str, old: Old) -> str:
    return kept_digest(project, old.run_id, old.tags, old.answers, old.comments, old.files)
