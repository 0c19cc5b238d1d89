"""Removes projects: nothing new is accepted from then on, and what is still open is cancelled."""

from assent.domain.access import PROJECT_REMOVED, Permission, Principal
from assent.domain.errors import Conflict, NotFound
from assent.domain.runs import Line
from assent.ports import Database
from assent.services.breakpoints import LAST, BreakpointService
from assent.services.people import DEFAULT_PROJECT
from assent.store.transaction import Transaction

BATCH = 100
"""Runs and breakpoints that one transaction cancels. On SQLite, other writers wait for it."""


class ProjectService:
    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def remove(self, tx: Transaction, project_id: str, *, by: Principal) -> None:
        """Mark a project as removed, with its sources and triggers; `close` then cancels what is open.

        Channels stay, because they still have to report that breakpoints were cancelled.
        """
        by.require(Permission.MANAGE)
        tx.acting(by)
        if project_id != by.project and not by.everywhere:
            msg = f"Project {project_id} not found."
            raise NotFound(msg)
        if project_id == DEFAULT_PROJECT:
            msg = "The default project cannot be removed."
            raise Conflict(msg)
        tx.rules.turn_page(project_id)  # locks the project, and invalidates the rules that nodes have cached
        tx.triggers.wait_for_others(project_id)
        now, actor = tx.now(), str(by.actor)
        for trigger_id in tx.triggers.versions(project_id):
            tx.triggers.remove(trigger_id, now=now, by=actor)
        for source in tx.sources.in_project(project_id):
            tx.sources.remove(source.id, now=now, by=actor)
        tx.projects.remove(project_id, now=now)

    async def close_now(self, database: Database[Transaction]) -> None:
        """Cancel the first batch at once; the timekeeper continues with the rest, even after a crash."""
        await database.write(self.close, locks=LAST)

    def close(self, tx: Transaction) -> int:
        """Cancel a batch of the runs and breakpoints left in removed projects; return how many were processed."""
        # Runs first, because an ended run does not resume when its breakpoint is cancelled.
        runs = tx.runs.left_open(limit=BATCH)
        for run_id in runs:
            tx.runs.cancel(run_id, Line("cancelled", data={"by": str(PROJECT_REMOVED)}), now=tx.now())
        room = BATCH - len(runs)
        return len(runs) + (self._breakpoints.cancel_left(tx, limit=room) if room else 0)
