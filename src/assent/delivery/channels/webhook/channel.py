"""The webhook channel: signed messages to a program, and its signed answers on behalf of a person."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from assent.core.breakpoint import Breakpoint
from assent.core.canonical import Json, is_object, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson, Unavailable
from assent.core.terms import Answer
from assent.delivery.channels.fields import Fields
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.webhook.message import (
    ASKS,
    STATUS_AFTER,
    Message,
    announcement,
    roundup,
    signed_headers,
    verified,
)
from assent.delivery.message import Digest, Note
from assent.delivery.ports import Heard, Posted, Told, Wish
from assent.kernel.outbound import BadUrl, Reply, Transient, refused
from assent.kernel.ports import Incoming

KNOWN = frozenset({"url", "secrets", "answersAs", "answersInline", "events"})
EVENTS = (*ASKS.values(), *(each for each in STATUS_AFTER if each not in ASKS.values()))
INLINE = "inline:"
"""Key prefix for answers that a receiver included in its response to our message."""
_PORTS = {"http": 80, "https": 443}
_FIELDS: dict[str, tuple[type, str]] = {
    "deliveryId": (str, "a string"),
    "breakpointId": (str, "a string"),
    "approved": (bool, "true or false"),
    "comment": (str, "a string"),
    "option": (str, "a string"),
    "answers": (dict, "an object"),
    "edits": (dict, "an object"),
    "digest": (str, "a string"),
}


class WebhookChannel:
    def __init__(self, settings: Mapping[str, Any], tools: Tools) -> None:
        fields = Fields(settings, tools, known=KNOWN)
        self._tools = tools
        self._url = fields.text("url")
        self._secrets = fields.secrets("secrets")
        self._answers_as = fields.optional("answersAs")
        self._inline = fields.flag("answersInline")
        self._events = frozenset(fields.texts("events") or EVENTS)
        self._check()

    def _check(self) -> None:
        try:
            self._tools.outbound.check_url(self._url)
        except BadUrl as error:
            raise InvalidRequest.at("/settings/url", str(error)) from error
        if not 1 <= len(self._secrets) <= 2:  # noqa: PLR2004  # two during rotation: the old and the new secret
            raise InvalidRequest.at("/settings/secrets", "must contain one secret, or two during rotation")
        for place, each in enumerate(self._secrets):
            try:
                signed_headers("check", b"", secrets=[each.value()], at=0)
            except ValueError as error:
                raise InvalidRequest.at(f"/settings/secrets/{place}", str(error)) from error
        unknown = sorted(self._events - set(EVENTS))
        if unknown:
            raise InvalidRequest.at("/settings/events", f"{unknown[0]!r} is not one of {', '.join(EVENTS)}")
        if self._inline and self._answers_as is None:
            raise InvalidRequest.at(
                "/settings/answersInline", "requires answersAs, the person on whose behalf the program answers"
            )
        if self._inline and not _tamper_proof(self._url):
            raise InvalidRequest.at(
                "/settings/answersInline", "requires an https URL, because answers could otherwise be forged in transit"
            )

    async def send(self, note: Note) -> Posted:
        asks = note.purpose in ASKS
        if (ASKS[note.purpose] if asks else note.event.type) not in self._events:
            return Posted({"skipped": "The events setting excludes this event."})
        reply = await self._post(announcement(note), note.at)
        said = self._said_inline(note, reply) if asks and self._inline else None
        return Posted({"id": note.id}, reply.status, said)

    async def close(self, note: Note) -> Posted | None:
        return await self.send(note) if note.event.type in self._events else None

    async def digest(self, digest: Digest) -> Posted:
        reply = await self._post(roundup(digest), digest.at)
        return Posted({"id": digest.id}, reply.status)

    async def check(self) -> str:
        place = urlsplit(self._url)
        host = place.hostname or ""
        link = await self._tools.outbound.dial(host, place.port or _PORTS[place.scheme.lower()])
        link.close()
        answers = f"answers are attributed to {self._answers_as}" if self._answers_as else "answers are not accepted"
        secrets = "one secret" if len(self._secrets) == 1 else "two secrets"
        return f"{host} accepts connections; messages are signed with {secrets}; {answers}."

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        try:
            key = verified(incoming, self._keys())
        except Transient as error:
            raise Unavailable(error.message) from error
        said = _read(incoming.body)
        wish = Wish.ANSWER if "approved" in said else Wish.COMMENT
        if wish is Wish.COMMENT and not said.get("comment"):
            raise InvalidRequest.at("/approved", "is required for an answer; to add a comment instead, set comment")
        if wish is Wish.ANSWER and "digest" not in said:
            raise InvalidRequest.at("/digest", "is required: send the digest from the message that you are answering")
        if not said.get("deliveryId") and not said.get("breakpointId"):
            raise InvalidRequest.at("/deliveryId", "is required unless breakpointId is set")
        return [
            Heard(
                key=key,
                wish=wish,
                identity=self._answers_as or "",
                delivery_id=said.get("deliveryId"),
                breakpoint_id=said.get("breakpointId"),
                comment=said.get("comment"),
                said=said,
            )
        ]

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:  # noqa: ARG002  # the message contains the complete answer
        said = heard.said
        return Answer(
            approved=said["approved"],
            comment=said.get("comment"),
            option=said.get("option"),
            answers=said.get("answers"),
            edits=said.get("edits"),
            digest=said["digest"],
        )

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        """Return the current status like the API, or raise the error; for an inline answer, return it in the body."""
        if told.error is not None and not heard.key.startswith(INLINE):
            raise told.error
        body: dict[str, Any] = {"done": told.done and told.error is None, "message": told.message}
        if told.breakpoint is not None:
            body |= {"breakpointId": told.breakpoint.id, "status": told.breakpoint.status.value}
            if told.breakpoint.decision is not None:
                body["decision"] = told.breakpoint.decision.value
        return body

    async def _post(self, message: Message, at: int) -> Reply:
        headers = signed_headers(message.id, message.body, secrets=self._keys(), at=at or self._tools.now())
        return await self._tools.outbound.post(self._url, body=message.body, headers=headers)

    def _keys(self) -> list[str]:
        return [each.value() for each in self._secrets]

    def _said_inline(self, note: Note, reply: Reply) -> Incoming | None:
        """Return the answer in a response, which we sign because it arrived over our own connection to the receiver."""
        # Other successful responses, such as 202 or 204, only acknowledge the message.
        if reply.status != HTTPStatus.OK:
            return None
        try:
            said = strict_loads(reply.body)
        except MalformedJson:
            return None
        if not is_object(said) or "approved" not in said:
            return None
        # Overrides IDs in the response, because the receiver can answer only the message that it received.
        named = {**said, "deliveryId": note.id, "breakpointId": note.breakpoint.id}
        body = json.dumps(named, ensure_ascii=False).encode()
        now = self._tools.now()
        return Incoming(signed_headers(f"{INLINE}{note.id}", body, secrets=self._keys()[:1], at=now), body, now)


def _read(body: bytes) -> dict[str, Json]:
    """Parse and validate a program's message; fields that are null are omitted."""
    try:
        said = strict_loads(body)
    except MalformedJson as error:
        raise InvalidRequest.at("/", error.message) from error
    if not is_object(said):
        raise InvalidRequest.at("/", "must be an object")
    for name, value in said.items():
        if name not in _FIELDS:
            raise InvalidRequest.at(f"/{name}", f"is not one of {', '.join(_FIELDS)}")
        kind, what = _FIELDS[name]
        if value is not None and not isinstance(value, kind):
            raise InvalidRequest.at(f"/{name}", f"must be {what}")
    return {name: value for name, value in said.items() if value is not None}


def _tamper_proof(url: str) -> bool:
    """Return whether responses are protected by TLS or come from a private address that an operator allowed."""
    place = urlsplit(url)
    if place.scheme.lower() == "https":
        return True
    host = place.hostname or ""
    try:
        return host == "localhost" or refused(ip_address(host)) is not None
    except ValueError:
        return False
