"""Projects, which isolate everything, and their policies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.domain.errors import Conflict, NotFound
from assent.ports import Session
from assent.store.sql import insert

SELECT = "SELECT id, name, owner_id, policy, created_at FROM assent_projects"
INSERT = insert(
    "assent_projects", ("id", "name", "owner_id", "policy", "created_at"), suffix="ON CONFLICT (id) DO NOTHING"
)
UPDATE = "UPDATE assent_projects SET name = :name, owner_id = :owner_id, policy = :policy WHERE id = :id"


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    owner_id: str | None
    policy: Mapping[str, Any]
    created_at: int


class Projects:
    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, project: Project) -> None:
        if self._session.change(INSERT, _row(project)) != 1:
            msg = f"A project called {project.id} exists already."
            raise Conflict(msg)

    def save(self, project: Project) -> None:
        row = _row(project)
        del row["created_at"]
        self._session.change(UPDATE, row)

    def get(self, project_id: str) -> Project:
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": project_id})
        if not rows:
            msg = f"There is no project {project_id}."
            raise NotFound(msg)
        return _project(rows[0])

    def every(self) -> list[Project]:
        return [_project(row) for row in self._session.all(f"{SELECT} ORDER BY id", {})]


def _row(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "owner_id": project.owner_id,
        "policy": msgspec.json.encode(project.policy).decode(),
        "created_at": project.created_at,
    }


def _project(row: Sequence[Any]) -> Project:
    return Project(row[0], row[1], row[2], msgspec.json.decode(row[3]), row[4])
