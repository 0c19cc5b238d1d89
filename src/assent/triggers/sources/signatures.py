"""Authenticates webhook senders by signatures of the raw body, tokens or secret paths.

Every check returns a Proof or raises Unauthenticated, whose message must not be shown to the sender. Each secret is
compared with each sent value in constant time, and an empty signature is never valid.
"""

import base64
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from assent.core.errors import InvalidRequest, Unauthenticated
from assent.core.timestamps import SECOND
from assent.kernel.ports import Incoming
from assent.triggers.sources.fields import Secrets

HMAC, STANDARD, BEARER, PATH, NONE = "hmac-sha256", "standard-webhooks", "bearer", "path", "none"
TOLERANCE = 300
"""Maximum difference in seconds between a signed time and the server time."""
PREFIX = "whsec_"
_SHORTEST_KEY, _LONGEST_KEY = 24, 64
_ID = re.compile(r"[!-~]{1,200}")
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Proof:
    how: str
    id: str | None = None
    """The sender's ID for the event, if the signature covers it."""
    tolerance: int = 0
    """Seconds before and after the signed time during which the request can be replayed."""


Check: TypeAlias = Callable[[Incoming, str | None], Proof]
"""Checks a request and the last part of its path."""


def hub(header: str, secrets: Secrets, *, prefix: str = "sha256=") -> Check:
    """Check a hexadecimal HMAC-SHA256 of the body, as sent by most providers."""
    return signed(header, secrets, prefix=prefix)


def signed(
    header: str,
    secrets: Secrets,
    *,
    prefix: str = "",
    encoding: str = "hex",
    stamp: "Stamp | None" = None,
) -> Check:
    def check(incoming: Incoming, _: str | None) -> Proof:
        given = incoming.headers.get(header, "")
        # Gitea sends an empty signature if its webhook has no secret.
        if not given.startswith(prefix) or given == prefix:
            raise _refused(f"The {header} header does not contain a signature.")
        content = stamp.content(incoming) if stamp is not None else incoming.body
        digests = [hmac.digest(each.encode(), content, "sha256") for each in secrets.values()]
        if not _one_of([given.removeprefix(prefix)], [_spelt(each, encoding) for each in digests]):
            raise _refused(f"Invalid signature in {header}: it does not match any of this source's secrets.")
        return Proof(HMAC, tolerance=stamp.tolerance if stamp is not None else 0)

    return check


@dataclass(frozen=True, slots=True)
class Stamp:
    """A timestamp that is signed together with the body, as in `{timestamp}.{body}`."""

    header: str
    before: str
    after: str
    tolerance: int

    def content(self, incoming: Incoming) -> bytes:
        given = incoming.headers.get(self.header, "")
        _require_recent(given, self.header, incoming.at, self.tolerance)
        before, after = (part.replace("{timestamp}", given).encode() for part in (self.before, self.after))
        return before + incoming.body + after


def circleci(secrets: Secrets) -> Check:
    """Check the `v1` signatures in `v1=<hex>,v2=…`, ignoring other versions."""

    def check(incoming: Incoming, _: str | None) -> Proof:
        parts = incoming.headers.get("circleci-signature", "").split(",")
        given = [each.strip().removeprefix("v1=") for each in parts if each.strip().startswith("v1=")]
        right = [hmac.digest(each.encode(), incoming.body, "sha256").hex() for each in secrets.values()]
        if not _one_of(given, right):
            msg = "Invalid circleci-signature: no v1 signature matches any of this source's secrets."
            raise _refused(msg)
        return Proof(HMAC)

    return check


def standard_webhooks(secrets: Secrets, *, setting: str = "secrets", tolerance: int = TOLERANCE) -> Check:
    for place, each in enumerate(secrets.values()):
        if _key(each) is None:
            msg = f"must be {PREFIX} followed by {_SHORTEST_KEY} to {_LONGEST_KEY} bytes in base64"
            raise InvalidRequest.at(f"/settings/{setting}/{place}", msg)

    def check(incoming: Incoming, _: str | None) -> Proof:
        message_id = incoming.headers.get("webhook-id", "")
        stamp = incoming.headers.get("webhook-timestamp", "")
        if not _ID.fullmatch(message_id):
            msg = "The headers webhook-id, webhook-timestamp and webhook-signature are required."
            raise _refused(msg)
        _require_recent(stamp, "webhook-timestamp", incoming.at, tolerance)
        content = f"{message_id}.{stamp}.".encode() + incoming.body
        keys = [key for key in map(_key, secrets.values()) if key is not None]
        right = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
        given = incoming.headers.get("webhook-signature", "").split(" ")
        if not _one_of([each.removeprefix("v1,") for each in given if each.startswith("v1,")], right):
            msg = "Invalid webhook-signature: it does not match any of this source's secrets."
            raise _refused(msg)
        return Proof(STANDARD, message_id)

    return check


def token(header: str, secrets: Secrets) -> Check:
    """Check a secret sent in plain text, which does not authenticate the body."""

    def check(incoming: Incoming, _: str | None) -> Proof:
        if not _one_of([incoming.headers.get(header, "")], secrets.values()):
            raise _refused(f"The {header} header does not match any of this source's secrets.")
        return Proof(BEARER)

    return check


def bearer(secrets: Secrets) -> Check:
    def check(incoming: Incoming, _: str | None) -> Proof:
        scheme, _blank, given = incoming.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not _one_of([given.strip()], secrets.values()):
            msg = "The Authorization header must be Bearer followed by one of this source's secrets."
            raise _refused(msg)
        return Proof(BEARER)

    return check


def path(secrets: Secrets) -> Check:
    def check(_: Incoming, key: str | None) -> Proof:
        if not _one_of([key or ""], secrets.values()):
            msg = "The URL does not end with one of this source's secrets."
            raise _refused(msg)
        return Proof(PATH)

    return check


def nothing() -> Check:
    return lambda _incoming, _key: Proof(NONE)


def any_of(checks: Sequence[Check]) -> Check:
    """Return the proof of the first check that succeeds, or raise the error of the last check."""

    def check(incoming: Incoming, key: str | None) -> Proof:
        refusal = _refused("The event cannot be verified.")
        for each in checks:
            try:
                return each(incoming, key)
            except Unauthenticated as error:
                refusal = error
        raise refusal

    return check


def _one_of(given: Sequence[str], right: Sequence[str]) -> bool:
    # Compare every pair, so that the timing does not reveal which one matched.
    pairs = [
        (mine.encode(), theirs.encode("utf-8", "replace")) for mine in right for theirs in given if mine and theirs
    ]
    return sum(hmac.compare_digest(mine, theirs) for mine, theirs in pairs) > 0


def _spelt(digest: bytes, encoding: str) -> str:
    return digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()


def _require_recent(given: str, header: str, now: int, tolerance: int) -> None:
    if not _SECONDS.fullmatch(given):
        raise _refused(f"The {header} header must be a Unix timestamp in seconds.")
    if abs(int(given) * SECOND - now) > tolerance * SECOND:
        raise _refused(f"The time in {header} differs from the server time by more than {tolerance} seconds.")


def _key(secret: str) -> bytes | None:
    spelt = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(spelt + "=" * (-len(spelt) % 4), validate=True)
    except ValueError:
        return None
    return key if secret.startswith(PREFIX) and _SHORTEST_KEY <= len(key) <= _LONGEST_KEY else None


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(why)
