"""Claims deliveries and records their results, in the order of their events, until they are sent or dead.

A worker claims a due delivery in one transaction, sends it outside any transaction, and records the result in another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import structlog

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.core.access import Permission, Principal
from assent.core.breakpoint import Breakpoint, Event, Status
from assent.core.errors import Conflict, Unavailable
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.pacing import Pacing
from assent.delivery.channels.registry import KINDS
from assent.delivery.message import Digest, Note, Purpose
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import CALLBACK, DIGEST, HAS_ANOTHER_WAY, JOB, Attempt, Deliveries, Delivery
from assent.delivery.store.rate_limit import Paces
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.recipients import addressee, fall_back, limits_of, may_be_told, paced, traced
from assent.kernel.ports import Incoming
from assent.people.usecases.secrets import SecretService
from assent.platform.admin_log import AdminLog

LADDER = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds to wait before each retry of a callback; if the last retry fails, the delivery is dead."""
QUESTION_LADDER = (5, 30, 120, 600, 1_800, 3_600)
"""The same for messages on channels, which lose value over time; later retries are hourly until the breakpoint ends."""
PATIENCE = 4
"""Number of retries on one channel before the next channel is used, if the route has one."""
ENDED_TRIES = 30
"""Number of retries of a message about a breakpoint that has ended; they take about a day."""
JITTER = 0.2
LEASE = 30 * SECOND
"""How long one attempt may take before another worker may try."""
FRESH = 10 * SECOND
"""Minimum interval between updates of a healthy channel's last success."""
FALL_BACK_BATCH = 100
MOST_TOLD = 100_000
NAMED = 20
"""Maximum number of breakpoints that a digest lists."""
SMALLEST_DIGEST = 2
DIGEST_SETTLES = 2 * SECOND
"""Delay before retrying a closing message while a digest that lists its breakpoint is being sent."""
UNLIMITED = Pacing(1_000, 1)
STUCK = 60 * SECOND
HEAL_BATCH = 200
RETRY_BATCH = 500
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt at a delivery, with everything it needs outside the transaction."""

    delivery: Delivery
    breakpoint: Breakpoint
    event: Event
    at: int
    secrets: tuple[str, ...] = ()
    unsigned: str = ""
    """Why no secret is available for signing; unsigned messages are never sent."""
    channel: StoredChannel | None = None
    """None for a callback, which has only an address."""
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class DigestClaim:
    """One attempt at a digest."""

    channel: StoredChannel
    taken: Sequence[Delivery]
    digest: Digest
    lease: int


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of an attempt."""

    status: int | None
    error: str | None
    milliseconds: int
    final: bool = False
    gone: bool = False
    retry_after: float | None = None
    unsent: bool = False
    """Whether the attempt failed before anything was sent."""
    trace: Mapping[str, str] | None = None
    said: Incoming | None = None
    """The answer in the receiver's response, if the channel accepts such answers."""


class DeliveryService:
    def __init__(self, secrets: SecretService, base_url: str) -> None:
        self._secrets = secrets
        self._base_url = base_url

    def claim(self, tx: Transaction, line: Mapping[str, str], *, worker: str) -> Claim | None:
        """Claim the first open delivery of a line for one attempt, if it is due and no other worker has claimed it."""
        now = tx.now()
        # Settle messages that do not need an attempt, until one does or none is due.
        while (head := tx[Deliveries].head(line)) is not None and head.next_at <= now:
            current = tx[Breakpoints].look(head.breakpoint_id, project=head.project)
            if not self._is_idle(tx, head, current, now):
                break
        if head is None:
            return None
        if not tx[Deliveries].claim(head, worker=worker, now=now, lease=now + LEASE):
            if head.state == "sending":
                # The worker that claimed it may have crashed, so check again when its lease ends.
                tx[Deliveries].enqueue(head, delay=(head.next_at - now) / SECOND + 1, why=":lease")
            return None
        claimed = replace(head, state="sending", attempts=head.attempts + 1)
        current = tx[Breakpoints].look(head.breakpoint_id, project=head.project)
        event = tx[Breakpoints].events(head.breakpoint_id, after=head.seq - 1, limit=1)[0]
        if head.channel == CALLBACK:
            secrets, unsigned = self._signing(tx, head.project)
            return Claim(claimed, current, event, now, secrets, unsigned)
        stored = tx[Channels].get(head.channel)
        note = self._note(tx, claimed, current, event)
        return Claim(claimed, current, event, now, channel=stored, note=note)

    def _is_idle(self, tx: Transaction, head: Delivery, current: Breakpoint, now: int) -> bool:
        """Settle a delivery that does not need an attempt; return whether it was settled."""
        if _deaths(tx, head) > len(LADDER):
            # Attempts without a recorded result crashed their worker. After so many, the message must be the cause.
            self._bury(tx, head, current, "Every worker that tried to send this delivery crashed.")
        elif head.channel == CALLBACK:
            return False
        elif head.purpose == Purpose.CLOSE and tx[Deliveries].in_digest(head.line):
            # A digest that lists this breakpoint is being sent; close its item once the digest has arrived.
            tx[Deliveries].hold_back(replace(head, next_at=now + DIGEST_SETTLES), now=now)
        elif _is_pointless(tx, head, current, now):
            tx[Deliveries].supersede(head, now=now)
        elif problem := _unusable(stored := tx[Channels].find(head.channel)):
            self._bury(tx, head, current, problem)
        elif held := _one_too_many(tx, head, stored, now):
            tx[Deliveries].hold_back(held, now=now)
        else:
            return False
        return True

    def _bury(self, tx: Transaction, dead: Delivery, current: Breakpoint, error: str) -> None:
        tx[Deliveries].give_up(dead, error=error, now=tx.now())
        self._fall_back(tx, dead, current)

    def _fall_back(self, tx: Transaction, dead: Delivery, current: Breakpoint) -> None:
        """Send a dead delivery on the next channel, unless it has already arrived or its breakpoint has ended."""
        if dead.fallback is None or dead.purpose == Purpose.CLOSE or dead.trace is not None:
            return
        if current.status is Status.WAITING and not current.overdue(tx.now()):
            [event] = tx[Breakpoints].events(dead.breakpoint_id, after=dead.seq - 1, limit=1)
            fall_back(tx, dead, current, event)

    def _note(self, tx: Transaction, claimed: Delivery, current: Breakpoint, event: Event) -> Note:
        thread = tx[Deliveries].thread(claimed.line)
        closes = claimed.purpose == Purpose.CLOSE
        return Note(
            id=claimed.id,
            purpose=Purpose(claimed.purpose),
            to=addressee(tx, claimed),
            breakpoint=current,
            event=event,
            review_url=self._review_url(current.id),
            answer_url=f"{self._base_url}/callbacks/{claimed.channel}",
            attempt=claimed.attempts,
            thread=traced(thread),
            unconfirmed=tuple(tx[Deliveries].unconfirmed(claimed.line)) if closes else (),
            may_be_told=may_be_told(tx, claimed.project, claimed.recipient),
            at=tx.now(),
            digest=self._digest_again(tx, claimed, thread) if closes and thread is not None else None,
        )

    def _digest_again(self, tx: Transaction, claimed: Delivery, thread: str) -> Digest | None:
        """Return the current content of the digest with this trace; None if it belongs to a separate message."""
        digest_id = (traced(thread) or {}).get("digest")
        if digest_id is None:
            return None
        items = tx[Deliveries].items(claimed, thread, limit=NAMED)
        shown = [tx[Breakpoints].look(each, project=claimed.project) for each in items]
        waiting = sum(each.status is Status.WAITING for each in shown)
        return self._digest(
            Digest(
                id=digest_id,
                to=addressee(tx, claimed),
                waiting=tuple(shown),
                total=waiting,
                ended=0,
                inbox_url=f"{self._base_url}/",
                urls={},
                deliveries=items,
                at=tx.now(),
            )
        )

    def _digest(self, digest: Digest) -> Digest:
        return replace(digest, urls={each.id: self._review_url(each.id) for each in digest.waiting})

    def _review_url(self, breakpoint_id: str) -> str:
        return f"{self._base_url}/breakpoints/{breakpoint_id}"

    def _signing(self, tx: Transaction, project: str) -> tuple[tuple[str, ...], str]:
        try:
            return tuple(each.value for each in self._secrets.callback_secrets(tx, project)), ""
        except Unavailable as error:
            return (), error.message

    def record(self, tx: Transaction, claim: Claim, sent: Sent, *, jitter: float) -> None:
        """Record the result; after a temporary failure, queue a retry in the same transaction."""
        now = tx.now()
        delivery = claim.delivery
        attempt = Attempt(delivery.attempts, claim.at, "", sent.milliseconds, sent.status, sent.error, sent.unsent)
        tx[Deliveries].finish_attempt(delivery.id, attempt)
        if claim.channel is not None:
            _note_health(tx, claim.channel, sent, now)
        if sent.error is None:
            self._arrived(tx, claim, sent)
            return
        # The callback URL no longer exists, so later callbacks to it would fail too.
        if sent.gone and claim.channel is None:
            tx[Deliveries].bury(delivery, error=sent.error, now=now)
            return
        wait = self._wait(tx, claim, sent, jitter)
        if wait is None:
            if tx[Deliveries].record(replace(delivery, state="dead", last_error=sent.error), now=now):
                current = tx[Breakpoints].look(delivery.breakpoint_id, project=delivery.project)
                self._fall_back(tx, delivery, current)
            return
        later = replace(delivery, state="pending", next_at=now + round(wait * SECOND), last_error=sent.error)
        if tx[Deliveries].record(later, now=now):
            tx[Deliveries].enqueue(later, delay=wait)

    def _arrived(self, tx: Transaction, claim: Claim, sent: Sent) -> None:
        now, delivery = tx.now(), claim.delivery
        if self._is_stale(tx, claim):
            again = replace(delivery, state="pending", next_at=now, last_error=None)
            if tx[Deliveries].record(again, now=now):
                tx[Deliveries].enqueue(again, delay=0)
            return
        trace = msgspec.json.encode(sent.trace).decode() if sent.trace else None
        tx[Deliveries].record(replace(delivery, state="sent", last_error=None, trace=trace), now=now)

    def _is_stale(self, tx: Transaction, claim: Claim) -> bool:
        """Return whether an item of the digest ended while the digest was being edited, so that it is outdated."""
        shown = claim.note.digest if claim.note else None
        stored = claim.channel
        if shown is None or stored is None or not KINDS[stored.type].edits:
            return False
        now = [tx[Breakpoints].look(each.id, project=each.project).status for each in shown.waiting]
        return now != [each.status for each in shown.waiting]

    def _wait(self, tx: Transaction, claim: Claim, sent: Sent, jitter: float) -> float | None:
        """Return the seconds until the next attempt, or None to give up."""
        delivery = claim.delivery
        # A worker's crash may be unrelated to the receiver, so count only attempts that are known to have failed.
        failures = tx[Deliveries].failures(delivery.id)
        if sent.final or sent.gone:
            return None
        if claim.channel is None:
            rung = LADDER[failures - 1] if failures <= len(LADDER) else None
        elif claim.breakpoint.status is not Status.WAITING:
            rung = _question_rung(failures) if failures <= ENDED_TRIES else None
        # Stop early, because the next channel may still reach the recipient in time.
        elif delivery.fallback is not None and failures > PATIENCE:
            rung = None
        else:
            rung = _question_rung(failures)
        return None if rung is None else max(rung * (1 + JITTER * jitter), sent.retry_after or 0)

    def claim_digest(self, tx: Transaction, channel: str, recipient: str) -> DigestClaim | None:
        """Claim a recipient's held-back deliveries as one digest, except those that are no longer needed."""
        now = tx.now()
        # Lock the pace, so that messages to the recipient are counted one after the other.
        pace = tx[Paces].take(channel, recipient)
        lease = now + LEASE
        stored = tx[Channels].find(channel)
        problem = _unusable(stored)
        limits = (limits_of(stored) if stored else None) or UNLIMITED
        counted = pace.counted(now, window=limits.window, most=limits.messages)
        # Other messages have used up the rate limit, so postpone the digest.
        if counted is None and problem is None:
            at = max(now + 1, pace.free_at(window=limits.window, most=limits.messages))
            tx[Paces].save(replace(pace, digest_due=at))
            tx[Deliveries].plan_digest(channel, recipient, at=at, now=now)
            return None
        # A fallback channel receives each message separately, so limit their number in one transaction.
        most = FALL_BACK_BATCH if problem else MOST_TOLD
        taken = tx[Deliveries].take_digest(channel, recipient, most=most, now=now, lease=lease)
        # This many attempts without a recorded error mean that sending crashes the workers.
        if any(each.attempts > len(LADDER) and each.last_error is None for each in taken):
            problem = "Every worker that tried to send this delivery crashed."
        if not taken or stored is None or problem:
            if taken:
                self._end_digest_dead(tx, taken, problem or "This channel was removed.", lease)
            # There may be more messages than fit into one batch, so plan another digest.
            if len(taken) == most:
                tx[Deliveries].plan_digest(channel, recipient, at=now + SECOND, now=now)
            return None
        tx[Paces].save(replace(counted or pace, digest_at=now, digest_due=None))
        taken = self._send_single(tx, taken)
        waiting = self._waiting(tx, taken)
        ended = sum(1 for each in taken if each.purpose == Purpose.CLOSE and _needs_closing(tx, each))
        if not waiting and not ended:
            if taken:
                tx[Deliveries].end_digest(replace(taken[0], state="superseded"), lease=lease, now=now)
            return None
        # Reversed, so that the first delivery of each breakpoint is kept: answers refer to it.
        asking = {each.breakpoint_id: each.id for each in reversed(taken) if each.purpose != Purpose.CLOSE}
        shown = [tx[Breakpoints].look(each, project=stored.project) for each in waiting[:NAMED]]
        digest = Digest(
            id=taken[0].id,
            to=addressee(tx, taken[0]),
            waiting=tuple(shown),
            total=len(waiting),
            ended=ended,
            inbox_url=f"{self._base_url}/",
            urls={},
            deliveries={each.id: asking[each.id] for each in shown},
            attempt=max(each.attempts for each in taken),
            at=now,
        )
        return DigestClaim(stored, taken, self._digest(digest), lease)

    def _send_single(self, tx: Transaction, taken: Sequence[Delivery]) -> list[Delivery]:
        """Send a lone question or a lone closing message separately; return the rest for a digest."""
        now = tx.now()
        waiting = self._waiting(tx, taken)
        questions = [each for each in taken if each.purpose != Purpose.CLOSE and each.breakpoint_id in waiting]
        endings = [each for each in taken if each.purpose == Purpose.CLOSE and _needs_closing(tx, each)]
        alone = questions[:1] if len(waiting) == 1 else []
        alone += endings if len(endings) == 1 and len(waiting) < SMALLEST_DIGEST else []
        if alone:
            first = alone[0]
            pace = tx[Paces].take(first.channel, first.recipient)
            # The digest was counted as one message, so count only the additional ones.
            tx[Paces].save(replace(pace, times=(*pace.times, *(now for _ in alone[1:]))))
        for each in alone:
            tx[Deliveries].release(each, now=now)
        gone = {each.id for each in alone}
        return [each for each in taken if each.id not in gone]

    def _waiting(self, tx: Transaction, taken: Sequence[Delivery]) -> list[str]:
        asking = [each for each in taken if each.purpose != Purpose.CLOSE]
        if asking and not may_be_told(tx, asking[0].project, asking[0].recipient):
            return []  # they all have the same recipient
        ids = list(dict.fromkeys(each.breakpoint_id for each in asking))
        open_ = tx[Breakpoints].waiting_among(ids, now=tx.now())
        return [each for each in ids if each in open_]

    def _end_digest_dead(self, tx: Transaction, taken: Sequence[Delivery], error: str, lease: int) -> None:
        now = tx.now()
        tx[Deliveries].end_digest(replace(taken[0], state="dead", last_error=error), lease=lease, now=now)
        self._fall_back_all(tx, taken)

    def _fall_back_all(self, tx: Transaction, dead: Sequence[Delivery]) -> None:
        for each in dead:
            self._fall_back(tx, each, tx[Breakpoints].look(each.breakpoint_id, project=each.project))

    def record_digest(self, tx: Transaction, claim: DigestClaim, sent: Sent, *, jitter: float) -> None:
        """Record the result for all deliveries of a digest."""
        now = tx.now()
        _note_health(tx, claim.channel, sent, now)
        first = claim.taken[0]
        if sent.error is None:
            trace = msgspec.json.encode({**(sent.trace or {}), "digest": claim.digest.id}).decode()
            done = replace(first, state="sent", last_error=None, trace=trace)
            tx[Deliveries].end_digest(done, lease=claim.lease, now=now)
            return
        tries = claim.digest.attempt
        if sent.final or sent.gone:
            self._end_digest_dead(tx, claim.taken, sent.error, claim.lease)
            return
        if tries > PATIENCE:
            # Give up on this channel only for deliveries that can use another channel.
            dead = replace(first, state="dead", last_error=sent.error)
            tx[Deliveries].end_digest(dead, lease=claim.lease, now=now, only=HAS_ANOTHER_WAY)
            self._fall_back_all(tx, claim.taken)
        wait = max(_question_rung(tries) * (1 + JITTER * jitter), sent.retry_after or 0)
        at = now + round(wait * SECOND)
        pace = tx[Paces].take(first.channel, first.recipient)
        tx[Paces].save(replace(pace, digest_at=None, digest_due=at))
        later = replace(first, state="pending", next_at=at, last_error=sent.error)
        tx[Deliveries].end_digest(later, lease=claim.lease, now=now)
        tx[Deliveries].plan_digest(first.channel, first.recipient, at=at, now=now)

    def heal(self, tx: Transaction) -> int:
        """Queue new jobs for deliveries whose job has failed or was lost when the database crashed."""
        now = tx.now()
        # Every node does this; because the key contains the minute, they queue only one job per delivery.
        minute = now // STUCK * STUCK
        stuck = tx[Deliveries].stuck(now - STUCK, limit=HEAL_BATCH)
        looked_after = {key.partition(":")[0] for key in (tx.open_jobs(JOB) if stuck else ())}
        for delivery in stuck:
            if delivery.id not in looked_after:
                tx[Deliveries].enqueue(delivery, delay=0, why=f":heal:{minute}")
        digests = tx[Deliveries].stuck_digests(now - STUCK, limit=HEAL_BATCH)
        planned_for = {key.rpartition(":")[0] for key in (tx.open_jobs(DIGEST) if digests else ())}
        for channel, recipient in digests:
            if f"{channel}:{recipient}" not in planned_for:
                tx[Deliveries].plan_digest(channel, recipient, at=minute, now=now)
        return len(stuck) + len(digests)

    def retry(self, tx: Transaction, delivery_id: str, *, by: Principal) -> Delivery:
        """Retry a dead delivery now; a message to a program can also be resent after it has arrived."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        ended = tx[Deliveries].get(delivery_id, project=by.project)
        again = ended.state == "dead" or (ended.state == "sent" and _goes_to_a_program(tx, ended))
        now = tx.now()
        # `revive` fails if another request has changed the state since it was read.
        if not again or not tx[Deliveries].revive(ended, now=now):
            msg = (
                f"This delivery is {ended.state}. You can retry only dead deliveries, and resend only "
                "callbacks and webhooks."
            )
            raise Conflict(msg)
        tx[Deliveries].enqueue(ended, delay=0, why=f":retry:{now}")
        before, after = {"state": ended.state}, {"state": "pending"}
        subject = f"delivery:{ended.id}"
        tx[AdminLog].record("delivery-retried", subject, project=by.project, before=before, after=after)
        return replace(ended, state="pending", next_at=now, updated_at=now)

    def retry_all(self, tx: Transaction, channel: str, *, by: Principal) -> int:
        """Retry up to RETRY_BATCH dead deliveries of a channel; return the number of retried deliveries."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        now = tx.now()
        dead = tx[Deliveries].page(by.project, {"state": "dead", "channel": channel}, after="", limit=RETRY_BATCH)
        revived = [each for each in dead if tx[Deliveries].revive(each, now=now)]
        for each in revived:
            tx[Deliveries].enqueue(each, delay=0, why=f":retry:{now}")
        if revived:
            after = {"channel": channel, "retried": [each.id for each in revived]}
            tx[AdminLog].record("deliveries-retried", f"deliveries:{channel}", project=by.project, after=after)
        return len(revived)


def _goes_to_a_program(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether a delivery goes to a program, which, unlike people, can detect duplicates by message ID."""
    return delivery.channel == CALLBACK or _follows(tx, delivery)


def _deaths(tx: Transaction, delivery: Delivery) -> int:
    if delivery.attempts <= len(LADDER):
        return 0
    return delivery.attempts - tx[Deliveries].failures(delivery.id)


def _question_rung(failures: int) -> int:
    return QUESTION_LADDER[min(failures, len(QUESTION_LADDER)) - 1]


def _is_pointless(tx: Transaction, delivery: Delivery, current: Breakpoint, now: int) -> bool:
    """Return whether a message is no longer needed, for example because the breakpoint has ended."""
    if delivery.purpose == Purpose.CLOSE:
        return not _needs_closing(tx, delivery)
    if delivery.purpose not in {Purpose.ASK, Purpose.REMIND, Purpose.ESCALATE}:
        return False
    if not may_be_told(tx, delivery.project, delivery.recipient):
        return True
    ended = current.status is not Status.WAITING or current.overdue(now)
    return ended and not _follows(tx, delivery)


def _needs_closing(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether a message of this line has arrived or, after a lost response or a crash, may have arrived."""
    if tx[Deliveries].thread(delivery.line) is not None:
        return True
    if not tx[Deliveries].unconfirmed(delivery.line):
        return False
    # A new message could be the first one to arrive, so do not send it to people who have since lost access. A channel
    # that closes by editing only changes existing messages, and so reveals nothing new to them (`Note.may_be_told`).
    stored = tx[Channels].find(delivery.channel)
    edits = stored is not None and stored.type in KINDS and KINDS[stored.type].edits
    return edits or may_be_told(tx, delivery.project, delivery.recipient)


def _one_too_many(tx: Transaction, head: Delivery, stored: StoredChannel | None, now: int) -> Delivery | None:
    """Count a message when the quiet hours that delayed it end; return it if it exceeds the rate limit."""
    counted_before = head.updated_at > head.created_at
    if stored is None or head.attempts or head.created_at >= head.next_at or counted_before:
        return None
    return paced(tx, head, stored, now=now)


def _follows(tx: Transaction, delivery: Delivery) -> bool:
    """Return whether the channel receives every event, even a request whose breakpoint has already ended."""
    stored = tx[Channels].find(delivery.channel)
    kind = Switchboard.kind(stored) if stored else None
    return kind is not None and kind.follows


def _unusable(stored: StoredChannel | None) -> str | None:
    if stored is None or stored.removed_at is not None:
        return "This channel was removed."
    if not stored.enabled:
        return f"The channel {stored.name} is disabled: {stored.disabled_because or 'an admin disabled it'}."
    return None


def _note_health(tx: Transaction, stored: StoredChannel, sent: Sent, now: int) -> None:
    if sent.error is not None:
        tx[Channels].note_failed(stored.id, sent.error, now)
        if sent.gone:
            tx[Channels].disable(stored.id, because=sent.error, now=now)
    # Not recorded after every delivery, because all of them would update the same row.
    elif stored.last_error is not None or now - (stored.ok_at or 0) > FRESH:
        tx[Channels].note_ok(stored.id, now)
