"""Checkpoints: the size and root of the log of all events at a point in time, signed with Ed25519.

A checkpoint is a signed note (C2SP signed-note and tlog-checkpoint), so that other programs can verify it. It contains
the origin, size and root, and two extension lines with the number and the time.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from assent.core.canonical import sha256
from assent.core.timestamps import from_iso, iso

_ED25519 = b"\x01"
_KEY_BYTES = 32
_KEY_HASH_BYTES = 4
_NOTE = re.compile(
    r"(?P<text>(?P<origin>[^\s+]+)\n(?P<size>0|[1-9][0-9]{0,18})\n(?P<root>[A-Za-z0-9+/]{43}=)\n"
    r"number (?P<number>[1-9][0-9]{0,18})\ntime (?P<at>[0-9TZ:.-]{20,30})\n)"
    r"\n\u2014 (?P<name>[^\s+]+) (?P<signature>[A-Za-z0-9+/]{91}=)\n"
)


class BadCheckpoint(ValueError):
    """The text is not a checkpoint, or is not signed with a trusted key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The signed statement that the log had this size and this root."""

    origin: str
    """The name of the log, which is the same in all checkpoints, regardless of the key."""
    number: int
    size: int
    root: bytes
    at: int

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{_spelt(self.root)}\nnumber {self.number}\ntime {iso(self.at)}\n"


def entry(event_hash: str) -> bytes:
    """Return the log entry for an event: its hash as text, which covers everything else in the event."""
    return event_hash.encode()


def key_id(origin: str, public: bytes) -> str:
    """Return the ID of a key in signed notes: a short hash of its name and of the key itself."""
    named = origin.encode(errors="surrogatepass")  # an unencodable name matches no key, but must not raise
    return sha256(named + b"\n" + _ED25519 + public)[: 2 * _KEY_HASH_BYTES]


def verifier_key(origin: str, public: bytes) -> str:
    """Return a public key in the format that verifiers of signed notes expect."""
    return f"{origin}+{key_id(origin, public)}+{_spelt(_ED25519 + public)}"


def read_verifier_key(text: str) -> tuple[str, bytes]:
    """Parse a public key in the format of `verifier_key`, and return the key's ID and bytes."""
    origin, _, rest = text.strip().partition("+")
    named, _, spelt = rest.partition("+")
    public = _bytes(spelt).removeprefix(_ED25519)
    if verifier_key(origin, public) != text.strip() or len(public) != _KEY_BYTES:
        msg = "this is not a public key for checkpoints; get the key with assent audit keys"
        raise BadCheckpoint(msg)
    return named, public


def sign(checkpoint: Checkpoint, seed: bytes) -> str:
    """Return the checkpoint as a signed note."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    text = checkpoint.text()
    named = bytes.fromhex(key_id(checkpoint.origin, private.public_key().public_bytes_raw()))
    return f"{text}\n\u2014 {checkpoint.origin} {_spelt(named + private.sign(text.encode()))}\n"


def read(note: str) -> tuple[Checkpoint, str]:
    """Return the checkpoint in a note and the ID of the key that it names, without verifying the signature."""
    found = _NOTE.fullmatch(note)
    if found is None or found["name"] != found["origin"]:
        msg = "this is not a checkpoint"
        raise BadCheckpoint(msg)
    checkpoint = Checkpoint(
        origin=found["origin"],
        number=int(found["number"]),
        size=int(found["size"]),
        root=_bytes(found["root"]),
        at=_moment(found["at"]),
    )
    # Only the canonical form is valid, so that equal checkpoints have equal notes.
    if checkpoint.text() != found["text"]:
        msg = "this is not a checkpoint in the format that Assent writes"
        raise BadCheckpoint(msg)
    return checkpoint, _bytes(found["signature"])[:_KEY_HASH_BYTES].hex()


def check(note: str, keys: Mapping[str, bytes]) -> Checkpoint:
    """Return the checkpoint in a note if one of these public keys signed it, or raise BadCheckpoint."""
    checkpoint, named = read(note)
    public = keys.get(named)
    if public is None or key_id(checkpoint.origin, public) != named:
        msg = f"it is signed with the key {named}, which is not trusted"
        raise BadCheckpoint(msg)
    signature = _bytes(note[note.rindex(" ") + 1 : -1])[_KEY_HASH_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, checkpoint.text().encode())
    except (InvalidSignature, ValueError) as error:
        msg = f"its signature by key {named} is not valid"
        raise BadCheckpoint(msg) from error
    return checkpoint


def _spelt(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    """Decode base64, accepting only the canonical encoding of a value."""
    msg = "this is not base64"
    try:
        found = base64.b64decode(text)
    except (binascii.Error, ValueError) as error:
        raise BadCheckpoint(msg) from error
    if _spelt(found) != text:
        raise BadCheckpoint(msg)
    return found


def _moment(text: str) -> int:
    try:
        at = from_iso(text)
        iso(at)  # with an offset, the year in UTC can be out of range
    except (ValueError, OverflowError) as error:
        msg = "its time is not valid"
        raise BadCheckpoint(msg) from error
    return at
