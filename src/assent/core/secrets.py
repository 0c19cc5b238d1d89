"""Tokens and link secrets with 256 random bits, a checksum that detects typos, and a hash for storage."""

import hashlib
import hmac
import zlib

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 43
_CHECK = 6
_SALT_BYTES = 16
PREFIXES = {"agent": "asta_", "person": "astp_", "service": "asts_", "link": "astl_", "session": "astw_"}


def secret(kind: str, entropy: bytes) -> str:
    """Encode 32 random bytes as a token of this kind."""
    body = _base62(int.from_bytes(entropy, "big"), _LENGTH)
    return f"{PREFIXES[kind]}{body}{_checksum(PREFIXES[kind] + body)}"


def well_formed(token: str) -> bool:
    body, check = token[:-_CHECK], token[-_CHECK:]
    return token[:5] in PREFIXES.values() and len(token) == 5 + _LENGTH + _CHECK and _checksum(body) == check


def secret_hash(token: str) -> str:
    # A fast, unsalted hash is sufficient, because 256 random bits cannot be guessed.
    return hashlib.sha256(token.encode()).hexdigest()


def form_key(entropy: bytes, salt: bytes, person_id: str) -> str:
    """Return the CSRF key for a session's forms, followed by a mark that identifies the person."""
    return f"{entropy.hex()}.{_mark(salt, person_id)}"


def person_mark(key: str) -> str:
    """Return the mark in a form key, or an empty string if it does not have one."""
    return key.partition(".")[2]


def is_mark_of(mark: str, person_id: str) -> bool:
    """Return whether a form key with this mark was created for this person, possibly in a session that has ended."""
    try:
        salt = bytes.fromhex(mark[: 2 * _SALT_BYTES])
    except ValueError:
        return False
    return hmac.compare_digest(_mark(salt, person_id).encode(), mark.encode())


def _mark(salt: bytes, person_id: str) -> str:
    # The mark contains its salt, so that every node can check it even after the session has ended. It only
    # distinguishes people and does not grant access.
    return salt.hex() + hmac.digest(salt, b"assent form mark\x00" + person_id.encode(), "sha256").hex()


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), _CHECK)


def _base62(number: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
