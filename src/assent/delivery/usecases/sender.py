"""Sends deliveries for a worker: claims them, sends them and records the results."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.channels.webhook.message import message, signed_headers
from assent.delivery.message import Purpose
from assent.delivery.ports import Posted
from assent.delivery.store.channels import StoredChannel
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.outbox import Claim, DeliveryService, DigestClaim, Sent
from assent.kernel.outbound import Outbound, Permanent, Transient
from assent.kernel.ports import Database, Incoming
from assent.kernel.telemetry import Metrics

LONGEST_ATTEMPT = 25.0
"""Timeout of one attempt in seconds; shorter than a claim's lease."""
_log = structlog.get_logger()


class Courier:
    """Handles `deliver` and `digest` jobs."""

    def __init__(
        self,
        database: Database[Transaction],
        service: DeliveryService,
        outbound: Outbound,
        *,
        switchboard: Switchboard,
        worker: str,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._service = service
        self._outbound = outbound
        self._switchboard = switchboard
        self._worker = worker
        self._metrics = metrics
        self.on_said: Callable[[StoredChannel, Incoming], Awaitable[object]] | None = None
        """Processes an answer that a receiver includes in its response."""

    async def deliver(self, payload: Mapping[str, Any]) -> None:
        """Send a recipient's due deliveries in order; stop at one that is not due or is claimed by another worker."""
        line: Mapping[str, str] = {name: payload[name] for name in ("breakpoint_id", "channel", "recipient")}
        while claim := await self._database.write(lambda tx: self._service.claim(tx, line, worker=self._worker)):
            sent = await self._timed(partial(self._send, claim))
            if sent.said is not None and claim.channel is not None and self.on_said is not None:
                # Process it before recording the delivery: a crash in between repeats both, but the answer counts once.
                await self.on_said(claim.channel, sent.said)
            await self._record(claim, sent)

    async def digest(self, payload: Mapping[str, Any]) -> None:
        """Send a recipient's held-back messages as one digest."""
        channel, recipient = payload["channel"], payload["recipient"]
        claim = await self._database.write(lambda tx: self._service.claim_digest(tx, channel, recipient))
        if claim is None:
            return
        sent = await self._timed(partial(self._send_digest, claim))
        await self._database.write(
            lambda tx: self._service.record_digest(tx, claim, sent, jitter=_jitter()),
        )
        self._count(claim.channel.type, sent)

    async def _record(self, claim: Claim, sent: Sent) -> None:
        await self._database.write(lambda tx: self._service.record(tx, claim, sent, jitter=_jitter()))
        self._count(claim.channel.type if claim.channel else claim.delivery.channel, sent)
        if sent.error is not None:
            _log.info("delivery_failed", delivery=claim.delivery.id, attempt=claim.delivery.attempts, error=sent.error)

    def _count(self, channel: str, sent: Sent) -> None:
        outcome = "sent" if sent.error is None else "dead" if sent.final or sent.gone else "failed"
        self._metrics.delivery_attempt(channel, outcome, sent.milliseconds / 1000)

    async def _timed(self, send: Callable[[], Awaitable[Sent]]) -> Sent:
        """Make one attempt and return its result; stop the attempt before its claim expires."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(LONGEST_ATTEMPT):
                sent = await send()
        except Permanent as error:
            sent = Sent(error.status, str(error), 0, final=True, gone=error.gone, unsent=error.unsent)
        except Transient as error:
            sent = Sent(error.status, str(error), 0, retry_after=error.retry_after, unsent=error.unsent)
        # Settings that were valid when they were saved can become invalid in a new version of Assent.
        except InvalidRequest as error:
            sent = Sent(None, f"Invalid channel settings: {error.message}", 0, unsent=True)
        except TimeoutError:
            # The message may have arrived, so it does not count as unsent.
            sent = Sent(None, "The attempt timed out.", 0)
        return replace(sent, milliseconds=round((time.perf_counter() - started) * 1000))

    async def _send(self, claim: Claim) -> Sent:
        if claim.channel is None:
            return await self._call_back(claim)
        assert claim.note is not None, "deliveries to a channel have a message"
        channel = self._switchboard.channel(claim.channel)
        if claim.note.purpose is Purpose.CLOSE:
            posted = await channel.close(claim.note)
        else:
            posted = await channel.send(claim.note)
        return _sent(posted)

    async def _send_digest(self, claim: DigestClaim) -> Sent:
        return _sent(await self._switchboard.channel(claim.channel).digest(claim.digest))

    async def _call_back(self, claim: Claim) -> Sent:
        if claim.unsigned:
            return Sent(None, claim.unsigned, 0)
        sent = message(claim.delivery.id, claim.breakpoint, claim.event)
        headers = signed_headers(sent.id, sent.body, secrets=claim.secrets, at=claim.at)
        reply = await self._outbound.post(claim.delivery.recipient, body=sent.body, headers=headers)
        return Sent(reply.status, None, 0)


def _sent(posted: Posted | None) -> Sent:
    if posted is None:
        return Sent(None, None, 0)
    return Sent(posted.status, None, 0, trace=posted.trace, said=posted.said)


def _jitter() -> float:
    return random.uniform(-1, 1)  # noqa: S311  # spreads load; not a secret
