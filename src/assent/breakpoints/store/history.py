"""A gate's history: details that the list of breakpoints omits, and the newest breakpoints, used for statistics."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assent.core.breakpoint import Status
from assent.db.sql import among
from assent.db.transaction import Store

SELECT_MORE = "SELECT id, result, auto_approval FROM assent_breakpoints WHERE {test}"
_COUNTED = "id, agent_id, created_by_id, status, decision, ended_by, created_at, ended_at"
# One branch per status, matching ix_assent_breakpoints_gate, so that each reads only the newest rows.
_BRANCH = f"""
    SELECT * FROM (
        SELECT {_COUNTED} FROM assent_breakpoints
        WHERE project_id = :project_id AND gate = :gate AND status = :{{status}}
        ORDER BY created_at DESC, id DESC LIMIT :limit) AS of_{{status}}"""
SELECT_NEWEST = f"""
    SELECT {_COUNTED} FROM ({" UNION ALL ".join(_BRANCH.format(status=status.value) for status in Status)}) AS merged
    ORDER BY created_at DESC, id DESC LIMIT :limit"""
_STATUSES = {status.value: status.value for status in Status}


class More(NamedTuple):
    """Details that the list of breakpoints omits."""

    feedback: str | None
    matched_rule: str | None


class Counted(NamedTuple):
    id: str
    agent_id: str
    created_by_id: str
    status: str
    decision: str | None
    ended_by: str | None
    created_at: int
    ended_at: int | None


class History(Store):
    def more(self, ids: Sequence[str]) -> dict[str, More]:
        test, params = among("id", ids, self._session.dialect)
        return {row[0]: _more(row[1], row[2]) for row in self._session.all(SELECT_MORE.format(test=test), params)}

    def newest(self, project: str, gate: str, *, limit: int) -> list[Counted]:
        """Return a gate's newest breakpoints by all agents, because filtering by one agent could scan many rows."""
        params = {"project_id": project, "gate": gate, "limit": limit}
        return [Counted(*row) for row in self._session.all(SELECT_NEWEST, params | _STATUSES)]


def _more(result: str | None, auto_approval: str) -> More:
    ended: Mapping[str, Any] = msgspec.json.decode(result) if result else {}
    advice: Mapping[str, Any] = msgspec.json.decode(auto_approval)
    return More(ended.get("feedback"), advice.get("matchedRule"))
