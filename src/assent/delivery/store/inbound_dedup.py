"""Deduplicates inbound channel messages."""

from assent.db.sql import insert
from assent.db.transaction import Store

INSERT = insert("assent_heard", ("channel_id", "key", "at"), suffix="ON CONFLICT (channel_id, key) DO NOTHING")


class Heard(Store):
    def claim(self, channel_id: str, key: str, *, at: int) -> bool:
        """Claim a message; return False if it was already claimed."""
        return self._session.change(INSERT, {"channel_id": channel_id, "key": key, "at": at}) == 1

    def forget(self, before: int) -> int:
        return self._session.change("DELETE FROM assent_heard WHERE at < :before", {"before": before})
