"""Idempotency keys, claimed in the transaction whose effect they guard."""

from assent.core.errors import IdempotencyMismatch
from assent.db.sql import insert
from assent.db.transaction import Store

INSERT = insert(
    "assent_idempotency",
    ("principal_id", "key", "fingerprint", "breakpoint_id", "created_at"),
    suffix="ON CONFLICT (principal_id, key) DO NOTHING",
)
SELECT = """
    SELECT fingerprint, breakpoint_id FROM assent_idempotency WHERE principal_id = :principal_id AND key = :key"""


class Idempotency(Store):
    def claim(self, principal_id: str, key: str, *, fingerprint: str, breakpoint_id: str, now: int) -> str | None:
        """Claim a key; return the ID of the breakpoint it already belongs to, or None if the key was free."""
        row = {
            "principal_id": principal_id,
            "key": key,
            "fingerprint": fingerprint,
            "breakpoint_id": breakpoint_id,
            "created_at": now,
        }
        # ON CONFLICT waits for a concurrent insert of the same key, so exactly one request claims it.
        if self._session.change(INSERT, row) == 1:
            return None
        return self.find(principal_id, key, fingerprint=fingerprint)

    def find(self, principal_id: str, key: str, *, fingerprint: str) -> str | None:
        """Return the ID of the breakpoint that a key already belongs to, if any."""
        rows = self._session.all(SELECT, {"principal_id": principal_id, "key": key})
        if not rows:
            return None
        stored, existing = rows[0]
        if stored != fingerprint:
            raise IdempotencyMismatch(key=key)
        return str(existing)

    def forget(self, before: int) -> int:
        return self._session.change("DELETE FROM assent_idempotency WHERE created_at < :before", {"before": before})
