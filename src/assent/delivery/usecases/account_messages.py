"""Messages to people about their own account: mailed sign-in links, and notices that an admin changed their access."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.delivery.message import Addressee, Notice
from assent.delivery.ports import Notifier
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.delivery.usecases.channel_pool import Switchboard
from assent.kernel.outbound import Permanent, Undelivered
from assent.kernel.ports import Database
from assent.people.store.people import People, Person
from assent.people.usecases.people import LINK_JOB, RESET_JOB, PeopleService
from assent.platform.admin_events import MESSAGE_FAILED, AdminEvent
from assent.platform.admin_log import AdminLog

MAX_ATTEMPTS = 10
FIRST_RETRY_SECONDS = 15.0
MAX_RETRY_SECONDS = 3600.0
CHANGES = {
    "invitation": "created a sign-in link for your account",
    "reset": "reset your access and invalidated your password, sessions and tokens",
    "password": "set a new password for your account and invalidated your sessions and tokens",
    "email": "changed your account's email address",
    "identity": "linked an identity provider account to your account",
    "channel": "linked a channel account to your account",
    "answers": "changed the settings that a channel uses to verify your answers",
}
_log = structlog.get_logger()


def message_subject(name: str) -> str:
    return f"account-message:{name}"


class AccountMessages:
    """Sends the account messages that `PeopleService` queues."""

    def __init__(
        self, database: Database[Transaction], people: PeopleService, switchboard: Switchboard, *, base_url: str
    ) -> None:
        self._database = database
        self._people = people
        self._switchboard = switchboard
        self._base_url = base_url

    async def mail_link(self, payload: Mapping[str, Any]) -> None:
        """Mail a sign-in link. Each attempt creates a new link, so that the queue does not contain any secrets."""
        ready = await self._database.write(partial(self._link, payload=payload))
        if ready is not None:
            await self._send(LINK_JOB, payload, *ready)

    def _link(self, tx: Transaction, *, payload: Mapping[str, Any]) -> tuple[StoredChannel, Notice] | None:
        person = tx[People].find(payload["person"])
        stored = tx[Channels].live(payload["channel"])
        if person is None or not person.active or not person.email or stored is None:
            return None
        purpose, by = payload["purpose"], payload["by"]
        link = self._people.create_mailed_link(tx, person, stored, purpose=purpose)
        is_new = purpose == "invitation"
        notice = Notice(
            id=tx.new_id("ntc"),
            to=Addressee(person.name, person.display_name, person.email),
            title="You have been invited to Assent" if is_new else "Reset your access to Assent",
            text=(
                f"{by} {'invited you to review requests from AI agents' if is_new else 'reset your access'}. Your "
                f"username is {person.name}. The sign-in link can be used once and expires in 24 hours. You will be "
                "asked to set a password."
            ),
            link=f"{self._base_url}/sign-in/{link}",
            link_label="Accept invitation" if is_new else "Sign in and set a password",
        )
        return stored, notice

    async def tell_reset(self, payload: Mapping[str, Any]) -> None:
        """Notify the person on every channel that reaches them; each channel gets a separate job."""
        if "channel" not in payload:
            await self._database.write(partial(self._fan_out, payload=payload))
            return
        ready = await self._database.read(partial(self._notice, payload=payload))
        if ready is not None:
            await self._send(RESET_JOB, payload, *ready)

    def _fan_out(self, tx: Transaction, *, payload: Mapping[str, Any]) -> None:
        person = tx[People].find(payload["person"])
        if person is None:
            return
        for channel_id, to in self._places(tx, person, payload):
            # One job per channel, so that a failure on one channel does not cause duplicates on the others.
            one = {**payload, "channel": channel_id, **to}
            tx.enqueue(RESET_JOB, key=tx.new_id("job"), payload=one)

    def _places(
        self, tx: Transaction, person: Person, payload: Mapping[str, Any]
    ) -> list[tuple[str, dict[str, str | None]]]:
        found: list[tuple[str, dict[str, str | None]]] = []
        mail = self._people.mail_channel(tx, person, project=payload["project"])
        if mail is not None and payload["email"]:
            # Use the address from before the change, because an admin may have replaced it with their own.
            found.append((mail.id, {"to": payload["email"], "identity": None}))
        links = [each for each in tx[Links].of_person(person.id) if tx[Channels].live(each.channel_id) is not None]
        return found + [(each.channel_id, {"to": None, "identity": each.identity}) for each in links]

    def _notice(self, tx: Transaction, *, payload: Mapping[str, Any]) -> tuple[StoredChannel, Notice] | None:
        person, stored = tx[People].find(payload["person"]), tx[Channels].live(payload["channel"])
        if person is None or stored is None:
            return None
        by = payload["by"]
        text = (
            f"{by} {CHANGES.get(payload['way'], 'changed your access')} at {iso(payload['at'])}. Until this change is "
            f"confirmed, your decisions are flagged with “access reset by {by}”. If you did not expect this, contact "
            "another admin."
        )
        to = Addressee(person.name, person.display_name, payload["to"], payload["identity"])
        notice = Notice(
            id=tx.new_id("ntc"),
            to=to,
            title=f"{by} changed your access to Assent",
            text=text,
            link=f"{self._base_url}/account",
            link_label="Your account",
        )
        return stored, notice

    async def _send(self, job: str, payload: Mapping[str, Any], stored: StoredChannel, notice: Notice) -> None:
        """Send a notice; after a temporary failure, queue it again with an increasing delay."""
        attempt = int(payload.get("attempt", 1))
        try:
            channel = self._switchboard.channel(stored)
            if isinstance(channel, Notifier):
                await channel.notify(notice)
        except (Undelivered, InvalidRequest) as error:
            final = isinstance(error, Permanent) or attempt >= MAX_ATTEMPTS
            _log.warning("account_message_failed", job=job, channel=stored.id, final=final, error=error.message)
            if final:
                await self._database.write(
                    partial(_record_failure, payload=payload, channel=stored, error=error.message)
                )
                return
            again = {**payload, "attempt": attempt + 1}
            delay = min(FIRST_RETRY_SECONDS * 2 ** (attempt - 1), MAX_RETRY_SECONDS)
            await self._database.write(partial(_later, job=job, payload=again, delay=delay))


def _later(tx: Transaction, *, job: str, payload: Mapping[str, Any], delay: float) -> None:
    tx.enqueue(job, key=tx.new_id("job"), payload=payload, delay=delay)


def _record_failure(tx: Transaction, *, payload: Mapping[str, Any], channel: StoredChannel, error: str) -> None:
    """Record in the person's home project that a message did not reach them, so that an admin can see it."""
    person = tx[People].find(payload["person"])
    if person is not None:
        after = {"way": payload.get("purpose") or payload.get("way"), "channel": channel.name, "error": error}
        tx[AdminLog].record(MESSAGE_FAILED, message_subject(person.name), project=person.home, after=after)


def last_failure(tx: Transaction, person: Person) -> AdminEvent | None:
    """Return the event for the last message that could not be sent to the person since their access was reset."""
    events = tx[AdminLog].about(message_subject(person.name), project=person.home)
    recent = [each for each in events if person.reset_at is not None and each.at >= person.reset_at]
    return recent[-1] if recent else None
