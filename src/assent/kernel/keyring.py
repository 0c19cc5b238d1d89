"""The encryption keys of stored secrets, and the encryption itself.

AES-256-GCM, with the location of a secret as associated data: a ciphertext moved to another row cannot be decrypted.
"""

import base64
import binascii
import contextlib
import fcntl
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from assent.core.canonical import canonical, sha256
from assent.core.errors import AssentError, Unavailable

KEY_BYTES = 32
NONCE_BYTES = 12
FORMAT = b"\x01"
"""The first byte of every ciphertext; it is authenticated together with the location."""
_STANDARD = str.maketrans("-_", "+/")

Random: TypeAlias = Callable[[int], bytes]
# Returns pairs of a name for error messages and text that contains keys, newest first.
Source: TypeAlias = Callable[[], Sequence[tuple[str, str]]]


class UnusableKeys(AssentError):
    """A source of keys cannot be read, or contains an invalid key."""

    code = "misconfigured"


@dataclass(frozen=True, slots=True)
class Sealed:
    key_id: str
    ciphertext: bytes


class Keyring:
    """Encrypts with the first key and decrypts with any key."""

    def __init__(self, source: Source, random: Random, *, make: Callable[[], None] | None = None) -> None:
        self._source = source
        self._random = random
        self._make = make
        self._keys: dict[str, AESGCM] = {}

    def load(self) -> list[str]:
        """Read the keys and return their IDs, newest first."""
        keys: dict[str, AESGCM] = {}
        for name, text in self._texts():
            for spelt in text.replace(",", " ").split():
                key = _key(spelt, name)
                keys.setdefault(key_id(key), AESGCM(key))
        self._keys = keys
        return list(keys)

    def _texts(self) -> Sequence[tuple[str, str]]:
        try:
            return self._source()
        except ValueError as error:
            msg = f"The encryption key for stored secrets cannot be read: {error}."
            raise UnusableKeys(msg) from error

    def _reload(self) -> list[str]:
        """Load the keys while serving requests; a source that was valid at startup may have become invalid."""
        try:
            return self.load()
        except UnusableKeys as error:
            raise Unavailable(error.message) from error

    def newest(self) -> str:
        """Return the ID of the encryption key. If none exists and this node may create one, create it."""
        # Reload each time, because another process may have added a newer key.
        ids = self._reload()
        if not ids and self._make is not None:
            self._make()
            ids = self._reload()
        if not ids:
            msg = (
                "This node does not have an encryption key for stored secrets. Set ASSENT_SECRET_KEYS to the same "
                "value on every node."
            )
            raise Unavailable(msg, missing="secretKeys")
        return ids[0]

    def seal(self, plain: str, *place: str | int) -> Sealed:
        newest = self.newest()
        nonce = self._random(NONCE_BYTES)
        encrypted = self._keys[newest].encrypt(nonce, plain.encode(), _bound(FORMAT, place))
        return Sealed(newest, FORMAT + nonce + encrypted)

    def open(self, sealed: Sealed, *place: str | int) -> str:
        if sealed.key_id not in self._keys and sealed.key_id not in self._reload():
            msg = (
                f"A stored secret is encrypted with the key {sealed.key_id}, which this node does not have. Add "
                "it to ASSENT_SECRET_KEYS or to the key file, after the newest key."
            )
            raise Unavailable(msg)
        head, rest = sealed.ciphertext[:1], sealed.ciphertext[1:]
        nonce, body = rest[:NONCE_BYTES], rest[NONCE_BYTES:]
        try:
            return self._keys[sealed.key_id].decrypt(nonce, body, _bound(head, place)).decode()
        except (InvalidTag, ValueError) as error:
            msg = "A stored secret was changed or moved in the database, so it will not be used. Rotate it."
            raise Unavailable(msg) from error


def key_id(key: bytes) -> str:
    """Return an ID for a key that reveals nothing about the key."""
    return "key_" + sha256(b"assent-key/1\n" + key)[:12]


def spelt(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _key(text: str, name: str) -> bytes:
    try:
        key = base64.b64decode(text.translate(_STANDARD), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        msg = (
            f"{name} contains a value that is not a valid key. A key is 32 bytes encoded in base64, such as the output "
            "of `openssl rand -base64 32`."
        )
        raise UnusableKeys(msg)
    return key


def _bound(head: bytes, place: Sequence[str | int]) -> bytes:
    return b"assent-secret/" + head + canonical(list(place))


class KeyFile:
    """A file of keys, one per line, newest first; readable only by its owner, and created when first needed."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path = path
        self._random = random

    def read(self) -> list[tuple[str, str]]:
        try:
            return [(str(self.path), self.path.read_text("ascii"))]
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            msg = f"The key file {self.path} cannot be read. Make it readable by the account that runs Assent."
            raise UnusableKeys(msg) from error

    def make(self) -> None:
        """Write the first key, unless another process has created the file in the meantime."""
        with self._alone():
            if not self.path.exists():
                self._write([spelt(self._random(KEY_BYTES))])

    def add_newest(self) -> None:
        """Add a new key before the others."""
        with self._alone():
            self._write([spelt(self._random(KEY_BYTES)), *self._lines()])

    def add_older(self, text: str) -> None:
        """Append keys that are only used to decrypt existing secrets."""
        with self._alone():
            self._write(list(dict.fromkeys([*self._lines(), *text.split()])))

    def _lines(self) -> list[str]:
        return [line for _, text in self.read() for line in text.split()]

    def _write(self, lines: Sequence[str]) -> None:
        new = self.path.with_suffix(".new")
        # A new file replaces the old one atomically, so that a crash cannot leave a truncated key file.
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        # Make the rename durable before a secret is encrypted with the new key.
        with _folder(self.path) as folder:
            os.fsync(folder)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None, None, None]:
        """Hold an exclusive lock: losing a key in a race would make everything encrypted with it unreadable."""
        with _folder(self.path) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def _folder(path: Path) -> Generator[int, None, None]:
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)
