"""What was heard on channels, so that it counts once however often it is said."""

from assent.ports import Session
from assent.store.sql import insert

INSERT = insert("assent_heard", ("channel_id", "key", "at"), suffix="ON CONFLICT (channel_id, key) DO NOTHING")


class Heard:
    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(self, channel_id: str, key: str, *, at: int) -> bool:
        """Take what was heard; False if it was taken before."""
        return self._session.change(INSERT, {"channel_id": channel_id, "key": key, "at": at}) == 1

    def forget(self, before: int) -> int:
        return self._session.change("DELETE FROM assent_heard WHERE at < :before", {"before": before})
