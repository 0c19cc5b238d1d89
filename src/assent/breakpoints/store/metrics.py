"""Statistics on breakpoints: how many were created or ended in a period, the newest ones, and the gates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from assent.core.breakpoint import Status
from assent.db.transaction import Store

_RAISED = "id, gate, title, agent_id, status, decision, ended_by, created_at, ended_at, purged_at"
_STATUSES = {status.value: status.value for status in Status}
# One branch per status, matching ix_assent_breakpoints_status_created, so that each reads only the newest rows.
_BRANCH = f"""
    SELECT * FROM (
        SELECT {_RAISED} FROM assent_breakpoints
        WHERE project_id = :project_id AND status = :{{status}} AND created_at >= :since AND created_at < :until
        ORDER BY created_at DESC, id DESC LIMIT :limit) AS of_{{status}}"""
SELECT_NEWEST = f"""
    SELECT {_RAISED} FROM ({" UNION ALL ".join(_BRANCH.format(status=status.value) for status in Status)}) AS merged
    ORDER BY created_at DESC, id DESC LIMIT :limit"""
_COUNT = """
    (SELECT count(*) FROM assent_breakpoints
     WHERE project_id = :project_id AND status = :{status} AND created_at >= :since AND created_at < :until)"""
COUNT_RAISED = f"SELECT {' + '.join(_COUNT.format(status=status.value) for status in Status)}"
COUNT_WAITING = """
    SELECT count(*) FROM (SELECT 1 FROM assent_breakpoints
                          WHERE project_id = :project_id AND status = 'waiting' LIMIT :cap) AS found"""
# Repeats the conditions of ix_assent_breakpoints_unpurged literally; otherwise, SQLite would not use the index.
COUNT_ENDED = """
    SELECT count(*) FROM assent_breakpoints
    WHERE project_id = :project_id AND ended_at >= :since AND ended_at < :until
      AND ended_at IS NOT NULL AND purged_at IS NULL"""
# Jumps from one gate to the next, skipping each gate's remaining breakpoints.
SELECT_GATES = """
    WITH RECURSIVE walk(gate, n) AS (
        SELECT (SELECT min(b.gate) FROM assent_breakpoints b WHERE b.project_id = :project_id AND b.gate > :after), 1
        UNION ALL
        SELECT (SELECT min(b.gate) FROM assent_breakpoints b
                WHERE b.project_id = :project_id AND b.gate > walk.gate), walk.n + 1
        FROM walk WHERE walk.gate IS NOT NULL AND walk.n < :limit)
    SELECT gate FROM walk WHERE gate IS NOT NULL ORDER BY gate"""
_COUNT_OF_GATE = """
    (SELECT count(*) FROM (SELECT 1 FROM assent_breakpoints
                           WHERE project_id = :project_id AND gate = :gate AND status = :{status}
                             AND created_at >= :since LIMIT :cap) AS of_{status})"""
COUNT_GATE = f"SELECT {' + '.join(_COUNT_OF_GATE.format(status=status.value) for status in Status)}"


class Raised(NamedTuple):
    """The columns of a breakpoint that are needed for statistics."""

    id: str
    gate: str
    title: str | None
    agent_id: str
    status: str
    decision: str | None
    ended_by: str | None
    created_at: int
    ended_at: int | None
    purged_at: int | None


class Metrics(Store):
    def raised(self, project: str, since: int, until: int) -> int:
        return self._number(COUNT_RAISED, {"project_id": project, "since": since, "until": until} | _STATUSES)

    def ended(self, project: str, since: int, until: int) -> int:
        """Count breakpoints that ended in a period, except those that have been purged."""
        return self._number(COUNT_ENDED, {"project_id": project, "since": since, "until": until})

    def waiting(self, project: str, *, cap: int) -> int:
        return self._number(COUNT_WAITING, {"project_id": project, "cap": cap})

    def newest(self, project: str, since: int, until: int, *, limit: int) -> list[Raised]:
        """Return the newest breakpoints created at or after `since` and before `until`."""
        params = {"project_id": project, "since": since, "until": until, "limit": limit}
        return [Raised(*row) for row in self._session.all(SELECT_NEWEST, params | _STATUSES)]

    def gates(self, project: str, *, after: str, limit: int) -> list[str]:
        """Return the gates that follow `after` in the database's sort order."""
        params = {"project_id": project, "after": after, "limit": limit}
        return [row[0] for row in self._session.all(SELECT_GATES, params)]

    def asked(self, project: str, gate: str, *, since: int, cap: int) -> int:
        """Count a gate's breakpoints since a given time, up to `cap` for each status."""
        params = {"project_id": project, "gate": gate, "since": since, "cap": cap}
        return self._number(COUNT_GATE, params | _STATUSES)

    def _number(self, statement: str, params: Mapping[str, Any]) -> int:
        return int(self._session.all(statement, params)[0][0])
