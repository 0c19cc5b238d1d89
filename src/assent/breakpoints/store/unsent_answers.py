"""Answers that never took effect, kept until the reviewer dismisses the notice."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from assent.breakpoints.undo_window import UnsentAnswer
from assent.db.sql import insert
from assent.db.transaction import Store

COLUMNS = ("id", "breakpoint_id", "person_id", "project_id", "approved", "comment", "why", "at")
INSERT = insert("assent_unsent_answers", COLUMNS)
SELECT = f"""
    SELECT {", ".join(COLUMNS)} FROM assent_unsent_answers
    WHERE person_id = :person_id ORDER BY id LIMIT :limit"""
DELETE = "DELETE FROM assent_unsent_answers WHERE id = :id AND person_id = :person_id"


class UnsentAnswers(Store):
    def add(self, unsent: UnsentAnswer) -> None:
        row = asdict(unsent)
        row["project_id"], row["approved"] = row.pop("project"), int(unsent.approved)
        self._session.write(INSERT, [row])

    def of(self, person_id: str, *, limit: int) -> list[UnsentAnswer]:
        """Return the notices from all projects that this person has not dismissed, oldest first."""
        rows = self._session.all(SELECT, {"person_id": person_id, "limit": limit})
        return [_unsent_answer(row) for row in rows]

    def dismiss(self, unsent_id: str, *, person_id: str) -> bool:
        """Remove a notice; return False if this person has no such notice."""
        return self._session.change(DELETE, {"id": unsent_id, "person_id": person_id}) == 1


def _unsent_answer(row: Sequence[Any]) -> UnsentAnswer:
    value: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    value["project"], value["approved"] = value.pop("project_id"), bool(value["approved"])
    return UnsentAnswer(**value)
