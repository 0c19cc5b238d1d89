"""Removes projects: they accept nothing new, and their open runs and breakpoints are cancelled."""

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import PROJECT_REMOVED, Permission, Principal
from assent.core.errors import Conflict, NotFound
from assent.core.timestamps import LAST
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.people.store.projects import Projects
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.policy.store.rules import Rules
from assent.runs.model import Line
from assent.runs.store import Runs
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import Triggers

BATCH = 100
"""Maximum number of runs and breakpoints cancelled per transaction. On SQLite, other writers wait until it ends."""


class ProjectService:
    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def remove(self, tx: Transaction, project_id: str, *, by: Principal) -> None:
        """Mark a project as removed, with its sources and triggers. `close` then cancels everything that is still open.

        Channels are kept, because they still have to report the cancelled breakpoints.
        """
        by.require(Permission.MANAGE)
        tx.acting(by)
        if project_id != by.project and not by.everywhere:
            msg = f"Project {project_id} not found."
            raise NotFound(msg)
        if project_id == DEFAULT_PROJECT:
            msg = "The default project cannot be removed."
            raise Conflict(msg)
        tx[Rules].turn_page(project_id)  # locks the project, and invalidates the rules that nodes have cached
        tx[Triggers].wait_for_others(project_id)
        now, actor = tx.now(), str(by.actor)
        for trigger_id in tx[Triggers].versions(project_id):
            tx[Triggers].remove(trigger_id, now=now, by=actor)
        for source in tx[Sources].in_project(project_id):
            tx[Sources].remove(source.id, now=now, by=actor)
        tx[Projects].remove(project_id, now=now)

    async def close_now(self, database: Database[Transaction]) -> None:
        """Cancel the first batch immediately. The timekeeper continues with the rest, even after a crash."""
        await database.write(self.close, locks=LAST)

    def close(self, tx: Transaction) -> int:
        """Cancel a batch of runs and breakpoints in removed projects, and return the number processed."""
        # Cancel runs first, because a run that has ended does not resume when its breakpoint is cancelled.
        runs = tx[Runs].left_open(limit=BATCH)
        for run_id in runs:
            tx[Runs].cancel(run_id, Line("cancelled", data={"by": str(PROJECT_REMOVED)}), now=tx.now())
        room = BATCH - len(runs)
        return len(runs) + (self._breakpoints.cancel_left(tx, limit=room) if room else 0)
