"""Receipts: the public keys that verify them, and a record of the receipts that have been used."""

import base64
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from assent.core.receipts import Approval, Use, spelt
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

KEY = ("project_id", "version", "key_id", "public_key", "created_at", "created_by", "retired_at", "revoked_at")
INSERT_KEY = insert("assent_receipt_keys", KEY)
SELECT_KEYS = f"SELECT {', '.join(KEY)} FROM assent_receipt_keys WHERE project_id = :project_id ORDER BY version DESC"
RETIRE = """
    UPDATE assent_receipt_keys SET retired_at = :now
    WHERE project_id = :project_id AND retired_at IS NULL"""
REVOKE = """
    UPDATE assent_receipt_keys SET revoked_at = :now
    WHERE project_id = :project_id AND retired_at IS NOT NULL AND revoked_at IS NULL"""
# All conditions are in one statement, so that only one of two concurrent uses inserts a row. Approvals from before a
# restore are excluded, because their receipts are invalid.
INSERT_USE = """
    INSERT INTO assent_receipt_uses (breakpoint_id, nonce, key_id, used_at, used_by)
    SELECT b.id, :nonce, :key_id, :used_at, :used_by FROM assent_breakpoints b
    WHERE b.id = :id AND b.project_id = :project_id AND b.decision = 'approved' AND b.digest = :digest
      AND b.head = :event AND b.purged_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM assent_epochs e WHERE e.at >= b.ended_at)
    ON CONFLICT DO NOTHING"""
SELECT_USE = "SELECT used_at, used_by FROM assent_receipt_uses WHERE breakpoint_id = :id"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A public key. The current key is for new receipts, retired keys remain valid, and revoked keys are invalid."""

    project: str
    version: int
    key_id: str
    public: bytes
    created_at: int
    created_by: str
    retired_at: int | None = None
    revoked_at: int | None = None

    @property
    def state(self) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "current" if self.retired_at is None else "retired"


class Receipts(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add_key(self, new: StoredKey) -> None:
        row = {
            "project_id": new.project,
            "version": new.version,
            "key_id": new.key_id,
            "public_key": spelt(new.public),
            "created_at": new.created_at,
            "created_by": new.created_by,
            "retired_at": new.retired_at,
            "revoked_at": new.revoked_at,
        }
        with self._log.changes("receipt-key", new.key_id, project=new.project):
            self._session.write(INSERT_KEY, [row])

    def keys(self, project: str) -> list[StoredKey]:
        """Return every key of a project, newest first."""
        return [_key(row) for row in self._session.all(SELECT_KEYS, {"project_id": project})]

    def retire(self, project: str, *, now: int) -> None:
        with self._every_key(project, "receipt-key-retired"):
            self._session.write(RETIRE, [{"project_id": project, "now": now}])

    def revoke_retired(self, project: str, *, now: int) -> None:
        with self._every_key(project, "receipt-key-revoked"):
            self._session.write(REVOKE, [{"project_id": project, "now": now}])

    @contextmanager
    def _every_key(self, project: str, act: str) -> Generator[None, None, None]:
        with ExitStack() as recorded:
            for key in self.keys(project):
                recorded.enter_context(self._log.changes("receipt-key", key.key_id, project=project, act=act))
            yield

    def use(self, approval: Approval, use: Use, *, key_id: str) -> bool:
        """Record a use; return False if the receipt has already been used or the breakpoint has changed."""
        row = {
            "id": approval.breakpoint_id,
            "project_id": approval.project,
            "digest": approval.digest,
            "event": approval.event,
            "nonce": approval.nonce,
            "key_id": key_id,
            "used_at": use.at,
            "used_by": use.by,
        }
        if self._session.change(INSERT_USE, row) != 1:
            return False
        self._log.receipt_used(approval.breakpoint_id, project=approval.project)
        return True

    def find_use(self, breakpoint_id: str) -> Use | None:
        rows = self._session.all(SELECT_USE, {"id": breakpoint_id})
        return Use(*rows[0]) if rows else None


def _key(row: Sequence[Any]) -> StoredKey:
    project, version, key_id, public, *rest = row
    return StoredKey(project, version, key_id, base64.b64decode(public), *rest)
