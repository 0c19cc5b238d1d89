"""The previous attempt: the preceding breakpoint with the same gate and run, and its files without their content."""

from typing import NamedTuple

from assent.breakpoints.store.reading import WHOLE_COLUMNS, Whole
from assent.db.transaction import Store

# Uses ix_assent_breakpoints_run: a run has few gates, so filtering its other breakpoints is cheap.
SELECT_PREVIOUS = f"""
    SELECT {", ".join(WHOLE_COLUMNS)} FROM assent_breakpoints
    WHERE project_id = :project_id AND run_id = :run_id AND gate = :gate AND (created_at, id) < (:created_at, :id)
    ORDER BY created_at DESC, id DESC LIMIT 1"""
SELECT_ENTRIES = """
    SELECT n, path, format, sha256, size FROM assent_breakpoint_files WHERE breakpoint_id = :id ORDER BY n"""


class Named(NamedTuple):
    """A context file without its content."""

    n: int
    path: str
    format: str
    sha256: str | None
    size: int | None


class Attempts(Store):
    def find_previous(self, row: Whole) -> Whole | None:
        if row.run_id is None:
            return None
        params = {
            "project_id": row.project_id,
            "run_id": row.run_id,
            "gate": row.gate,
            "created_at": row.created_at,
            "id": row.id,
        }
        rows = self._session.all(SELECT_PREVIOUS, params)
        return Whole(*rows[0]) if rows else None

    def files(self, breakpoint_id: str) -> list[Named]:
        return [Named(*row) for row in self._session.all(SELECT_ENTRIES, {"id": breakpoint_id})]
