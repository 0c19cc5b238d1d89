"""How fast somebody is told things: the times of their last messages, and when many are told in one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from assent.ports import Session

# Changes nothing, and yet takes the row: two nodes that count for the same person do so one after the other.
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
    """When the last message was sent that told of many."""
    digest_due: int | None = None
    """When the next one is planned."""

    def counted(self, now: int, *, window: int, most: int) -> "Pace | None":
        """Return it with one more message at this moment; None if that would be too many within the window."""
        recent = tuple(each for each in self.times if each > now - window)
        return replace(self, times=(*recent, now)) if len(recent) < most else None

    def free_at(self, *, window: int, most: int) -> int:
        """Return when the window has room for one more message, those that are reserved for later included."""
        return sorted(self.times)[-most] + window if len(self.times) >= most else 0

    def reserved(self, at: int) -> "Pace":
        """Return it with a place in the window for a message that is sent at this later time."""
        return replace(self, times=(*self.times, at))


class Paces:
    def __init__(self, session: Session) -> None:
        self._session = session

    def take(self, channel: str, recipient: str) -> Pace:
        """Return how somebody was told lately, locked until the transaction ends."""
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
