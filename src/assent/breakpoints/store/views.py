"""Saved views: filtered lists that people have saved under a name."""

from assent.breakpoints.saved_views import SavedView
from assent.db.sql import insert
from assent.db.transaction import Store

UPSERT = insert(
    "assent_views",
    ("person_id", "project_id", "name", "query", "at"),
    suffix="ON CONFLICT (person_id, project_id, name) DO UPDATE SET query = excluded.query, at = excluded.at",
)
SELECT = """
    SELECT name, query, at FROM assent_views
    WHERE person_id = :person_id AND project_id = :project_id ORDER BY lower(name), name"""
COUNT_OTHERS = (
    "SELECT count(*) FROM assent_views WHERE person_id = :person_id AND NOT (project_id = :project_id AND name = :name)"
)
DELETE = "DELETE FROM assent_views WHERE person_id = :person_id AND project_id = :project_id AND name = :name"
# Prevents concurrent saves from exceeding the limit.
LOCK = "SELECT id FROM assent_people WHERE id = :person_id FOR NO KEY UPDATE"


class Views(Store):
    def wait_for_others(self, person_id: str) -> None:
        """Block other saves by this person until the transaction ends."""
        if self._session.dialect == "postgresql":
            self._session.all(LOCK, {"person_id": person_id})

    def put(self, view: SavedView, *, person_id: str, project: str) -> None:
        row = {"name": view.name, "query": view.query, "at": view.at, "person_id": person_id, "project_id": project}
        self._session.write(UPSERT, [row])

    def count_others(self, name: str, *, person_id: str, project: str) -> int:
        """Return how many other views this person has, in all projects."""
        params = {"person_id": person_id, "project_id": project, "name": name}
        return int(self._session.all(COUNT_OTHERS, params)[0][0])

    def every(self, *, person_id: str, project: str) -> list[SavedView]:
        rows = self._session.all(SELECT, {"person_id": person_id, "project_id": project})
        return [SavedView(*row) for row in rows]

    def remove(self, name: str, *, person_id: str, project: str) -> bool:
        return self._session.change(DELETE, {"person_id": person_id, "project_id": project, "name": name}) == 1
