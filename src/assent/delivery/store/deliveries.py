"""Deliveries: messages that are queued together with their event and retried until they are sent or dead."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from assent.core.breakpoint import Event, Outline
from assent.core.errors import NotFound
from assent.core.timestamps import SECOND
from assent.db.sql import among, insert
from assent.db.transaction import Store, Transaction
from assent.delivery.message import Purpose

CALLBACK = "callback"
NOTIFIED = frozenset({"created", "responded", "released", "expired", "cancelled"})
"""The events that are sent to a breakpoint's callbackUrl."""
STATES = ("pending", "sending", "sent", "answered", "superseded", "dead")
JOB = "deliver"
DIGEST = "digest"
COLUMNS = (
    "id", "project_id", "breakpoint_id", "channel", "recipient", "seq", "type", "state", "attempts", "next_at",
    "last_error", "created_at", "updated_at", "purpose", "trace", "fallback", "digested",
)  # fmt: skip
_OPEN = "state IN ('pending', 'sending') AND digested = 0"
_LISTED = f"SELECT {', '.join(COLUMNS)} FROM assent_deliveries"
_OF_CREATOR = """
    AND EXISTS (SELECT 1 FROM assent_breakpoints AS b
                WHERE b.id = assent_deliveries.breakpoint_id AND b.created_by_id = :created_by_id)"""
INSERT = insert("assent_deliveries", COLUMNS)
SELECT_HEAD = f"""
    {_LISTED} WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND {_OPEN}
    ORDER BY seq LIMIT 1"""
# Of two workers that read the same number of attempts, only the first can claim the delivery.
CLAIM = f"""
    UPDATE assent_deliveries SET state = 'sending', attempts = attempts + 1, next_at = :lease, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND next_at <= :now AND {_OPEN}"""
# A message can be answered before we know that it has arrived.
RECORD = """
    UPDATE assent_deliveries
    SET state = CASE WHEN state = 'answered' THEN 'answered' ELSE :state END, next_at = :next_at,
        last_error = :error, trace = :trace, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND state IN ('sending', 'answered')"""
GIVE_UP = f"""
    UPDATE assent_deliveries SET state = 'dead', last_error = :error, updated_at = :now
    WHERE id = :id AND attempts = :attempts AND {_OPEN}"""
BURY = f"""
    UPDATE assent_deliveries SET state = 'dead', last_error = :error, updated_at = :now
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND {_OPEN}"""
SUPERSEDE = f"""
    UPDATE assent_deliveries SET state = 'superseded', updated_at = :now
    WHERE id = :id AND attempts = :attempts AND {_OPEN}"""
ANSWERED = """
    UPDATE assent_deliveries SET state = 'answered', updated_at = :now
    WHERE id = :id AND state IN ('sent', 'sending')"""
# Excludes attempted messages: they may have arrived, so they are closed like messages that did arrive.
SUPERSEDE_UNSENT = """
    UPDATE assent_deliveries SET state = 'superseded', updated_at = :now
    WHERE breakpoint_id = :breakpoint_id AND channel <> 'callback' AND state = 'pending'
      AND purpose IN ('ask', 'remind', 'escalate') AND (attempts = 0 OR digested = 1 OR EXISTS (
        SELECT 1 FROM assent_deliveries AS told
        WHERE told.breakpoint_id = assent_deliveries.breakpoint_id AND told.channel = assent_deliveries.channel
          AND told.recipient = assent_deliveries.recipient AND told.trace IS NOT NULL AND told.digested = 0))"""
SUPERSEDE_LINE = """
    UPDATE assent_deliveries SET state = 'superseded', updated_at = :now
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND state = 'pending'
      AND purpose IN ('ask', 'remind') AND attempts = 0 AND next_at > :now"""
# A recipient whose message is postponed, for example until quiet hours end, needs no reminder before then.
SELECT_TO_REMIND = """
    SELECT DISTINCT channel, recipient FROM assent_deliveries AS told
    WHERE breakpoint_id = :breakpoint_id AND channel <> 'callback' AND purpose IN ('ask', 'remind', 'escalate')
      AND state NOT IN ('dead', 'superseded') AND NOT EXISTS (
        SELECT 1 FROM assent_deliveries AS later
        WHERE later.breakpoint_id = told.breakpoint_id AND later.channel = told.channel
          AND later.recipient = told.recipient AND later.state = 'pending' AND later.digested = 0
          AND later.attempts = 0 AND later.next_at > :now)"""
# An updated_at later than created_at marks a message that was already counted toward the rate limit.
HOLD_BACK = f"""
    UPDATE assent_deliveries SET digested = :digested, next_at = :next_at, updated_at = :now + 1
    WHERE id = :id AND attempts = :attempts AND {_OPEN}"""
# Sends a message separately, although it was held back for a digest.
RELEASE = """
    UPDATE assent_deliveries
    SET digested = 0, state = 'pending', attempts = attempts - 1, next_at = :now, updated_at = :now + 1
    WHERE id = :id AND digested = 1 AND state = 'sending' AND attempts = :attempts"""
SELECT_IN_DIGEST = """
    SELECT 1 FROM assent_deliveries
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient
      AND digested = 1 AND state = 'sending' LIMIT 1"""
SELECT_ITEMS = """
    SELECT breakpoint_id, min(id) FROM assent_deliveries
    WHERE channel = :channel AND recipient = :recipient AND digested = 1 AND trace = :trace AND purpose <> 'close'
    GROUP BY breakpoint_id ORDER BY min(id) LIMIT :limit"""
# The outcome of a crashed worker's attempt is unknown; a manual retry marks the attempt as failed.
FORGET_DEATHS = """
    UPDATE assent_attempts SET error = 'Its worker crashed.', milliseconds = 0
    WHERE delivery_id = :id AND milliseconds IS NULL"""
# Includes digests, which are also closed; messages that were held back but not sent are already superseded.
SELECT_TOLD = """
    SELECT DISTINCT channel, recipient FROM assent_deliveries
    WHERE breakpoint_id = :breakpoint_id AND channel <> 'callback' AND purpose IN ('ask', 'remind', 'escalate')
      AND state NOT IN ('dead', 'superseded')"""
# An attempted message without a trace may have arrived, unless the receiver rejected it or nothing was sent. A delivery
# that is dead after its first attempt was rejected permanently.
_UNCONFIRMED = """
    purpose IN ('ask', 'remind', 'escalate') AND digested = 0 AND trace IS NULL AND state <> 'sent'
      AND (state <> 'dead' OR attempts > 1) AND EXISTS (
        SELECT 1 FROM assent_attempts AS a
        WHERE a.delivery_id = assent_deliveries.id AND coalesce(a.unsent, 0) = 0
          AND (a.error IS NULL OR a.status IS NULL OR a.status IN (500, 502, 503, 504)))"""
SELECT_TO_CLOSE = f"""
    {SELECT_TOLD}
    UNION
    SELECT channel, recipient FROM assent_deliveries
    WHERE breakpoint_id = :breakpoint_id AND channel <> 'callback' AND {_UNCONFIRMED}"""
SELECT_UNCONFIRMED = f"""
    SELECT id FROM assent_deliveries
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient AND {_UNCONFIRMED}
    ORDER BY seq"""
SELECT_THREAD = """
    SELECT trace FROM assent_deliveries
    WHERE breakpoint_id = :breakpoint_id AND channel = :channel AND recipient = :recipient
      AND trace IS NOT NULL ORDER BY digested, seq LIMIT 1"""
SELECT_TICKET = """
    SELECT 1 FROM assent_deliveries d JOIN assent_channels c ON c.id = d.channel
    WHERE d.breakpoint_id = :breakpoint_id AND c.type = 'jira' AND d.trace IS NOT NULL LIMIT 1"""
# Includes messages whose previous worker did not record a result before its lease ended.
TAKE_DIGEST = """
    UPDATE assent_deliveries SET state = 'sending', attempts = attempts + 1, next_at = :lease, updated_at = :now
    WHERE id IN (
        SELECT id FROM assent_deliveries
        WHERE channel = :channel AND recipient = :recipient AND digested = 1
          AND (state = 'pending' OR (state = 'sending' AND next_at <= :now)) ORDER BY id LIMIT :most)"""
# The end of the lease identifies the messages that this worker has just claimed.
SELECT_DIGEST = f"""
    {_LISTED} WHERE channel = :channel AND recipient = :recipient AND digested = 1 AND state = 'sending'
      AND next_at = :lease ORDER BY id"""
END_DIGEST = """
    UPDATE assent_deliveries
    SET state = :state, next_at = :next_at, last_error = :error, trace = :trace, updated_at = :now
    WHERE channel = :channel AND recipient = :recipient AND digested = 1 AND state = 'sending' AND next_at = :lease"""
HAS_ANOTHER_WAY = "AND fallback IS NOT NULL AND purpose <> 'close'"
SELECT_STUCK_DIGESTS = """
    SELECT DISTINCT channel, recipient FROM assent_deliveries
    WHERE digested = 1 AND state IN ('pending', 'sending') AND next_at < :before LIMIT :limit"""
REVIVE = """
    UPDATE assent_deliveries SET state = 'pending', next_at = :now, updated_at = :now, digested = 0
    WHERE id = :id AND project_id = :project_id AND state = :state"""
INSERT_ATTEMPT = insert("assent_attempts", ("delivery_id", "n", "at", "worker", "milliseconds", "status", "error"))
FINISH_ATTEMPT = """
    UPDATE assent_attempts SET milliseconds = :milliseconds, status = :status, error = :error, unsent = :unsent
    WHERE delivery_id = :id AND n = :n"""
SELECT_ATTEMPTS = """
    SELECT n, at, worker, milliseconds, status, error, unsent FROM assent_attempts
    WHERE delivery_id = :id ORDER BY n"""
COUNT_FAILURES = "SELECT count(*) FROM assent_attempts WHERE delivery_id = :id AND error IS NOT NULL"
COUNT_DEAD = """
    SELECT count(*) FROM (
        SELECT 1 FROM assent_deliveries WHERE project_id = :project_id AND state = 'dead' LIMIT :most) AS given_up"""
# Only the first delivery of each line: later ones are waiting for it, so they are not stuck.
SELECT_STUCK = f"""
    {_LISTED} AS stuck WHERE {_OPEN} AND next_at < :before AND NOT EXISTS (
        SELECT 1 FROM assent_deliveries AS earlier
        WHERE earlier.breakpoint_id = stuck.breakpoint_id AND earlier.channel = stuck.channel
          AND earlier.recipient = stuck.recipient AND earlier.seq < stuck.seq
          AND earlier.state IN ('pending', 'sending') AND earlier.digested = 0)
    ORDER BY next_at LIMIT :limit"""


class Enqueue(Protocol):
    def __call__(self, job: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    project: str
    breakpoint_id: str
    channel: str
    recipient: str
    seq: int
    type: str
    state: str
    attempts: int
    next_at: int
    last_error: str | None
    created_at: int
    updated_at: int
    purpose: str = Purpose.TELL.value
    trace: str | None = None
    """Locates the sent message, as JSON that only its channel interprets."""
    fallback: str | None = None
    """The names of the channels to try if this delivery dies, as JSON."""
    digested: int = 0
    """1 if the delivery is sent as part of a digest."""

    @property
    def line(self) -> dict[str, str]:
        """The key shared by deliveries that are sent in order."""
        return {"breakpoint_id": self.breakpoint_id, "channel": self.channel, "recipient": self.recipient}


@dataclass(frozen=True, slots=True)
class Attempt:
    n: int
    at: int
    worker: str
    milliseconds: int | None
    status: int | None
    error: str | None
    unsent: bool = False
    """Whether the attempt failed before anything was sent."""


class Deliveries(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._new_id = tx.new_id
        self._enqueue = tx.enqueue

    def tell(self, breakpoint_: Outline, events: Sequence[Event]) -> None:
        """Queue the callbacks for a breakpoint's events, in the events' own transaction so that none is lost."""
        if breakpoint_.callback_url is None:
            return
        told = [event for event in events if event.type in NOTIFIED]
        # Sorted, because IDs created in the same millisecond differ only in random bits, and lists are ordered by ID.
        ids = sorted(self._new_id("dlv") for _ in told)
        for event, new_id in zip(told, ids, strict=True):
            delivery = about(new_id, breakpoint_, event, channel=CALLBACK, recipient=breakpoint_.callback_url)
            self._session.write(INSERT, [_row(delivery)])
            self.enqueue(delivery, delay=0)

    def add(self, new: Delivery, *, now: int) -> bool:
        """Queue a message until it is due; return False if this event is already queued for this recipient."""
        if self._session.change(f"{INSERT} ON CONFLICT DO NOTHING", _row(new)) != 1:
            return False
        if not new.digested:
            self.enqueue(new, delay=max(0, new.next_at - now) / SECOND)
        return True

    def plan_digest(self, channel: str, recipient: str, *, at: int, now: int) -> None:
        """Schedule a digest of all messages that are held back for a recipient."""
        payload = {"channel": channel, "recipient": recipient}
        self._enqueue(DIGEST, key=f"{channel}:{recipient}:{at}", payload=payload, delay=max(0, at - now) / SECOND)

    def supersede(self, delivery: Delivery, *, now: int) -> None:
        """Mark a delivery as no longer needed."""
        self._session.write(SUPERSEDE, [{"id": delivery.id, "attempts": delivery.attempts, "now": now}])

    def supersede_unsent(self, breakpoint_id: str, *, following: Sequence[str], now: int) -> None:
        """Supersede unsent requests after the breakpoint has ended, except on channels that receive every event."""
        test, params = among("channel", following, self._session.dialect)
        row = params | {"breakpoint_id": breakpoint_id, "now": now}
        self._session.write(f"{SUPERSEDE_UNSENT} AND NOT {test}", [row])

    def supersede_line(self, breakpoint_id: str, channel: str, recipient: str, *, now: int) -> None:
        """Supersede postponed messages, because the recipient is now being notified of an escalation."""
        row = {"breakpoint_id": breakpoint_id, "channel": channel, "recipient": recipient, "now": now}
        self._session.write(SUPERSEDE_LINE, [row])

    def to_remind(self, breakpoint_id: str, *, now: int) -> list[tuple[str, str]]:
        """Return the channels and recipients to remind: those already notified, separately or in a digest."""
        rows = self._session.all(SELECT_TO_REMIND, {"breakpoint_id": breakpoint_id, "now": now})
        return [(row[0], row[1]) for row in rows]

    def hold_back(self, held: Delivery, *, now: int) -> None:
        """Send a message later, in a digest or separately."""
        row = {"id": held.id, "attempts": held.attempts, "digested": held.digested}
        self._session.write(HOLD_BACK, [row | {"next_at": held.next_at, "now": now}])
        if not held.digested:
            self.enqueue(held, delay=max(0, held.next_at - now) / SECOND, why=f":paced:{held.next_at}")

    def release(self, held: Delivery, *, now: int) -> None:
        """Send a message separately now, although it was claimed for a digest."""
        row = {"id": held.id, "attempts": held.attempts, "now": now}
        if self._session.change(RELEASE, row) == 1:
            self.enqueue(held, delay=0, why=f":alone:{now}")

    def in_digest(self, line: Mapping[str, str]) -> bool:
        """Return whether a digest that contains a message of this line is being sent."""
        return bool(self._session.all(SELECT_IN_DIGEST, line))

    def items(self, told: Delivery, trace: str, *, limit: int) -> dict[str, str]:
        """Return the breakpoints of the digest with this trace, each with the ID of its delivery."""
        params = {"channel": told.channel, "recipient": told.recipient, "trace": trace, "limit": limit}
        return {row[0]: row[1] for row in self._session.all(SELECT_ITEMS, params)}

    def answered(self, delivery_id: str, *, now: int) -> bool:
        """Mark a sent delivery as answered; return False if it is in another state."""
        return self._session.change(ANSWERED, {"id": delivery_id, "now": now}) == 1

    def told(self, breakpoint_id: str) -> list[tuple[str, str]]:
        """Return the channels and recipients that were or will be notified of a breakpoint."""
        return [(row[0], row[1]) for row in self._session.all(SELECT_TOLD, {"breakpoint_id": breakpoint_id})]

    def to_close(self, breakpoint_id: str) -> list[tuple[str, str]]:
        """Return the channels and recipients that were, or may have been, notified of a breakpoint."""
        return [(row[0], row[1]) for row in self._session.all(SELECT_TO_CLOSE, {"breakpoint_id": breakpoint_id})]

    def unconfirmed(self, line: Mapping[str, str]) -> list[str]:
        """Return the IDs of this line's messages that may have arrived without confirmation."""
        return [row[0] for row in self._session.all(SELECT_UNCONFIRMED, line)]

    def thread(self, line: Mapping[str, str]) -> str | None:
        """Return the trace of the first message of this line that arrived, preferring separate messages to digests."""
        rows = self._session.all(SELECT_THREAD, line)
        return rows[0][0] if rows else None

    def has_ticket(self, breakpoint_id: str) -> bool:
        return bool(self._session.all(SELECT_TICKET, {"breakpoint_id": breakpoint_id}))

    def take_digest(self, channel: str, recipient: str, *, most: int, now: int, lease: int) -> list[Delivery]:
        """Claim up to `most` messages that are held back for a recipient, for one attempt."""
        params: dict[str, Any] = {"channel": channel, "recipient": recipient, "lease": lease}
        if not self._session.change(TAKE_DIGEST, params | {"most": most, "now": now}):
            return []
        return [Delivery(*row) for row in self._session.all(SELECT_DIGEST, params)]

    def end_digest(self, first: Delivery, *, lease: int, now: int, only: str = "") -> None:
        """Copy the state and trace of the first delivery to those claimed with it; `only` can restrict them further."""
        params = {
            "channel": first.channel,
            "recipient": first.recipient,
            "lease": lease,
            "state": first.state,
            "next_at": first.next_at,
            "error": first.last_error,
            "trace": first.trace,
            "now": now,
        }
        self._session.write(f"{END_DIGEST} {only}", [params])

    def stuck_digests(self, before: int, *, limit: int) -> list[tuple[str, str]]:
        rows = self._session.all(SELECT_STUCK_DIGESTS, {"before": before, "limit": limit})
        return [(row[0], row[1]) for row in rows]

    def enqueue(self, delivery: Delivery, *, delay: float, why: str = "") -> None:
        """Queue a job that sends the deliveries of this line."""
        # Each key is queued only once, so every further job for the same attempt needs a different suffix.
        self._enqueue(JOB, key=f"{delivery.id}:{delivery.attempts}{why}", payload=delivery.line, delay=delay)

    def head(self, line: Mapping[str, str]) -> Delivery | None:
        """Return the first open delivery of a line."""
        rows = self._session.all(SELECT_HEAD, line)
        return Delivery(*rows[0]) if rows else None

    def claim(self, delivery: Delivery, *, worker: str, now: int, lease: int) -> bool:
        """Claim a delivery for one attempt; return False if another worker has it or it is not due."""
        params = {"id": delivery.id, "attempts": delivery.attempts, "now": now, "lease": lease}
        if self._session.change(CLAIM, params) != 1:
            return False
        attempt = {
            "delivery_id": delivery.id,
            "n": delivery.attempts + 1,
            "at": now,
            "worker": worker,
            "milliseconds": None,
            "status": None,
            "error": None,
        }
        self._session.write(INSERT_ATTEMPT, [attempt])
        return True

    def record(self, claimed: Delivery, *, now: int) -> bool:
        """Save the result of an attempt; return False if the claim expired and another worker has taken over."""
        params = {
            "id": claimed.id,
            "attempts": claimed.attempts,
            "state": claimed.state,
            "next_at": claimed.next_at,
            "error": claimed.last_error,
            "trace": claimed.trace,
            "now": now,
        }
        return self._session.change(RECORD, params) == 1

    def finish_attempt(self, delivery_id: str, attempt: Attempt) -> None:
        row = {
            "id": delivery_id,
            "n": attempt.n,
            "milliseconds": attempt.milliseconds,
            "status": attempt.status,
            "error": attempt.error,
            "unsent": int(attempt.unsent),
        }
        self._session.write(FINISH_ATTEMPT, [row])

    def give_up(self, delivery: Delivery, *, error: str, now: int) -> None:
        params = {"id": delivery.id, "attempts": delivery.attempts, "error": error, "now": now}
        self._session.write(GIVE_UP, [params])

    def bury(self, delivery: Delivery, *, error: str, now: int) -> None:
        """Give up all open deliveries of this line."""
        self._session.write(BURY, [delivery.line | {"error": error, "now": now}])

    def revive(self, ended: Delivery, *, now: int) -> bool:
        """Make a delivery pending again; return False if its state has changed in the meantime."""
        params = {"id": ended.id, "project_id": ended.project, "state": ended.state, "now": now}
        if self._session.change(REVIVE, params) != 1:
            return False
        self._session.write(FORGET_DEATHS, [{"id": ended.id}])
        return True

    def get(self, delivery_id: str, *, project: str, created_by_id: str | None = None) -> Delivery:
        """Return a delivery or raise NotFound; `created_by_id` limits it to the breakpoints of that creator."""
        mine = _OF_CREATOR if created_by_id is not None else ""
        params = {"id": delivery_id, "project_id": project, "created_by_id": created_by_id}
        rows = self._session.all(f"{_LISTED} WHERE id = :id AND project_id = :project_id{mine}", params)
        if not rows:
            msg = f"Delivery {delivery_id} not found in this project."
            raise NotFound(msg)
        return Delivery(*rows[0])

    def attempts(self, delivery_id: str) -> list[Attempt]:
        rows = self._session.all(SELECT_ATTEMPTS, {"id": delivery_id})
        return [replace(Attempt(*row), unsent=row[-1] == 1) for row in rows]

    def failures(self, delivery_id: str) -> int:
        """Return how many attempts are known to have failed; the outcome is unknown if the worker crashed."""
        count: int = self._session.all(COUNT_FAILURES, {"id": delivery_id})[0][0]
        return count

    def count_dead(self, project: str, *, most: int) -> int:
        """Return the number of dead deliveries, up to `most`."""
        count: int = self._session.all(COUNT_DEAD, {"project_id": project, "most": most})[0][0]
        return count

    def titles(self, breakpoint_ids: Sequence[str]) -> dict[str, str]:
        """Return the title of each breakpoint, or its gate if it has no title."""
        test, params = among("id", breakpoint_ids, self._session.dialect)
        rows = self._session.all(f"SELECT id, coalesce(title, gate) FROM assent_breakpoints WHERE {test}", params)
        return {row[0]: row[1] for row in rows}

    def stuck(self, before: int, *, limit: int) -> list[Delivery]:
        """Return open deliveries that should have been handled before the given time."""
        rows = self._session.all(SELECT_STUCK, {"before": before, "limit": limit})
        return [Delivery(*row) for row in rows]

    def page(self, project: str, filters: Mapping[str, str], *, after: str, limit: int) -> list[Delivery]:
        """Return deliveries before an ID, newest first; `created_by_id` filters by the breakpoint's creator."""
        wheres = "".join(f" AND {name} = :{name}" for name in ("state", "breakpoint_id", "channel") if name in filters)
        wheres += _OF_CREATOR if "created_by_id" in filters else ""
        before = " AND id < :after" if after else ""
        params = {"project_id": project, "limit": limit, **filters, **({"after": after} if after else {})}
        rows = self._session.all(
            f"{_LISTED} WHERE project_id = :project_id{wheres}{before} ORDER BY id DESC LIMIT :limit", params
        )
        return [Delivery(*row) for row in rows]


def about(new_id: str, breakpoint_: Outline, event: Event, *, channel: str, recipient: str) -> Delivery:
    """Return a delivery for an event, due immediately."""
    return Delivery(
        id=new_id,
        project=breakpoint_.project,
        breakpoint_id=breakpoint_.id,
        channel=channel,
        recipient=recipient,
        seq=event.seq,
        type=event.type,
        state="pending",
        attempts=0,
        next_at=event.at,
        last_error=None,
        created_at=event.at,
        updated_at=event.at,
    )


def _row(new: Delivery) -> dict[str, Any]:
    return {name: getattr(new, name) for name in COLUMNS if name != "project_id"} | {"project_id": new.project}
