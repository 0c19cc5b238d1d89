"""Stored secrets: all versions of each secret, always encrypted."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

COLUMNS = ("project_id", "name", "version", "ciphertext", "key_id", "created_at", "created_by", "retired_at")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_secrets"
# If two inserts race, the first row stays, regardless of which unique index the second insert violates.
INSERT = insert("assent_secrets", COLUMNS, suffix="ON CONFLICT DO NOTHING")
# Conditional, so that only one of two concurrent rotations retires the secret.
RETIRE = """
    UPDATE assent_secrets SET retired_at = :now
    WHERE project_id = :project_id AND name = :name AND version = :version AND retired_at IS NULL"""
# Does nothing if another transaction has re-encrypted the secret since it was read.
RESEAL = """
    UPDATE assent_secrets SET ciphertext = :ciphertext, key_id = :key_id
    WHERE project_id = :project_id AND name = :name AND version = :version AND key_id = :old_key_id"""
SELECT_UNDER_OTHER_KEYS = f"""
    {SELECT} WHERE key_id <> :key_id AND (project_id, name, version) > (:project_id, :name, :version)
    ORDER BY project_id, name, version LIMIT :limit"""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    project: str
    name: str
    version: int
    ciphertext: bytes = field(repr=False)
    key_id: str
    created_at: int
    created_by: str
    retired_at: int | None = None

    @property
    def place(self) -> tuple[str, str, int]:
        return self.project, self.name, self.version


class Secrets(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, new: StoredSecret) -> bool:
        """Store a secret unless this version exists or another version is current; return whether it was stored."""
        row = {
            **_key(new),
            "ciphertext": new.ciphertext,
            "key_id": new.key_id,
            "created_at": new.created_at,
            "created_by": new.created_by,
            "retired_at": new.retired_at,
        }
        with self._recorded(new):
            return self._session.change(INSERT, row) == 1

    def retire(self, current: StoredSecret, *, now: int) -> bool:
        with self._recorded(current):
            return self._session.change(RETIRE, {**_key(current), "now": now}) == 1

    def reseal(self, current: StoredSecret, *, ciphertext: bytes, key_id: str) -> bool:
        row = {**_key(current), "old_key_id": current.key_id, "ciphertext": ciphertext, "key_id": key_id}
        with self._recorded(current):
            return self._session.change(RESEAL, row) == 1

    @contextmanager
    def _recorded(self, secret: StoredSecret) -> Generator[None, None, None]:
        with self._log.changes("secret", f"{secret.name} version {secret.version}", project=secret.project):
            yield

    def newest(self, project: str, name: str, *, limit: int) -> list[StoredSecret]:
        statement = f"{SELECT} WHERE project_id = :project_id AND name = :name ORDER BY version DESC LIMIT :limit"
        params = {"project_id": project, "name": name, "limit": limit}
        return [_secret(row) for row in self._session.all(statement, params)]

    def every(self) -> list[StoredSecret]:
        return [_secret(row) for row in self._session.all(f"{SELECT} ORDER BY project_id, name, version", {})]

    def under_other_keys(self, key_id: str, *, after: tuple[str, str, int], limit: int) -> list[StoredSecret]:
        params = {"key_id": key_id, "project_id": after[0], "name": after[1], "version": after[2], "limit": limit}
        return [_secret(row) for row in self._session.all(SELECT_UNDER_OTHER_KEYS, params)]


def _key(secret: StoredSecret) -> dict[str, Any]:
    return {"project_id": secret.project, "name": secret.name, "version": secret.version}


def _secret(row: Sequence[Any]) -> StoredSecret:
    project, name, version, ciphertext, *rest = row
    return StoredSecret(project, name, version, bytes(ciphertext), *rest)
