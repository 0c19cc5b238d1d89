"""Webhook sources: verify the raw body, parse it, and create an event with common field names."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qs

from assent.core.canonical import Json, is_object, strict_loads
from assent.core.errors import InvalidRequest, MalformedJson
from assent.core.timestamps import SECOND
from assent.kernel.ports import Incoming
from assent.triggers.event import WINDOW, Arrived
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.reading import Told, marks
from assent.triggers.sources.signatures import Check, Proof
from assent.triggers.templates import fill, gaps

FORM = "application/x-www-form-urlencoded"
LONGEST_HEADER = 500
LONGEST_KEY = 300
ALWAYS_KEPT = ("content-type", "user-agent")

Headers: TypeAlias = Mapping[str, str]
Reader: TypeAlias = Callable[[Headers, Json], Told]


@dataclass(frozen=True, slots=True)
class Provider:
    """The format of one provider's webhooks."""

    name: str
    read: Reader
    ids: tuple[str, ...] = ()
    """Headers that identify a delivery and do not change when it is retried. The first one present is used."""
    kept: tuple[str, ...] = ()
    """Headers that are stored in addition to Content-Type and User-Agent."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How an event was received: its proof, body and headers, and the sender's IDs."""

    proof: Proof
    body: bytes
    key: str | None
    delivery: str | None
    headers: Headers


class ProviderHook:
    def __init__(self, provider: Provider, fields: Fields, check: Check) -> None:
        self._provider = provider
        self._fields = fields
        self._check = check

    def take(self, incoming: Incoming, *, key: str | None) -> list[Arrived]:
        # Verify the request before parsing any of it.
        proof = self._check(incoming, key)
        body = json_of(incoming)
        data = strict_loads(body)
        if not is_object(data):
            raise InvalidRequest.at("/", "must be an object")
        headers = incoming.headers
        told = self._provider.read(headers, data)
        delivery = proof.id or next((headers[each] for each in self._provider.ids if headers.get(each)), None)
        named = delivery or told.id
        found = f"{self._provider.name}:{named}" if named else None
        kept = kept_headers(headers, self._provider.kept)
        return [arrived(told, data, Sent(proof, body, found, delivery, kept), self._fields)]


def arrived(told: Told, data: Json, sent: Sent, fields: Fields) -> Arrived:
    """Create an event. Without a deduplication key, identical bodies within a time window are duplicates."""
    own = sent.key or _filled(told, data, sent, fields)
    found = Arrived(
        type=told.type,
        key=_short(own) if own else f"sha256:{hashed(sent.body)}",
        data=data,
        view=told.view,
        subject=told.subject,
        occurred_at=told.occurred_at,
        verified=sent.proof.how,
        trust=fields.trust,
        delivery_id=_printable(sent.delivery or told.id),
        headers=sent.headers,
        # Marks are ASCII, so any encoding that never fails can be used to search the whole body.
        marks=marks(*told.said) if told.said is not None else marks(sent.body.decode("latin-1")),
        # A signed time may be before or after the server time, so replays must be detected for twice the tolerance.
        window=None if own else max(WINDOW, 2 * sent.proof.tolerance * SECOND),
    )
    return fields.tools.redacted(found)


def json_of(incoming: Incoming) -> bytes:
    """Return the JSON body. GitHub and compatible providers can send it in a form field."""
    if not incoming.headers.get("content-type", "").startswith(FORM):
        return incoming.body
    try:
        found = parse_qs(incoming.body.decode("ascii"), strict_parsing=True, max_num_fields=10)
        return found["payload"][0].encode("utf-8")
    except (ValueError, KeyError) as error:
        msg = "The form does not contain a payload field with JSON."
        raise MalformedJson(msg) from error


def hashed(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def kept_headers(headers: Headers, names: tuple[str, ...]) -> dict[str, str]:
    wanted = {name: _printable(headers.get(name)) for name in (*ALWAYS_KEPT, *names)}
    return {name: value for name, value in wanted.items() if value}


def _filled(told: Told, data: Json, sent: Sent, fields: Fields) -> str | None:
    if fields.dedup is None:
        return None
    seen = {
        **told.view,
        # Keys are specific to a source, and the depth is not known yet.
        "source": "-",
        "depth": 0,
        "type": told.type,
        "subject": told.subject,
        "trust": fields.trust.value,
        "verified": sent.proof.how,
        "data": data,
    }
    # Events without a value for the template must not count as duplicates of each other.
    if gaps(fields.dedup, seen):
        return None
    filled = fill(fields.dedup, seen)
    # Keys are displayed, so a key that contains a secret is hashed. Redacting it could make different keys equal.
    return f"dedup:{filled}" if fields.tools.redact.text(filled) == filled else f"dedup#{_digest(filled)}"


def _short(key: str) -> str:
    """Replace part of a key with a hash if it is too long for the index or not printable."""
    fits = len(key) <= LONGEST_KEY and key.isprintable()
    return key if fits else f"{key[:100] if key.isascii() and key.isprintable() else 'id'}#{_digest(key)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _printable(value: str | None) -> str | None:
    return value[:LONGEST_HEADER] if value and value.isprintable() else None
