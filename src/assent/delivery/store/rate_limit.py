"""The rate limit and the digest schedule of each recipient."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from assent.db.transaction import Store

# Locks the row without changing it, so that nodes count messages to the same recipient one after the other.
TAKE = """
    INSERT INTO assent_pace (channel, recipient, times) VALUES (:channel, :recipient, '[]')
    ON CONFLICT (channel, recipient) DO UPDATE SET times = assent_pace.times
    RETURNING times, digest_at, digest_due"""
SAVE = """
    UPDATE assent_pace SET times = :times, digest_at = :digest_at, digest_due = :digest_due
    WHERE channel = :channel AND recipient = :recipient"""


@dataclass(frozen=True, slots=True)
class Pace:
    channel: str
    recipient: str
    times: tuple[int, ...] = ()
    digest_at: int | None = None
    """When the last digest was sent."""
    digest_due: int | None = None
    """When the next digest is due."""

    def counted(self, now: int, *, window: int, most: int) -> "Pace | None":
        """Return the pace with one more message now, or None if this would exceed the limit for the window."""
        recent = tuple(each for each in self.times if each > now - window)
        return replace(self, times=(*recent, now)) if len(recent) < most else None

    def free_at(self, *, window: int, most: int) -> int:
        """Return when the window has room for one more message, besides those sent and reserved; 0 means now."""
        return sorted(self.times)[-most] + window if len(self.times) >= most else 0

    def reserved(self, at: int) -> "Pace":
        """Return the pace with a slot reserved for a message that will be sent at this later time."""
        return replace(self, times=(*self.times, at))


class Paces(Store):
    def take(self, channel: str, recipient: str) -> Pace:
        """Return the pace of a recipient, locked until the transaction ends."""
        # TAKE returns rows, but it also writes.
        self._session.dirty = True
        rows: Sequence[Sequence[object]] = self._session.all(TAKE, {"channel": channel, "recipient": recipient})
        times, digest_at, digest_due = rows[0]
        assert isinstance(times, str), "the column contains text"
        return Pace(channel, recipient, tuple(msgspec.json.decode(times, type=list[int])), digest_at, digest_due)  # type: ignore[arg-type]

    def save(self, pace: Pace) -> None:
        row = {
            "channel": pace.channel,
            "recipient": pace.recipient,
            "times": msgspec.json.encode(pace.times).decode(),
            "digest_at": pace.digest_at,
            "digest_due": pace.digest_due,
        }
        self._session.write(SAVE, [row])
