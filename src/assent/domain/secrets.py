"""Tokens and link secrets: 256 random bits, a checksum that tells a typo from an unknown one, a hash at rest."""

import hashlib
import zlib

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 43
_CHECK = 6
PREFIXES = {"agent": "asta_", "person": "astp_", "service": "asts_", "link": "astl_", "session": "astw_"}


def secret(kind: str, entropy: bytes) -> str:
    """Spell 32 random bytes as a token of a kind."""
    body = _base62(int.from_bytes(entropy, "big"), _LENGTH)
    return f"{PREFIXES[kind]}{body}{_checksum(PREFIXES[kind] + body)}"


def well_formed(token: str) -> bool:
    body, check = token[:-_CHECK], token[-_CHECK:]
    return token[:5] in PREFIXES.values() and len(token) == 5 + _LENGTH + _CHECK and _checksum(body) == check


def secret_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), _CHECK)


def _base62(number: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
