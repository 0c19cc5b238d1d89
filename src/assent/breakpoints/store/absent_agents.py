"""Marks that tell reviewers which agents have disconnected. A mark never ends a breakpoint."""

from collections.abc import Sequence

from assent.core.breakpoint import Status
from assent.db.sql import Row, among
from assent.db.transaction import Store
from assent.kernel.ports import Hint

MARK = """
    INSERT INTO assent_absent_agents (breakpoint_id, project_id, since)
    SELECT id, project_id, :now FROM assent_breakpoints WHERE status = 'waiting' AND {these}
    ON CONFLICT (breakpoint_id) DO NOTHING"""
SELECT = """
    SELECT a.breakpoint_id, a.project_id, b.version, a.since
    FROM assent_absent_agents a JOIN assent_breakpoints b ON b.id = a.breakpoint_id
    WHERE b.status = 'waiting' AND {these}"""
UNMARK = "DELETE FROM assent_absent_agents WHERE {these}"
FORGET = """
    DELETE FROM assent_absent_agents
    WHERE breakpoint_id IN (SELECT a.breakpoint_id FROM assent_absent_agents a
                            JOIN assent_breakpoints b ON b.id = a.breakpoint_id WHERE b.status <> 'waiting')"""


class AbsentAgents(Store):
    def mark(self, breakpoint_ids: Sequence[str], *, now: int) -> list[Hint]:
        """Mark the breakpoints that are still pending, and return hints for the pages that show them."""
        these, params = among("id", breakpoint_ids, self._session.dialect)
        # Marks of ended breakpoints are deleted only here; queries ignore them until then.
        self._session.write(FORGET, [{}])
        self._session.write(MARK.format(these=these), [params | {"now": now}])
        # Breakpoints with an earlier time were already marked, so their pages do not change.
        return [_hint(row) for row in self._rows(breakpoint_ids) if row[3] == now]

    def unmark(self, breakpoint_ids: Sequence[str]) -> list[Hint]:
        """Remove the breakpoints' marks, and return hints for the pages that show them."""
        marked = self._rows(breakpoint_ids)
        these, params = among("breakpoint_id", [row[0] for row in marked], self._session.dialect)
        self._session.write(UNMARK.format(these=these), [params])
        return [_hint(row) for row in marked]

    def since(self, breakpoint_ids: Sequence[str]) -> dict[str, int]:
        """Return when each marked breakpoint's agent disconnected."""
        return {row[0]: row[3] for row in self._rows(breakpoint_ids)}

    def _rows(self, breakpoint_ids: Sequence[str]) -> Sequence[Row]:
        these, params = among("a.breakpoint_id", breakpoint_ids, self._session.dialect)
        return self._session.all(SELECT.format(these=these), params)


def _hint(row: Row) -> Hint:
    return Hint(row[1], row[0], Status.WAITING, row[2], quiet=True)
