"""Deliveries: claimed, sent, written down; in the order of the events, until sent or given up."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from assent.channels.webhook import message, signed_headers
from assent.domain.access import Permission, Principal
from assent.domain.breakpoint import Breakpoint, Event
from assent.domain.errors import Conflict, Unavailable
from assent.domain.instants import SECOND
from assent.outbound import Outbound, Permanent, Transient
from assent.ports import Database
from assent.services.secrets import SecretService
from assent.store.deliveries import Attempt, Delivery
from assent.store.transaction import Transaction
from assent.telemetry import Metrics

LADDER = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds to wait after the first failure, the second, and so on; after the last one it is dead."""
JITTER = 0.2
LEASE = 30 * SECOND
"""How long one attempt may take before another worker may try; longer than the outbound client ever does."""
STUCK = 60 * SECOND
HEAL_BATCH = 200
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt at one delivery, with all it needs outside the transaction."""

    delivery: Delivery
    breakpoint: Breakpoint
    event: Event
    secrets: tuple[str, ...]
    unsigned: str
    """Why there is no secret to sign with; nothing is sent without."""
    at: int


@dataclass(frozen=True, slots=True)
class Sent:
    """How an attempt went."""

    status: int | None
    error: str | None
    milliseconds: int
    final: bool = False
    gone: bool = False
    retry_after: float | None = None


class DeliveryService:
    def __init__(self, secrets: SecretService) -> None:
        self._secrets = secrets

    def claim(self, tx: Transaction, line: Mapping[str, str], *, worker: str) -> Claim | None:
        """Take the first open delivery of a line for one attempt, if it is due and nobody has it."""
        now = tx.now()
        head = tx.deliveries.head(line)
        while head is not None and head.next_at <= now and _deaths(tx, head) > len(LADDER):
            # An attempt that was never written down killed its worker; after so many it is the message.
            tx.deliveries.give_up(head, error="Every worker that tried it died.", now=now)
            head = tx.deliveries.head(line)
        if head is None:
            return None
        if not tx.deliveries.claim(head, worker=worker, now=now, lease=now + LEASE):
            if head.state == "sending":
                # Whoever has it may be dead, and noticed before its time was up: look again when it is.
                tx.deliveries.enqueue(head, delay=(head.next_at - now) / SECOND + 1, why=":lease")
            return None
        claimed = replace(head, state="sending", attempts=head.attempts + 1)
        current = tx.breakpoints.look(head.breakpoint_id, project=head.project)
        event = tx.breakpoints.events(head.breakpoint_id, after=head.seq - 1, limit=1)[0]
        secrets, unsigned = self._signing(tx, head.project)
        return Claim(claimed, current, event, secrets, unsigned, now)

    def _signing(self, tx: Transaction, project: str) -> tuple[tuple[str, ...], str]:
        try:
            return tuple(each.value for each in self._secrets.callback_secrets(tx, project)), ""
        except Unavailable as error:
            return (), error.message

    def record(self, tx: Transaction, claim: Claim, sent: Sent, *, jitter: float) -> None:
        """Write down how it went; what failed for now comes back later, in the same transaction."""
        now = tx.now()
        delivery = claim.delivery
        attempt = Attempt(delivery.attempts, claim.at, "", sent.milliseconds, sent.status, sent.error)
        tx.deliveries.finish_attempt(delivery.id, attempt)
        if sent.error is None:
            tx.deliveries.record(replace(delivery, state="sent", last_error=None), now=now)
            return
        if sent.gone:
            tx.deliveries.bury(delivery, error=sent.error, now=now)
            return
        wait = _wait(tx.deliveries.failures(delivery.id), sent, jitter)
        if wait is None:
            tx.deliveries.record(replace(delivery, state="dead", last_error=sent.error), now=now)
            return
        later = replace(delivery, state="pending", next_at=now + round(wait * SECOND), last_error=sent.error)
        if tx.deliveries.record(later, now=now):
            tx.deliveries.enqueue(later, delay=wait)

    def heal(self, tx: Transaction) -> int:
        """Queue again what no worker looks after any more: its job failed, or was lost with a database's crash."""
        now = tx.now()
        stuck = tx.deliveries.stuck(now - STUCK, limit=HEAL_BATCH)
        for delivery in stuck:
            # The minute in the key: every node heals, and together they queue one job.
            tx.deliveries.enqueue(delivery, delay=0, why=f":heal:{now // STUCK}")
        return len(stuck)

    def retry(self, tx: Transaction, delivery_id: str, *, by: Principal) -> Delivery:
        """Try a dead one again at once."""
        by.require(Permission.MANAGE)
        dead = tx.deliveries.get(delivery_id, project=by.project)
        now = tx.now()
        if not tx.deliveries.revive(delivery_id, project=by.project, now=now):
            msg = f"This delivery is {dead.state}; only a dead one can be tried again."
            raise Conflict(msg)
        tx.deliveries.enqueue(dead, delay=0, why=f":retry:{now}")
        return replace(dead, state="pending", next_at=now, updated_at=now)


def _deaths(tx: Transaction, delivery: Delivery) -> int:
    if delivery.attempts <= len(LADDER):
        return 0
    return delivery.attempts - tx.deliveries.failures(delivery.id)


def _wait(failures: int, sent: Sent, jitter: float) -> float | None:
    """Seconds until the next attempt, or None when there is none; a worker that died says nothing of the receiver."""
    if sent.final or failures > len(LADDER):
        return None
    return max(LADDER[failures - 1] * (1 + JITTER * jitter), sent.retry_after or 0)


class Courier:
    """What a worker does for a `deliver` job."""

    def __init__(
        self,
        database: Database[Transaction],
        service: DeliveryService,
        outbound: Outbound,
        *,
        worker: str,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._service = service
        self._outbound = outbound
        self._worker = worker
        self._metrics = metrics

    async def deliver(self, payload: Mapping[str, Any]) -> None:
        """Send what is due in this line, one after the other; stop where somebody else has it or it must wait."""
        line: Mapping[str, str] = {name: payload[name] for name in ("breakpoint_id", "channel", "recipient")}
        while claim := await self._database.write(lambda tx: self._service.claim(tx, line, worker=self._worker)):
            sent = await self._send(claim)
            await self._record(claim, sent)

    async def _record(self, claim: Claim, sent: Sent) -> None:
        jitter = random.uniform(-1, 1)  # noqa: S311  # spreads load, guards nothing
        await self._database.write(lambda tx: self._service.record(tx, claim, sent, jitter=jitter))
        outcome = "sent" if sent.error is None else "dead" if sent.final or sent.gone else "failed"
        self._metrics.delivery_attempt(claim.delivery.channel, outcome, sent.milliseconds / 1000)
        if sent.error is not None:
            _log.info("delivery_failed", delivery=claim.delivery.id, attempt=claim.delivery.attempts, error=sent.error)

    async def _send(self, claim: Claim) -> Sent:
        if claim.unsigned:
            return Sent(None, claim.unsigned, 0)
        sent = message(claim.delivery.id, claim.breakpoint, claim.event)
        headers = signed_headers(sent.id, sent.body, secrets=claim.secrets, at=claim.at)
        started = time.perf_counter()

        def took() -> int:
            return round((time.perf_counter() - started) * 1000)

        try:
            reply = await self._outbound.post(claim.delivery.recipient, body=sent.body, headers=headers)
        except Permanent as error:
            return Sent(error.status, str(error), took(), final=True, gone=error.gone)
        except Transient as error:
            return Sent(error.status, str(error), took(), retry_after=error.retry_after)
        return Sent(reply.status, None, took())
