"""Processes messages from channels: identifies the sender, applies the answer and replies with the outcome."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import structlog

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Actor, Kind, Principal
from assent.core.breakpoint import Breakpoint, Status, ended, timed_out
from assent.core.canonical import Json, is_object, strict_loads
from assent.core.errors import (
    NO_SUCH_URL,
    AlreadyEnded,
    AssentError,
    Conflict,
    DigestMismatch,
    Forbidden,
    InvalidRequest,
    MalformedJson,
    NotFound,
    RejectionPending,
    TicketRequired,
    Unauthenticated,
    Unavailable,
)
from assent.core.terms import MAX_TEXT, Answer
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.wording import who
from assent.delivery.ports import Ears, Heard, Told, Wish
from assent.delivery.routes import PERSON
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Deliveries, Delivery
from assent.delivery.store.inbound_dedup import Heard as HeardStore
from assent.delivery.store.links import Links
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.recipients import traced
from assent.kernel.outbound import Undelivered
from assent.kernel.ports import Clock, Database, Incoming
from assent.people.store.people import People, Person

NOTE_EVERY = 10 * SECOND
PRIVATE = frozenset({"slack"})
"""Types of channels that can show a message to a single person; only these offer to link an account."""
_log = structlog.get_logger()
_COUNTED_ONCE = "This message was already processed. It counts only once."


class _Stranger(Exception):
    """The sender is not linked to an active person; the message explains why."""


@dataclass(frozen=True, slots=True)
class _Saying:
    """A received message with its channel and the delivery that it answers."""

    stored: StoredChannel
    ears: Ears
    heard: Heard
    delivery: Delivery


class AnsweringService:
    def __init__(
        self,
        database: Database[Transaction],
        breakpoints: BreakpointService,
        switchboard: Switchboard,
        *,
        clock: Clock,
        base_url: str,
        links: LinkService,
    ) -> None:
        self._database = database
        self._breakpoints = breakpoints
        self._switchboard = switchboard
        self._clock = clock
        self._base_url = base_url
        self._links = links
        self._noted: dict[str, int] = {}

    async def find(self, channel_id: str) -> StoredChannel:
        """Return a channel that people can answer on; raise NotFound for any other channel."""
        stored = await self._database.read(lambda tx: tx[Channels].live(channel_id))
        if stored is None:
            raise _nothing_here()
        # Raises an error for a one-way channel or invalid settings, before the request body is read.
        self._ears(stored)
        return stored

    async def take(self, stored: StoredChannel, incoming: Incoming) -> Mapping[str, Any] | None:
        """Process an incoming request and return the response body."""
        return await self.act(stored, self.hear(stored, incoming))

    async def take_reply(self, stored: StoredChannel, incoming: Incoming) -> None:
        """Process the answer in a receiver's response to our message; log errors instead of raising them."""
        try:
            await self.take(stored, incoming)
        except AssentError as error:
            _log.warning("inline_answer_refused", channel=stored.id, type=stored.type, error=error.message)

    def hear(self, stored: StoredChannel, incoming: Incoming) -> Sequence[Heard]:
        """Verify and parse a request without acting on it."""
        try:
            return self._ears(stored).hear(incoming)
        except Unauthenticated as error:
            # The body is not logged, because its sender is not verified.
            _log.warning("callback_refused", channel=stored.id, type=stored.type, reason=error.message)
            raise
        except Undelivered as error:
            # Without the channel's secret, nothing can be verified, so nothing is accepted.
            raise _unusable(stored, error.message) from error

    async def act(self, stored: StoredChannel, said: Sequence[Heard]) -> Mapping[str, Any] | None:
        """Apply each message in its own transaction and reply to the sender."""
        await self._note(stored)
        ears = self._ears(stored)
        body: Mapping[str, Any] | None = None
        for heard in said:
            told = await self._told(stored, ears, heard)
            try:
                body = await ears.reply(heard, told) or body
            except Undelivered as error:
                # The message has already been applied or refused, and repeating it would get the same reply.
                _log.warning("reply_failed", channel=stored.id, type=stored.type, error=error.message)
        return body

    def _ears(self, stored: StoredChannel) -> Ears:
        try:
            channel = self._switchboard.channel(stored)
        except InvalidRequest as error:
            raise _unusable(stored, error.message) from error
        if not hasattr(channel, "hear"):
            raise _nothing_here()
        return cast("Ears", channel)

    async def _note(self, stored: StoredChannel) -> None:
        """Record that the channel is alive, at most once every NOTE_EVERY."""
        now = self._clock.now()
        if now - self._noted.get(stored.id, stored.heard_at or 0) >= NOTE_EVERY:
            self._noted[stored.id] = now
            await self._database.write(lambda tx: tx[Channels].note_heard(stored.id, now))

    async def _told(self, stored: StoredChannel, ears: Ears, heard: Heard) -> Told:
        if heard.wish is Wish.NOTHING:
            return Told(done=True, message="")
        try:
            delivery = await self._database.read(lambda tx: _delivery(tx, stored, heard))
        except NotFound as error:
            # A message that is only identified by a label gets no reply, because anyone can set a label.
            return Told(done=heard.delivery_id is None, message=error.message, error=error)
        saying = _Saying(stored, ears, heard, delivery)
        locks = delivery.breakpoint_id
        try:
            return await self._database.write(partial(self._do, saying=saying), locks=locks)
        except (InvalidRequest, TicketRequired, RejectionPending) as error:
            # The key stays unclaimed, so that the sender can retry after correcting the form, or after waiting for the
            # ticket or for the undo period to end.
            current = await self._database.read(lambda tx: tx[Breakpoints].look(locks, project=stored.project))
            return Told(done=False, message=error.message, breakpoint=current, problems=_problems(error), error=error)
        except _Stranger as stranger:
            refuse = partial(self._refuse, saying=saying, error=Forbidden(str(stranger)), stranger=True)
        except (Forbidden, NotFound, Conflict, DigestMismatch) as error:
            refuse = partial(self._refuse, saying=saying, error=error)
        return await self._database.write(refuse, locks=locks)

    def _do(self, tx: Transaction, saying: _Saying) -> Told:
        """Apply a message and record its key in one transaction, so that it counts once."""
        heard, now = saying.heard, tx.now()
        # Lock the breakpoint first, so that a simultaneous duplicate waits here.
        current = tx[Breakpoints].get(saying.delivery.breakpoint_id, project=saying.stored.project)
        is_new = tx[HeardStore].claim(saying.stored.id, heard.key, at=now)
        # The channel may have been changed since it was read, so check its current state.
        stored = tx[Channels].live(saying.stored.id)
        if stored is None:
            return self._switched_off(current)
        saying = replace(saying, stored=stored)
        if not is_new:
            return _again(tx, saying)
        by = _principal(tx, saying)
        if heard.wish is Wish.COMMENT:
            self._breakpoints.comment(tx, current.id, _text(heard.comment), by=by, once=None)
            return Told(done=True, message="Your comment was added.", breakpoint=current)
        self._check_answerable(tx, current, by)
        if heard.wish is Wish.FORM:
            return Told(done=True, message="", breakpoint=current)
        answer = saying.ears.answer(heard, current)
        if answer is None:
            msg = (
                "This breakpoint requires more than an approval or a rejection. Respond here: "
                f"{self._review_url(current.id)}"
            )
            raise InvalidRequest(msg)
        _check_content(answer)
        self._breakpoints.respond(tx, current.id, answer, by=by, via=stored.type)
        tx[Deliveries].answered(saying.delivery.id, now=now)
        return _taken(tx[Breakpoints].get(current.id, project=stored.project), answer)

    def _check_answerable(self, tx: Transaction, current: Breakpoint, by: Principal) -> None:
        capacity = self._breakpoints.standing(tx, current.id, by=by)
        # The deadline may have passed even though the scheduler has not ended the breakpoint yet.
        standing = timed_out(current, tx.now())
        if standing.status is not Status.WAITING:
            raise ended(standing)
        url = self._review_url(current.id)
        if "high" in (current.risk, current.payload.get("risk")):
            msg = f"This breakpoint is high risk. Sign in to approve or reject it: {url}"
            raise Forbidden(msg, reviewUrl=url)
        if capacity.override:
            msg = f"You can respond to this breakpoint only with an admin override. Sign in to do so: {url}"
            raise Forbidden(msg, reviewUrl=url)

    def _switched_off(self, current: Breakpoint) -> Told:
        """Report that the channel is disabled; do not show the breakpoint, because the sender is not identified yet."""
        url = self._review_url(current.id)
        msg = f"This channel is disabled, so nothing was changed. Sign in to respond: {url}"
        return Told(done=False, message=msg, error=_nothing_here())

    def _refuse(self, tx: Transaction, saying: _Saying, error: AssentError, *, stranger: bool = False) -> Told:
        """Report why a message does not count, and record its key, so that a duplicate cannot count later either."""
        stored, heard = saying.stored, saying.heard
        if not tx[HeardStore].claim(stored.id, heard.key, at=tx.now()):
            return _again(tx, saying)
        message = _late(error) if isinstance(error, AlreadyEnded) else error.message
        if stranger and stored.type in PRIVATE:
            message = f"{message} Sign in here to link it, then try again: {self._offer(tx, stored, heard)}"
        current = tx[Breakpoints].look(saying.delivery.breakpoint_id, project=stored.project)
        # An unlinked sender may see how the breakpoint ended, but not a breakpoint that is still pending.
        shown = None if stranger and current.status is Status.WAITING else current
        return Told(done=False, message=message, breakpoint=shown, error=error)

    def _offer(self, tx: Transaction, stored: StoredChannel, heard: Heard) -> str:
        shown_as = str(heard.said.get("shownAs") or heard.identity)
        return f"{self._base_url}/link/{self._links.offer(tx, stored.id, heard.identity, shown_as=shown_as)}"

    def _review_url(self, breakpoint_id: str) -> str:
        return f"{self._base_url}/breakpoints/{breakpoint_id}"


def _nothing_here() -> NotFound:
    return NotFound(NO_SUCH_URL)


def _unusable(stored: StoredChannel, why: str) -> Unavailable:
    """Log the reason, but do not disclose it, because the caller has not been verified."""
    _log.warning("channel_unusable", channel=stored.id, type=stored.type, error=why)
    return Unavailable("This channel is temporarily unavailable.")


def _delivery(tx: Transaction, stored: StoredChannel, heard: Heard) -> Delivery:
    """Return the delivery that a message answers; it must have been sent through this channel, in its project."""
    if heard.delivery_id is not None:
        found = tx[Deliveries].get(heard.delivery_id, project=stored.project)
        if found.channel == stored.id and heard.breakpoint_id in {None, found.breakpoint_id}:
            return found
    else:
        filters = {"breakpoint_id": heard.breakpoint_id or "", "channel": stored.id}
        sent = tx[Deliveries].page(stored.project, filters, after="", limit=100)
        answered = [each for each in sent if heard.trace.items() <= (traced(each.trace) or {}).items()]
        if answered:
            return answered[-1]
        if any(each.trace is None and each.state in {"pending", "sending"} for each in sent):
            # The message was just sent and its trace has not been recorded yet, so the sender has to try again.
            msg = "This message is still being sent. Try again in a moment."
            raise Unavailable(msg)
    msg = "This message was not sent through this channel."
    raise NotFound(msg)


def _principal(tx: Transaction, saying: _Saying) -> Principal:
    """Return the sender as a principal with their current roles in the project."""
    project = saying.stored.project
    found = _person(tx, saying)
    roles = tx[People].live_roles(found.id, project=project, token_id=None, now=tx.now())
    return Principal(kind=Kind.PERSON, id=found.id, name=found.name, project=project, roles=roles)


def _person(tx: Transaction, saying: _Saying) -> Person:
    stored, heard = saying.stored, saying.heard
    match stored.type:
        case "email":
            # The reply address alone is not enough: the sender must be the person who received the message.
            found = _recipient(tx, saying.delivery)
            if found is not None and (not found.email or found.email.casefold() != heard.identity.casefold()):
                found = None
            why = "Only the recipient of this message can reply to it, using their own email address."
        case "webhook":
            name = stored.settings.get("answersAs")
            found = tx[People].find_by_name(name) if name else None
            why = "This channel is not configured to accept answers. Set answersAs in the channel settings."
        case _:
            found = tx[Links].person_of(stored.id, heard.identity)
            why = "Your account on this channel isn't linked to Assent yet."
    if found is None or not found.active:
        raise _Stranger(why)
    return found


def _recipient(tx: Transaction, delivery: Delivery) -> Person | None:
    """Return the person a delivery was sent to; None if it went to a list of addresses."""
    if not delivery.recipient.startswith(PERSON):
        return None
    return tx[People].find_by_name(delivery.recipient.removeprefix(PERSON))


def _again(tx: Transaction, saying: _Saying) -> Told:
    """Report a duplicate, without changing anything; the sender has already received a reply."""
    if saying.heard.wish is not Wish.ANSWER:
        return Told(done=True, message=_COUNTED_ONCE, again=True)
    current = tx[Breakpoints].look(saying.delivery.breakpoint_id, project=saying.stored.project)
    try:
        name = _person(tx, saying).name
    except _Stranger:
        name = ""
    if any(each.person == name for each in tx[Breakpoints].responses(current.id)):
        return Told(done=True, message=_COUNTED_ONCE, breakpoint=current, again=True)
    msg = "This message was already processed, but your answer was not accepted. Send your answer again."
    return Told(done=True, message=msg, error=Conflict(msg), again=True)


def _taken(current: Breakpoint, answer: Answer) -> Told:
    what = "approval" if answer.approved else "rejection"
    then = f"The breakpoint is {current.decision}." if current.decision else "Waiting for other reviewers."
    return Told(done=True, message=f"Your {what} was recorded. {then}", breakpoint=current)


def _late(error: AlreadyEnded) -> str:
    standing = error.details.get("standing")
    if not is_object(standing):
        return error.message
    by, at = Actor.parse(standing["by"]), str(standing["at"])
    what = standing["decision"] or standing["status"]
    how = "expired" if what == Status.EXPIRED and by.kind is Kind.SYSTEM else f"was {what} by {who(by)}"
    return f"Too late: this breakpoint {how} on {at[:10]} {at[11:16]} UTC. Nothing was changed."


def _problems(error: AssentError) -> dict[str, str]:
    found = cast("Sequence[Mapping[str, str]]", error.details.get("errors", ()))
    return {each["pointer"]: each["detail"] for each in found}


def _text(comment: str | None) -> str:
    text = (comment or "").strip()
    if not text:
        raise InvalidRequest.at("/comment", "is empty")
    _check_content(Answer(approved=False, comment=text))
    return text


def _check_content(answer: Answer) -> None:
    """Refuse text that the database cannot store unchanged; other interfaces refuse it when they parse JSON."""
    if len(answer.comment or "") > MAX_TEXT:
        raise InvalidRequest.at("/comment", f"is longer than {MAX_TEXT:,} characters")
    parts: dict[str, Json] = {
        "comment": answer.comment,
        "option": answer.option,
        "answers": answer.answers,
        "edits": answer.edits,
    }
    for name, value in parts.items():
        try:
            strict_loads(json.dumps(value).encode())
        except (MalformedJson, TypeError, ValueError) as error:
            raise InvalidRequest.at(f"/{name}", "contains characters that cannot be stored") from error
