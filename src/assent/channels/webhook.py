"""The webhook channel: what an event of a breakpoint looks like as a signed Standard Webhooks message."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from assent.domain.breakpoint import TERMINAL, Breakpoint, Event, Status
from assent.domain.instants import SECOND, iso

LARGEST_BODY = 20_000
PREFIX = "whsec_"
_SHORTEST_KEY, _LONGEST_KEY = 24, 64

STATUS_AFTER: dict[str, Status] = {
    "created": Status.WAITING,
    "responded": Status.WAITING,
    "released": Status.RELEASED,
    "expired": Status.EXPIRED,
    "cancelled": Status.CANCELLED,
}
"""The events that are sent, each with the status it led to."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent, and sent again unchanged: a receiver that sees an id twice may skip the second."""

    id: str
    body: bytes


def message(delivery_id: str, current: Breakpoint, event: Event) -> Message:
    """Build the message of an event; the breakpoint may have moved on since, and the message stays the same."""
    body = _body(current, event)
    encoded = _encoded(body)
    if len(encoded) > LARGEST_BODY:
        data = {key: value for key, value in body["data"].items() if key != "result"}
        encoded = _encoded(body | {"data": data | {"resultOmitted": True}})
    return Message(delivery_id, encoded)


def signed_headers(message_id: str, body: bytes, *, secrets: Sequence[str], at: int) -> dict[str, str]:
    """Sign one attempt with every secret: while one is being replaced, a receiver may know either."""
    if not secrets:
        msg = "A webhook needs a secret; nothing is sent unsigned."
        raise ValueError(msg)
    moment = datetime.fromtimestamp(at // SECOND, tz=UTC)  # the library takes any other zone for UTC
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
    """Read a secret strictly: the library skips what it cannot read and signs with what is left."""
    spelt = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(spelt + "=" * (-len(spelt) % 4), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        msg = f"A webhook secret is {PREFIX} and {_SHORTEST_KEY} to {_LONGEST_KEY} bytes in base64."
        raise ValueError(msg)
    return key


def _body(current: Breakpoint, event: Event) -> dict[str, Any]:
    status = STATUS_AFTER[event.type]
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
        "result": current.result if status in TERMINAL else None,
    }
    return {
        "type": f"breakpoint.{event.type}",
        "timestamp": iso(event.at),
        "data": {key: value for key, value in data.items() if value is not None},
    }


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
