"""Webhooks from any program, authenticated by Standard Webhooks, a custom HMAC, a bearer token or a secret path."""

import math
import re
from collections.abc import Mapping
from typing import Any

from assent.core.canonical import Json, is_array, is_object, pointer_step, strict_loads
from assent.core.errors import InvalidRequest
from assent.kernel.ports import Incoming
from assent.triggers import templates
from assent.triggers.event import EVENT_ATTRIBUTES, VIEW, Arrived, Trust
from assent.triggers.sources.cloudevents import CloudEvent, cloud_event
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.hook import Sent, arrived, hashed, json_of, kept_headers
from assent.triggers.sources.reading import LONGEST_SUBJECT, LONGEST_TYPE, Told, at, moment, number, text, texts
from assent.triggers.sources.signatures import (
    HMAC,
    NONE,
    PATH,
    STANDARD,
    TOLERANCE,
    Check,
    Proof,
    Stamp,
    bearer,
    nothing,
    path,
    signed,
    standard_webhooks,
)
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})
KNOWN = SECRETS | {
    "verify", "header", "prefix", "encoding", "timestamp_header", "tolerance", "signed", "delivery_header", "view",
    "cloudevents",
}  # fmt: skip
HOW = ("standard-webhooks", "hmac", "bearer", "path", "none")
UNNAMED = "webhook"
"""The default type of events. The caller appends the source's name, which is not known here."""
OTHERS = frozenset(
    {"github", "gitlab", "bitbucket", "gitea", "forgejo", "circleci", "jenkins", "jira", "webhook", "git", "fs",
     "files", "schedule", "breakpoint", "run", "manual", "assent"}
)  # fmt: skip
"""Prefixes of types that are reserved for other sources and for Assent itself."""
BODY, TIMESTAMP = "{body}", "{timestamp}"
_HEADER = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}", re.ASCII)
_LISTS = frozenset({"paths", "labels", "tags"})
_NEVER_KEPT = frozenset({"authorization", "cookie", "proxy-authorization"})


class WebhookSource:
    def __init__(self, settings: Mapping[str, Any], tools: SourceTools) -> None:
        self._fields = Fields(settings, tools, known=KNOWN)
        self._how = self._fields.one_of("verify", *HOW)
        self._delivery = _header(self._fields, "delivery_header")
        self._view = _view_of(self._fields)
        self._binary = self._fields.flag("cloudevents")
        self._check = self._checked()
        if self._delivery in _NEVER_KEPT or (self._delivery and self._delivery == self._fields.text("header")):
            raise InvalidRequest.at("/settings/delivery_header", "must not be the header that authenticates the sender")

    def take(self, incoming: Incoming, *, key: str | None) -> list[Arrived]:
        proof = self._check(incoming, key)
        event = cloud_event(incoming, binary=self._binary)
        return [self._plain(incoming, proof) if event is None else self._event(event, incoming, proof)]

    def _plain(self, incoming: Incoming, proof: Proof) -> Arrived:
        body = json_of(incoming)
        data = strict_loads(body)
        # Only Standard Webhooks defines a type in the body. In other formats, the field could mean anything.
        own_type = text(data, "type") if proof.how == STANDARD else None
        told = self._told(own_type, None, moment(at(data, "timestamp")) if proof.how == STANDARD else None, data)
        delivery = proof.id or (incoming.headers.get(self._delivery) if self._delivery else None)
        names = ("webhook-id", *((self._delivery,) if self._delivery else ()))
        kept = kept_headers(incoming.headers, names)
        sent = Sent(proof, body, f"webhook:{delivery}" if delivery else None, delivery, kept)
        return arrived(told, data, sent, self._fields)

    def _event(self, event: CloudEvent, incoming: Incoming, proof: Proof) -> Arrived:
        attributes = event.attributes
        told = self._told(attributes["type"], attributes.get("subject"), event.occurred_at, event.data)
        key = f"webhook:{proof.id}" if proof.id else event.key
        if event.is_binary and proof.how == HMAC:
            # The signature does not cover the ID in the headers, so a different body with this ID is a different event.
            key = f"{key} {hashed(incoming.body)}"
        kept = {**kept_headers(incoming.headers, ("webhook-id",)), **event.headers()}
        sent = Sent(proof, incoming.body, key, proof.id or attributes["id"], kept)
        return arrived(told, event.data, sent, self._fields)

    def _told(self, own_type: str | None, subject: str | None, occurred_at: int | None, data: Json) -> Told:
        seen = {"type": own_type, "subject": subject, "data": data}
        return Told(
            type=UNNAMED if own_type is None else _own(own_type),
            subject=subject[:LONGEST_SUBJECT] if subject else None,
            occurred_at=occurred_at,
            view={name: value for name, value in _filled(self._view, seen).items() if value not in (None, "", [])},
        )

    def _checked(self) -> Check:
        if self._how == NONE:
            return self._unverified()
        secrets = self._fields.secrets()
        if self._how == STANDARD:
            return standard_webhooks(secrets, tolerance=self._tolerance())
        if self._how == "hmac":
            return signed(
                _header(self._fields, "header") or "x-signature",
                secrets,
                prefix=self._fields.text("prefix") or "",
                encoding=self._fields.one_of("encoding", "hex", "base64"),
                stamp=self._stamp(),
            )
        return (path if self._how == PATH else bearer)(secrets)

    def _unverified(self) -> Check:
        if self._fields.trust is Trust.TRUSTED:
            raise InvalidRequest.at("/settings/trust", "cannot be trusted with verify: none")
        if self._fields.optional_secrets("secrets") is not None:
            raise InvalidRequest.at("/settings/secrets", "are not used with verify: none; choose a verification method")
        return nothing()

    def _stamp(self) -> Stamp | None:
        name = _header(self._fields, "timestamp_header")
        written = self._fields.text("signed") or (f"{TIMESTAMP}.{BODY}" if name else BODY)
        if written.count(BODY) != 1 or (TIMESTAMP in written) != (name is not None):
            msg = f"must contain {BODY} once, and {TIMESTAMP} if timestamp_header is set"
            raise InvalidRequest.at("/settings/signed", msg)
        before, _, after = written.partition(BODY)
        if name is None:
            if before or after:
                raise InvalidRequest.at("/settings/signed", f"must be {BODY} if timestamp_header is not set")
            return None
        return Stamp(name, before, after, self._tolerance())

    def _tolerance(self) -> int:
        found = self._fields.length("tolerance", f"{TOLERANCE}s")
        if not 1 <= found <= 3600:  # noqa: PLR2004  # older requests are replays, not late deliveries
            raise InvalidRequest.at("/settings/tolerance", "must be between 1s and 1h")
        return math.ceil(found)


def _header(fields: Fields, name: str) -> str | None:
    found = fields.text(name)
    if found is None:
        return None
    if not _HEADER.fullmatch(found.lower()):
        raise InvalidRequest.at(f"/settings/{name}", "must be a header name")
    return found.lower()


def _own(name: str) -> str:
    if len(name) > LONGEST_TYPE or not name.isprintable():
        raise InvalidRequest.at("/type", f"must have at most {LONGEST_TYPE} printable characters")
    # Otherwise, this sender could fire triggers that are meant for other sources.
    if name.partition(".")[0].strip().lower() in OTHERS:
        raise InvalidRequest.at("/type", f"cannot be {name}: this prefix is reserved for other sources")
    return name


def _view_of(fields: Fields) -> dict[str, Json]:
    found = fields.mapping("view")
    for name, value in found.items():
        if name not in VIEW:
            raise InvalidRequest.at(f"/settings/view/{pointer_step(name)}", f"is not one of {', '.join(VIEW)}")
        if not isinstance(value, str):
            raise InvalidRequest.at(
                f"/settings/view/{pointer_step(name)}", "must be a string such as {{ event.data.branch }}"
            )
        templates.check(value, EVENT_ATTRIBUTES, f"/settings/view/{name}")
    return found


def _filled(wanted: Mapping[str, Json], seen: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, template in wanted.items():
        value = templates.fill(template, seen)
        if name in _LISTS:
            found[name] = texts(value if is_array(value) else [value])
        elif name == "attempt":
            found[name] = number(value)
        else:
            found[name] = None if is_object(value) or is_array(value) else text(value)
    return found
