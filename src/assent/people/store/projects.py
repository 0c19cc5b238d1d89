"""Projects, the unit of isolation, and their policies."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.access import removed_project
from assent.core.errors import Conflict, NotFound
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

SELECT = "SELECT id, name, owner_id, policy, created_at, removed_at FROM assent_projects"
INSERT = insert(
    "assent_projects", ("id", "name", "owner_id", "policy", "created_at"), suffix="ON CONFLICT (id) DO NOTHING"
)
# NO KEY, because inserts of rows that refer to the project must not wait for this lock.
LOCK = "SELECT id FROM assent_projects WHERE id = :id FOR NO KEY UPDATE"
UPDATE = """
    UPDATE assent_projects SET name = :name, owner_id = :owner_id, policy = :policy
    WHERE id = :id AND removed_at IS NULL"""
REMOVE = "UPDATE assent_projects SET removed_at = :now WHERE id = :id AND removed_at IS NULL"


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    owner_id: str | None
    policy: Mapping[str, Any]
    created_at: int
    removed_at: int | None = None


class Projects(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, project: Project) -> None:
        with self._recorded(project):
            if self._session.change(INSERT, _row(project)) != 1:
                msg = f"A project named {project.id} already exists."
                raise Conflict(msg)

    def save(self, project: Project) -> None:
        row = _row(project)
        del row["created_at"]
        if self._session.dialect == "postgresql":
            # Lock the project before its admin chain, as changes to rules and routes do, to avoid deadlocks.
            self._session.all(LOCK, {"id": project.id})
        with self._recorded(project):
            if self._session.change(UPDATE, row) != 1:
                raise removed_project(project.id)

    def remove(self, project_id: str, *, now: int) -> None:
        """Close a project to new data; its existing data stays readable."""
        with self._log.changes("project", project_id, project=project_id, act="project-removed"):
            if self._session.change(REMOVE, {"id": project_id, "now": now}) != 1:
                self.get(project_id)  # raises NotFound if the project never existed
                raise removed_project(project_id)

    @contextmanager
    def _recorded(self, project: Project) -> Generator[None, None, None]:
        with (
            self._log.changes("project", project.id, project=project.id),
            self._log.changes("policy", project.id, project=project.id, act="policy-changed"),
        ):
            yield

    def get(self, project_id: str) -> Project:
        """Return a project, even a removed one."""
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": project_id})
        if not rows:
            msg = f"Project {project_id} not found."
            raise NotFound(msg)
        return _project(rows[0])

    def get_open(self, project_id: str) -> Project:
        """Return a project that accepts new data; raise ProjectRemoved if it was removed."""
        found = self.get(project_id)
        if found.removed_at is not None:
            raise removed_project(project_id)
        return found

    def every(self) -> list[Project]:
        """Return all projects, including removed ones."""
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
    return Project(row[0], row[1], row[2], msgspec.json.decode(row[3]), row[4], row[5])
