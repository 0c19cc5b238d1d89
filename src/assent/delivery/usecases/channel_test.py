"""Tests a channel: checks its settings and, on request, sends a test message."""

from dataclasses import dataclass, replace
from functools import partial

from assent.core.access import Kind, Permission, Principal
from assent.core.breakpoint import NEVER, Breakpoint, record
from assent.core.errors import InvalidRequest, Unavailable
from assent.db.transaction import Transaction
from assent.delivery.message import Addressee, Note, Purpose
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.channels import ChannelService
from assent.kernel.outbound import Permanent, Transient
from assent.kernel.ports import Clock, Database, Ids
from assent.people.store.people import People

QUESTION = "This is a test message for this channel. No response is needed."


@dataclass(frozen=True, slots=True)
class Probed:
    ok: bool
    detail: str
    sent: bool = False


class Prober:
    def __init__(
        self,
        database: Database[Transaction],
        channels: ChannelService,
        switchboard: Switchboard,
        *,
        clock: Clock,
        ids: Ids,
        base_url: str,
    ) -> None:
        self._database = database
        self._channels = channels
        self._switchboard = switchboard
        self._clock = clock
        self._ids = ids
        self._base_url = base_url

    async def test(self, channel_id: str, *, by: Principal, send: bool = False) -> Probed:
        """Check the settings, then send a message if requested; the result is recorded as the channel's health."""
        by.require(Permission.MANAGE)
        stored, to = await self._database.read(partial(self._found, channel_id=channel_id, by=by))
        probed = await self._tried(stored, to, by=by, send=send)

        def use_case(tx: Transaction) -> None:
            if probed.ok:
                tx[Channels].note_ok(stored.id, tx.now())
            else:
                tx[Channels].note_failed(stored.id, probed.detail, tx.now())

        await self._database.write(use_case)
        return probed

    def _found(self, tx: Transaction, channel_id: str, *, by: Principal) -> tuple[StoredChannel, Addressee]:
        stored = self._channels.known(tx, channel_id, by=by)
        kind = self._switchboard.kind(stored)
        person = tx[People].find(by.id) if by.kind is Kind.PERSON else None
        if kind is None or person is None or not kind.personal(stored.settings):
            return stored, Addressee()
        identity = tx[Links].identity_of(stored.id, person.id)
        return stored, Addressee(person.name, person.display_name, person.email, identity)

    async def _tried(self, stored: StoredChannel, to: Addressee, *, by: Principal, send: bool) -> Probed:
        try:
            channel = self._switchboard.channel(stored)
            found = await channel.check()
            if send:
                await channel.send(self._note(stored, to, by))
        except (InvalidRequest, Unavailable) as error:
            return Probed(ok=False, detail=error.message)
        except (Transient, Permanent) as error:
            return Probed(ok=False, detail=str(error))
        return Probed(ok=True, detail=found, sent=send)

    def _note(self, stored: StoredChannel, to: Addressee, by: Principal) -> Note:
        now = self._clock.now()
        supposed = Breakpoint(
            id=self._ids.new("bp", now),
            project=stored.project,
            on_timeout="expire",
            callback_url=None,
            digest="0" * 64,
            created_at=now,
            due_at=NEVER,
            agent_id="assent",
            run_id=None,
            title=f"Test message for channel {stored.name}",
            gate="assent.channel-test",
            payload={"question": QUESTION},
            tags=(),
            seats=(),
            strategy="single",
            # High risk, so that the message cannot be answered on the channel.
            risk="high",
            priority="normal",
            ttl_seconds=None,
            created_by=by.actor,
            created_by_id=by.id,
            auto_approval={},
            warnings=(),
        )
        asked, event = record(supposed, "created", actor=by.actor, at=now)
        note = Note(
            id=self._ids.new("dlv", now),
            purpose=Purpose.ASK,
            to=to,
            breakpoint=asked,
            event=event,
            review_url=self._base_url,
            answer_url=f"{self._base_url}/callbacks/{stored.id}",
        )
        return replace(note, at=now)
