"""The backup archive: a tar file with a checksum over all of its bytes."""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, TypeAlias

import msgspec

from assent.core.errors import AssentError

FORMAT = 1
MANIFEST = "manifest.json"
CHECKSUM = "checksum"
BLOCK = tarfile.BLOCKSIZE
CHUNK = 1024 * 1024
# The header and content of the checksum member, and the two empty blocks that end a tar file.
TAIL = 4 * BLOCK
LARGEST_MANIFEST = 64 * CHUNK

Progress: TypeAlias = Callable[[str, int, int], None]


class Refused(AssentError):
    """A backup or restore was refused, and nothing was changed."""

    code = "refused"


class Damaged(Refused):
    code = "damaged_archive"


class Member(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class Manifest(msgspec.Struct, kw_only=True, rename="camel"):
    """The contents of an archive, and the information needed to verify them."""

    format: int = FORMAT
    assent: str
    kind: Literal["sqlite", "postgresql"]
    schema: str
    created_at: str
    counts: dict[str, int]
    # A digest of the newest hash of every breakpoint's chain.
    heads: str
    # IDs of the keys that encrypt stored secrets, not the keys themselves.
    key_ids: list[str]
    columns: dict[str, list[str]] = {}
    # Statements that create the tables of DBOS, before and after inserting their rows.
    queue_tables: list[str] = []
    queue_rest: list[str] = []
    members: dict[str, Member] = {}


class Writer:
    """Writes members whose size is known only at the end."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")
        self.members: dict[str, Member] = {}

    @contextmanager
    def member(self, name: str) -> Generator[Callable[[bytes], None], None, None]:
        start = self._file.tell()
        # Reserve space for the header, which contains the size.
        self._file.write(bytes(BLOCK))
        digest = hashlib.sha256()

        def write(chunk: bytes) -> None:
            digest.update(chunk)
            self._file.write(chunk)

        yield write
        size = self._file.tell() - start - BLOCK
        self._file.write(bytes(-size % BLOCK))
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(_header(name, size))
        self._file.seek(end)
        self.members[name] = Member(size, digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        manifest.members = dict(self.members)
        with self.member(MANIFEST) as write:
            write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        length = self._file.tell()
        self._file.seek(0)
        self._file.write(_tail(_digest(self._file, length)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Archive:
    """An archive that has been read completely and verified."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._tar = _opened(file)
        self.manifest = self._manifest()
        self._check_members()

    def _manifest(self) -> Manifest:
        found = self._tar.getmember(MANIFEST)
        # Limited, because the whole manifest is read into memory.
        if found.size > LARGEST_MANIFEST:
            raise _damaged("its manifest is too large")
        text = b"".join(self.chunks(MANIFEST))
        try:
            if msgspec.json.decode(text)["format"] > FORMAT:
                msg = "This backup was created by a newer version of Assent. Restore it with that version."
                raise Refused(msg)
            return msgspec.json.decode(text, type=Manifest)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise _damaged("its manifest cannot be read") from error

    def _check_members(self) -> None:
        names = [name for name in self._tar.getnames() if name not in (MANIFEST, CHECKSUM)]
        if sorted(names) != sorted(self.manifest.members):
            raise _damaged("its files do not match its manifest")
        for name in names:
            for _ in self.checked(name):
                pass

    def chunks(self, name: str) -> Iterator[bytes]:
        member = self._tar.extractfile(name)
        if member is None:
            raise _damaged(f"{name} is not a file")
        while chunk := member.read(CHUNK):
            yield chunk

    def checked(self, name: str) -> Iterator[bytes]:
        """Yield a member's bytes; raise at the end if they do not match the manifest."""
        digest, size = hashlib.sha256(), 0
        for chunk in self.chunks(name):
            digest.update(chunk)
            size += len(chunk)
            yield chunk
        if Member(size, digest.hexdigest()) != self.manifest.members[name]:
            raise _damaged(f"{name} does not match the manifest")


@contextmanager
def opened(path: Path) -> Generator[Archive, None, None]:
    """Open an archive after reading and verifying all of it."""
    try:
        file = path.open("rb")
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}."
        raise Refused(msg) from error
    with file:
        length = file.seek(0, io.SEEK_END) - TAIL
        if length < BLOCK:
            raise _damaged("it is too short")
        file.seek(0)
        if _tail(_digest(file, length)) != file.read():
            raise _damaged("its checksum does not match")
        file.seek(0)
        yield Archive(file)


def _opened(file: IO[bytes]) -> tarfile.TarFile:
    try:
        tar = tarfile.TarFile(fileobj=file)
        tar.getmember(MANIFEST)
    except (tarfile.TarError, KeyError) as error:
        raise _damaged("it is not an Assent backup") from error
    return tar


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _tail(digest: str) -> bytes:
    line = f"{digest}\n".encode()
    return _header(CHECKSUM, len(line)) + line.ljust(BLOCK, b"\0") + bytes(2 * BLOCK)


def _digest(file: IO[bytes], length: int) -> str:
    """Return the SHA-256 of the next `length` bytes of a file."""
    digest = hashlib.sha256()
    while length:
        chunk = file.read(min(CHUNK, length))
        if not chunk:
            break
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest()


def _damaged(how: str) -> Damaged:
    return Damaged(f"This backup is incomplete or damaged: {how}. Nothing was changed. Use a different copy.")
