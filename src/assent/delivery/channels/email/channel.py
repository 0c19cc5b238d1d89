"""The email channel: messages over SMTP and, if configured, answers by reply."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage, Message
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiosmtplib
import structlog

from assent.core.breakpoint import Breakpoint
from assent.core.errors import InvalidRequest, Unauthenticated
from assent.core.terms import Answer, Terms, reason
from assent.delivery.channels.email.letter import Envelope, Letter, message, of_digest, of_note
from assent.delivery.channels.email.reply import automatic, proven, sender, tokens, verdict, words
from assent.delivery.channels.fields import Fields, Hidden
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.wording import line
from assent.delivery.message import Addressee, Digest, Note, Notice, Purpose
from assent.delivery.ports import Heard, Posted, Told, Wish
from assent.kernel.outbound import Permanent, Transient, Undelivered, before_sending, refused
from assent.kernel.ports import Incoming

SECRETS = frozenset({"password", "replySecret", "inboundSecret"})
_REPLY = ("replyDomain", "replySecret", "inboundSecret", "authserv")
PROOFS = frozenset({"replySecret", "inboundSecret", "authserv"})
_KNOWN = frozenset({"host", "port", "tls", "user", "from", "addresses", *_REPLY}) | SECRETS
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
PATIENCE = 20.0
"""Timeout in seconds for a whole SMTP session; shorter than a delivery's lease."""
NO_REASON = "Add a reason after “reject”, for example: reject – not on a Friday."
_GOODBYE = 2.0
_SHORTEST_SECRET = 16
_FINAL = 500
"""The lowest SMTP response code for a permanent failure."""
_SPELT = re.compile(
    r"(?:(?P<name>[^<>@]*)<)?(?P<address>[^\s<>@,;:\"()]+@(?P<domain>[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*))>?"
)
_log = structlog.get_logger()
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Replies:
    """The settings that are required to verify answers by email."""

    domain: str
    secret: Hidden
    inbound: Hidden
    authserv: str


class _Doubtful(Exception):
    """An email was not accepted as an answer; the message is the reason."""


class EmailChannel:
    def __init__(self, settings: Mapping[str, Any], tools: Tools, *, patience: float = PATIENCE) -> None:
        given = Fields(settings, tools, known=_KNOWN)
        self._tools = tools
        self._patience = patience
        self._host = given.text("host")
        self._tls = given.one_of("tls", *_PORTS)
        self._port = given.number("port", _PORTS[self._tls], most=65_535)
        self._from = _sender(given.text("from"))
        self._user, self._password = given.optional("user"), given.secret("password")
        if (self._user is None) != (self._password is None):
            raise InvalidRequest.at("/settings/password", "must be set together with user; set both or neither")
        found = [_address(f"/settings/addresses/{n}", each) for n, each in enumerate(given.texts("addresses"))]
        self._addresses = tuple(found)
        self.replies = _replies(given)
        if self.replies and self._addresses:
            raise InvalidRequest.at(
                "/settings/replyDomain",
                "cannot be used with addresses; people can reply only to messages sent to them individually",
            )

    async def send(self, note: Note) -> Posted:
        # The Message-ID is derived from the delivery's ID, so a message can be threaded below an unconfirmed one.
        thread = (note.thread or {}).get("messageId") or next(map(self._message_id, note.unconfirmed), None)
        reply_to = self._reply_to(note)
        letter = of_note(note, hint=_hint(note.breakpoint) if reply_to else "")
        return await self._post(letter, note.id, note.to, reply_to=reply_to, answers=thread)

    async def close(self, note: Note) -> Posted | None:
        return await self.send(note)

    async def digest(self, digest: Digest) -> Posted:
        return await self._post(of_digest(digest), digest.id, digest.to)

    async def notify(self, notice: Notice) -> Posted:
        if not notice.to.email:
            # A notice is for one person, so it must not go to the addresses in the settings.
            raise Permanent(f"{notice.to.name} does not have an email address.")
        letter = Letter(subject=notice.title, lead=notice.text, links=[(notice.link_label, notice.link)])
        return await self._post(letter, notice.id, notice.to)

    async def check(self) -> str:
        async def greet(client: aiosmtplib.SMTP) -> str:
            await client.noop()
            return "with TLS" if client.get_transport_info("sslcontext") else "without TLS"

        way = await self._speak(greet)
        signed_in = f" and accepts {self._user}'s password" if self._user else ""
        return f"{self._host} accepts connections on port {self._port} {way}{signed_in}."

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        """Read an email that the mail server posted. Drop it without a reply if it cannot be verified."""
        replies = self.replies
        given = incoming.headers.get("authorization", "")
        if replies is None or not hmac.compare_digest(given.encode(), f"Bearer {_value(replies.inbound)}".encode()):
            msg = (
                "Only the configured mail server can post to this URL. The Authorization header must contain the "
                "inboundSecret."
            )
            raise Unauthenticated(msg)
        try:
            letter = message_from_bytes(incoming.body)
            delivery_id, address = _believed(letter, replies)
            said = words(letter)
        except (_Doubtful, MessageError, ValueError, RecursionError) as error:
            _log.info("mail_reply_dropped", why=str(error) if isinstance(error, _Doubtful) else "unreadable message")
            return ()
        if not said:
            return ()
        approved, comment = verdict(said)
        return [
            Heard(
                # The Message-ID stays the same if the mail server posts an email again.
                key="mail:" + hashlib.sha256(letter.get("message-id", "").encode() or incoming.body).hexdigest(),
                wish=Wish.COMMENT if approved is None else Wish.ANSWER,
                identity=address,
                delivery_id=delivery_id,
                comment=comment or None,
                said={"approved": approved, "messageId": line(letter.get("message-id", ""), 250)},
            )
        ]

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        approved = heard.said.get("approved") is True
        comment = heard.comment if approved else reason(heard.comment, NO_REASON)
        return Answer(approved=approved, comment=comment, digest=current.digest)

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        """Tell the sender why an answer was not counted. The closing message confirms answers that were counted."""
        if told.done or not heard.identity:
            return None
        problems = told.problems.items()
        # The message of an InvalidRequest repeats its problem with a JSON pointer, which is only useful to programs.
        message = "" if told.message in {f"{pointer}: {why}" for pointer, why in problems} else told.message
        words = [why if why == NO_REASON else f"{pointer.removeprefix('/')}: {why}" for pointer, why in problems]
        letter = Letter(
            subject="[Approval] Your reply was not counted",
            lead="Your reply was not counted. Nothing was changed.",
            question="\n".join(filter(None, (message, *words))),
        )
        key, answers = heard.key.removeprefix("mail:")[:32], heard.said.get("messageId") or None
        try:
            await self._post(letter, key, Addressee(email=heard.identity), answers=answers, submitted="auto-replied")
        except Undelivered as error:
            _log.warning("mail_reply_unsent", error=error.message)
        return None

    async def _post(
        self,
        letter: Letter,
        name: str,
        to: Addressee,
        *,
        reply_to: str | None = None,
        answers: str | None = None,
        submitted: str = "auto-generated",
    ) -> Posted:
        people = self._people(to)
        # The same for every attempt, so that mail programs can deduplicate a message that arrives twice.
        message_id = self._message_id(name)
        envelope = Envelope(
            id=message_id,
            at=self._tools.now(),
            sender=self._from,
            to=people,
            reply_to=reply_to,
            answers=answers,
            submitted=submitted,
        )
        made = message(letter, envelope)
        missed = await self._speak(lambda client: self._hand_over(client, made, [each.addr_spec for each in people]))
        return Posted({"messageId": message_id} | ({"refused": missed} if missed else {}))

    def _message_id(self, name: str) -> str:
        return f"<{name}@{self._from.domain}>"

    async def _hand_over(self, client: aiosmtplib.SMTP, made: EmailMessage, people: Sequence[str]) -> str:
        """Send the message and describe the recipients that the server refused; the others still receive it."""
        missed, _ = await client.sendmail(self._from.addr_spec, list(people), made.as_bytes())
        return line("; ".join(f"{name}: {code} {text}" for name, (code, text) in missed.items()), 500)

    def _people(self, to: Addressee) -> list[Address]:
        if self._addresses and not to.email:
            return list(self._addresses)
        if not to.email:
            why = f"{to.name or 'The recipient'} does not have an email address. An admin can add one."
            raise Permanent(why, unsent=True)
        try:
            return [_address("", to.email, name=line(to.display_name, 60))]
        except InvalidRequest as error:
            why = f"{to.name}'s email address is not valid. An admin can correct it."
            raise Permanent(why, unsent=True) from error

    def _reply_to(self, note: Note) -> str | None:
        if self.replies is None or note.purpose is Purpose.CLOSE or note.breakpoint.risk == "high":
            return None
        return reply_address(note.id, self.replies.domain, self.replies.secret.value())

    async def _speak(self, work: Callable[[aiosmtplib.SMTP], Awaitable[_Result]]) -> _Result:
        """Connect, sign in, run `work` and disconnect. Raise Transient or Permanent for any failure."""
        client = await self._client()
        ready = False
        try:
            async with asyncio.timeout(self._patience):
                await client.connect()
                with before_sending():
                    await self._sign_in(client)
                ready = True
                result = await work(client)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            judged = self._judged(error)
            # Only `work` sends the message, so nothing was sent if an earlier step failed.
            judged.unsent = not ready
            raise judged from error
        else:
            # The server has accepted the message, so a failure to disconnect does not matter.
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                async with asyncio.timeout(_GOODBYE):
                    await client.quit()
            return result
        finally:
            client.close()

    async def _client(self) -> aiosmtplib.SMTP:
        link = await self._tools.outbound.dial(self._host, self._port)
        if self._tls == "none" and _is_public(link):
            link.close()
            why = f"{self._host} is a public address, which requires TLS: set tls to starttls or tls."
            raise Permanent(why, unsent=True)
        return aiosmtplib.SMTP(
            hostname=self._host,
            sock=link,
            use_tls=self._tls == "tls",
            start_tls=self._tls == "starttls",
            local_hostname=urlsplit(self._tools.base_url).hostname or "localhost",
            timeout=self._patience,
        )

    async def _sign_in(self, client: aiosmtplib.SMTP) -> None:
        if self._user is None or self._password is None:
            return
        try:
            await client.login(self._user, self._password.value())
        except aiosmtplib.SMTPResponseException as error:
            if error.code < _FINAL:
                raise
            advice = "Check the user setting and the secret referenced by the password setting"
            msg = f"{self._host} rejected the credentials for {self._user}. {advice}."
            raise Permanent(msg, status=error.code) from error

    def _judged(self, error: Exception) -> Undelivered:
        if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
            # No recipient was accepted, so if one may be accepted later, retrying all of them sends no duplicates.
            first = min(error.recipients, key=lambda each: each.code)
            return self._answered(first.code, f"{first.recipient}: {first.message}")
        if isinstance(error, aiosmtplib.SMTPResponseException):
            return self._answered(error.code, error.message)
        if isinstance(error, OSError):
            return Transient(f"Cannot connect to {self._host}: {_trouble(error)}.")
        if isinstance(error, aiosmtplib.SMTPException):
            # The server lacks a required feature, such as TLS, authentication or UTF-8.
            return Permanent(f"{self._host} does not support these settings: {line(str(error))}")
        return Permanent(f"The message could not be encoded: {line(str(error))}")

    def _answered(self, code: int, text: str) -> Undelivered:
        said = f"{self._host} responded with {code} {line(text, 200)}"
        return Permanent(said, status=code) if code >= _FINAL else Transient(said, status=code)


def _trouble(error: BaseException) -> str:
    every = (error, error.__cause__, error.__context__)
    certificate = next((each for each in every if isinstance(each, ssl.SSLCertVerificationError)), None)
    if certificate is not None:
        return f"its certificate is not valid ({certificate.verify_message})"
    return "the connection timed out" if isinstance(error, TimeoutError) else "the connection was lost"


def reply_address(delivery_id: str, domain: str, secret: str) -> str:
    """Return a delivery's Reply-To address; the MAC makes the addresses of other deliveries impossible to guess."""
    return f"bp+{delivery_id}.{_proof(delivery_id, secret)}@{domain}"


def _proof(delivery_id: str, secret: str) -> str:
    mac = hmac.new(secret.encode(), delivery_id.encode(), hashlib.sha256).digest()
    return base64.b32encode(mac[:15]).decode().lower()


def _believed(letter: Message, replies: Replies) -> tuple[str, str]:
    """Return the delivery and the sender of a verified reply; raise _Doubtful for any other email."""
    secret = _value(replies.secret)
    given = tokens(letter, replies.domain)
    deliveries = {name for name, proof in given if hmac.compare_digest(proof, _proof(name, secret))}
    if len(deliveries) != 1:
        raise _Doubtful("not a reply to exactly one of this channel's messages")
    if automatic(letter):
        raise _Doubtful("automatic message")
    address = sender(letter)
    if address is None or not proven(letter, authserv=replies.authserv, domain=address.rpartition("@")[2]):
        raise _Doubtful("sender not verified with DMARC")
    return deliveries.pop(), address


def _value(secret: Hidden) -> str:
    try:
        return secret.value()
    except Transient as error:
        raise Unauthenticated(error.message) from error


def _hint(asked: Breakpoint) -> str:
    if Terms.of(asked.gate, asked.payload).plain:
        return "Reply with “approve”, or with “reject” and a reason."
    return "To reject, reply with “reject” and a reason. To approve, open Review."


def _replies(given: Fields) -> Replies | None:
    domain, authserv = given.optional("replyDomain"), given.optional("authserv")
    secret, inbound = given.secret("replySecret"), given.secret("inboundSecret")
    if domain is None and authserv is None and secret is None and inbound is None:
        return None
    if domain is None or authserv is None or secret is None or inbound is None:
        raise InvalidRequest.at("/settings/replyDomain", f"replies require all of {', '.join(_REPLY)}")
    if not re.fullmatch(r"[A-Za-z0-9.-]{1,200}", domain):
        raise InvalidRequest.at("/settings/replyDomain", "must be a domain name")
    for name, each in (("replySecret", secret), ("inboundSecret", inbound)):
        if len(each.value()) < _SHORTEST_SECRET:
            raise InvalidRequest.at(f"/settings/{name}", f"must be at least {_SHORTEST_SECRET} characters long")
    return Replies(domain.lower(), secret, inbound, authserv)


def _sender(text: str) -> Address:
    found = _SPELT.fullmatch(text)
    name = found["name"] if found else ""
    return _address("/settings/from", found["address"] if found else text, name=(name or "").strip(' "') or "Assent")


def _address(pointer: str, text: str, *, name: str = "") -> Address:
    found = _SPELT.fullmatch(text)
    if found is None or found["name"] is not None:
        raise InvalidRequest.at(pointer, "must be an email address")
    try:
        return Address(display_name=name, addr_spec=text)
    except (ValueError, MessageError, IndexError) as error:
        raise InvalidRequest.at(pointer, "must be an email address") from error


def _is_public(link: socket.socket) -> bool:
    return refused(ip_address(link.getpeername()[0])) is None


def personal(settings: Mapping[str, Any]) -> bool:
    return not settings.get("addresses")
