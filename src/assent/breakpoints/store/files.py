"""Context files: contents stored once per project under their SHA-256, and the entries that refer to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assent.core.errors import NotFound
from assent.core.timestamps import iso
from assent.db.sql import insert
from assent.db.transaction import Store

_INSERT = insert("assent_files", ("project_id", "sha256", "size", "content", "created_at"))
# On PostgreSQL, this locks the row, even if it already exists, so that a purge waits until the breakpoint is created.
INSERT = {
    "sqlite": f"{_INSERT} ON CONFLICT DO NOTHING",
    "postgresql": f"{_INSERT} ON CONFLICT (project_id, sha256) DO UPDATE SET size = excluded.size",
}
# FOR KEY SHARE locks an existing file for the same reason.
SELECT_SIZE = {
    "sqlite": "SELECT size FROM assent_files WHERE project_id = :project_id AND sha256 = :sha256",
    "postgresql": "SELECT size FROM assent_files WHERE project_id = :project_id AND sha256 = :sha256 FOR KEY SHARE",
}
INSERT_ENTRY = insert("assent_breakpoint_files", ("breakpoint_id", "n", "path", "format", "language", "sha256", "size"))
SELECT_ENTRY = """
    SELECT b.purged_at, e.n, e.path, e.format, e.language, e.sha256, e.size, f.content
    FROM assent_breakpoint_files e
    JOIN assent_breakpoints b ON b.id = e.breakpoint_id
    LEFT JOIN assent_files f ON f.project_id = b.project_id AND f.sha256 = e.sha256
    WHERE e.breakpoint_id = :id AND b.project_id = :project_id AND e.n = :n"""


@dataclass(frozen=True, slots=True)
class FileEntry:
    n: int
    path: str
    format: str
    language: str | None
    sha256: str | None
    size: int | None
    content: bytes | None = None


class Files(Store):
    def put(self, project: str, sha256: str, content: bytes, *, at: int) -> None:
        row = {"project_id": project, "sha256": sha256, "size": len(content), "content": content, "created_at": at}
        self._session.change(INSERT[self._session.dialect], row)

    def size(self, project: str, sha256: str) -> int | None:
        rows = self._session.all(SELECT_SIZE[self._session.dialect], {"project_id": project, "sha256": sha256})
        return rows[0][0] if rows else None

    def attach(self, breakpoint_id: str, entries: Sequence[FileEntry]) -> None:
        rows: list[dict[str, Any]] = [
            {
                "breakpoint_id": breakpoint_id,
                "n": entry.n,
                "path": entry.path,
                "format": entry.format,
                "language": entry.language,
                "sha256": entry.sha256,
                "size": entry.size,
            }
            for entry in entries
        ]
        if rows:
            self._session.write(INSERT_ENTRY, rows)

    def get_entry(self, breakpoint_id: str, n: int, *, project: str) -> FileEntry:
        rows = self._session.all(SELECT_ENTRY, {"id": breakpoint_id, "project_id": project, "n": n})
        if not rows:
            msg = f"File {n} of breakpoint {breakpoint_id} not found."
            raise NotFound(msg)
        if rows[0][0] is not None:
            msg = f"The content of {breakpoint_id} was purged on {iso(rows[0][0])[:10]}."
            raise NotFound(msg)
        entry = FileEntry(*rows[0][1:])
        if entry.content is None:
            msg = f"The agent listed {entry.path!r} but did not upload it."
            raise NotFound(msg)
        return entry
