"""Builds, signs and verifies Standard Webhooks messages about breakpoints."""

import base64
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from assent.core.breakpoint import NEVER, TERMINAL, Breakpoint, Event, Status
from assent.core.canonical import Json
from assent.core.errors import Unauthenticated
from assent.core.timestamps import SECOND, iso
from assent.delivery.message import Digest, Note, Purpose
from assent.kernel.ports import Incoming

LARGEST_BODY = 20_000
PREFIX = "whsec_"
_SHORTEST_KEY, _LONGEST_KEY = 24, 64
TOLERANCE = 5 * 60 * SECOND
_ID = re.compile(r"[!-~]{1,200}")
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)

STATUS_AFTER: dict[str, Status] = {
    "created": Status.WAITING,
    "responded": Status.WAITING,
    "released": Status.RELEASED,
    "expired": Status.EXPIRED,
    "cancelled": Status.CANCELLED,
}
"""The events that are sent, each with the resulting status."""
ASKS = {Purpose.ASK: "created", Purpose.REMIND: "reminded", Purpose.ESCALATE: "escalated"}
"""The names of the messages that ask for an answer."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message; retries send it unchanged, so receivers can deduplicate by ID."""

    id: str
    body: bytes


def message(delivery_id: str, current: Breakpoint, event: Event) -> Message:
    """Build the message about an event; later changes to the breakpoint do not affect the message."""
    return Message(delivery_id, _fitting(_body(current, event, STATUS_AFTER[event.type]), "result"))


def announcement(note: Note) -> Message:
    """Build a webhook channel's message: the event and, for a request, everything that an answer requires."""
    body = _body(note.breakpoint, note.event, STATUS_AFTER.get(note.event.type, Status.WAITING))
    if note.purpose not in ASKS:
        return Message(note.id, _fitting(body, "result"))
    body |= {"type": f"breakpoint.{ASKS[note.purpose]}", "data": body["data"] | _question(note)}
    return Message(note.id, _fitting(body, "form", "question", "description"))


def roundup(digest: Digest) -> Message:
    """Build the message for a digest."""
    waiting = [
        {
            "breakpointId": each.id,
            "gate": each.gate,
            "title": each.title,
            "risk": each.risk,
            "digest": each.digest,
            "reviewUrl": digest.urls.get(each.id, digest.inbox_url),
        }
        for each in digest.waiting
    ]
    data = {"total": digest.total, "ended": digest.ended, "inboxUrl": digest.inbox_url, "waiting": waiting}
    body = {"type": "breakpoint.digest", "timestamp": iso(digest.at), "data": data}
    return Message(digest.id, _fitting(body, "waiting"))


def verified(incoming: Incoming, secrets: Sequence[str]) -> str:
    """Verify a message's signature and timestamp, and return its ID; raise Unauthenticated if they are invalid."""
    headers = incoming.headers
    message_id, seconds = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(message_id) or not _SECONDS.fullmatch(seconds):
        msg = "The Standard Webhooks headers webhook-id, webhook-timestamp and webhook-signature are required."
        raise Unauthenticated(msg)
    if abs(int(seconds) * SECOND - incoming.at) > TOLERANCE:
        msg = "The webhook-timestamp differs from the server time by more than five minutes."
        raise Unauthenticated(msg)
    signed = f"{message_id}.{seconds}.".encode() + incoming.body
    given = [each.encode("utf-8", "replace") for each in headers.get("webhook-signature", "").split(" ")]
    right = [b"v1," + base64.b64encode(hmac.digest(_key(each), signed, "sha256")) for each in secrets]
    # Compare every pair, so that the duration does not reveal which pair matched.
    if not sum(hmac.compare_digest(mine, theirs) for mine in right for theirs in given):
        msg = "Invalid webhook-signature: it does not match any of this channel's secrets."
        raise Unauthenticated(msg)
    return message_id


def signed_headers(message_id: str, body: bytes, *, secrets: Sequence[str], at: int) -> dict[str, str]:
    """Sign one attempt with every secret, because a receiver may know only one of them during rotation."""
    if not secrets:
        msg = "A webhook requires a secret because messages are always signed."
        raise ValueError(msg)
    moment = datetime.fromtimestamp(at // SECOND, tz=UTC)  # the library treats every time zone as UTC
    signatures = [Webhook(_key(secret)).sign(message_id, moment, body.decode()) for secret in secrets]
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at // SECOND),
        "webhook-signature": " ".join(signatures),
    }


def new_secret(random: Callable[[int], bytes]) -> str:
    return PREFIX + base64.b64encode(random(32)).decode()


def _key(secret: str) -> bytes:
    """Decode a secret strictly: the library ignores invalid characters and signs with the rest."""
    spelt = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(spelt + "=" * (-len(spelt) % 4), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        msg = f"A webhook secret must be {PREFIX} followed by {_SHORTEST_KEY} to {_LONGEST_KEY} bytes in base64."
        raise ValueError(msg)
    return key


def _body(current: Breakpoint, event: Event, status: Status) -> dict[str, Any]:
    data = {
        "breakpointId": current.id,
        "project": current.project,
        "agentId": current.agent_id,
        "runId": current.run_id,
        "gate": current.gate,
        "title": current.title,
        "status": status.value,
        "decision": event.metadata.get("decision"),
        "digest": current.digest,
        "seq": event.seq,
        "actor": str(event.actor),
        # Omitted from earlier events, so that a retry after the breakpoint has ended sends the same message.
        "result": current.result if status in TERMINAL else None,
    }
    return {"type": f"breakpoint.{event.type}", "timestamp": iso(event.at), "data": _given(data)}


def _question(note: Note) -> dict[str, Any]:
    """Return the question and where to answer it, including fields that the original project's receivers expect."""
    asked, payload = note.breakpoint, note.breakpoint.payload
    question: Json = payload.get("question")
    return _given(
        {
            "deliveryId": note.id,
            "question": question,
            "options": payload.get("options"),
            "form": payload.get("form"),
            "tags": list(asked.tags),
            "risk": asked.risk,
            "experts": [name for seat in asked.seats for name in seat.names],
            "dueAt": iso(asked.due_at) if asked.due_at != NEVER else None,
            "reviewUrl": note.review_url,
            "callbackUrl": note.answer_url,
            "description": question,
            "expert": payload.get("expert"),
            "effectId": payload.get("effectId", asked.id),
            "timeoutMs": asked.ttl_seconds * 1000 if asked.ttl_seconds else None,
        }
    )


def _given(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}


def _fitting(body: Mapping[str, Any], *left_out: str) -> bytes:
    """Encode the body; while it is too long, replace the given fields one by one with `<name>Omitted`."""
    data: dict[str, Any] = body["data"]
    encoded = _encoded(body)
    for name in left_out:
        if len(encoded) <= LARGEST_BODY:
            break
        if name in data:
            data = {key: value for key, value in data.items() if key != name} | {f"{name}Omitted": True}
            encoded = _encoded({**body, "data": data})
    return encoded


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
