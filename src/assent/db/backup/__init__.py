"""Backups: taken while a server runs, verified before they get their final name, and restored only into empty data."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from assent.core.canonical import GENESIS, link
from assent.db import migrations
from assent.db.backup.archive import Archive, Manifest, Progress, Refused, Writer, opened

KEYS = "assent.keys"
PURGED = "purged"
COUNT = "SELECT count(*) FROM {table}"
SELECT_KEY_IDS = "SELECT DISTINCT key_id FROM assent_secrets ORDER BY key_id"
# One row per event, in the order of the chains; a breakpoint without events has one row without an event.
SELECT_CHAINS = """
    SELECT b.id, b.head, b.version, e.seq, e.type, e.actor, e.at, e.metadata, e.previous, e.hash
    FROM assent_breakpoints b LEFT JOIN assent_events e ON e.breakpoint_id = b.id ORDER BY b.id{collation}, e.seq"""


class Kind(Protocol):
    """The part of backups that differs between databases."""

    def save(self, archive: Writer, *, made_at: str, version: str, progress: Progress) -> Manifest:
        """Write a snapshot of all data into the archive."""
        ...

    def restore(self, archive: Archive, *, force: bool, progress: Progress, epoch: int | None = None) -> Path | None:
        """Restore everything, or change nothing; return the path to which existing data was moved.

        If `epoch` is the time of the restore, everything that a backup must not revive is invalid from the start.
        """
        ...


def save(kind: Kind, target: Path, *, made_at: str, version: str, keys: bytes | None, progress: Progress) -> Manifest:
    """Write a backup under a temporary name, verify it by reading it, and only then rename it to `target`."""
    if target.exists():
        msg = f"{target} already exists. Choose another file name, or specify a directory."
        raise Refused(msg)
    if not target.parent.is_dir():
        msg = f"The directory {target.parent} does not exist."
        raise Refused(msg)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".assent-backup-") as folder:
        partial = Path(folder) / "archive"
        archive = Writer(partial)
        try:
            manifest = kind.save(archive, made_at=made_at, version=version, progress=progress)
            if keys is not None:
                with archive.member(KEYS) as write:
                    write(keys)
            archive.finish(manifest)
        finally:
            archive.close()
        progress("verifying the backup", 0, 1)
        with opened(partial):
            pass
        partial.rename(target)
    sync_folder(target.parent)
    return manifest


def restore(
    kind: Kind, source: Path, *, expected: str, force: bool, progress: Progress, epoch: int | None = None
) -> tuple[Manifest, Path | None]:
    """Restore a backup, after verifying every byte of it."""
    progress("checking the archive", 0, 1)
    with opened(source) as archive:
        found = archive.manifest
        if found.kind != expected:
            msg = f"This backup is from {_spoken(found.kind)}, but the server is configured to use {_spoken(expected)}."
            raise Refused(msg)
        if not migrations.known(found.schema):
            msg = (
                f"This backup has schema version {found.schema}, which this version of Assent does not "
                "support. Use a newer version."
            )
            raise Refused(msg)
        return found, kind.restore(archive, force=force, progress=progress, epoch=epoch)


def keys_in(source: Path) -> str | None:
    """Return the keys in an archive, or None if it does not contain any."""
    with opened(source) as archive:
        if KEYS not in archive.manifest.members:
            return None
        return b"".join(archive.checked(KEYS)).decode("ascii")


def _spoken(kind: str) -> str:
    return {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[kind]


def verified_heads(rows: Iterable[Sequence[Any]]) -> str:
    """Recompute the chain of every breakpoint, and return a digest of all their heads."""
    digest = hashlib.sha256()
    for breakpoint_id, events in groupby(rows, key=itemgetter(0)):
        head = _head(breakpoint_id, list(events))
        digest.update(f"{breakpoint_id} {head}\n".encode())
    return digest.hexdigest()


def _head(breakpoint_id: str, rows: list[Sequence[Any]]) -> str:
    previous = GENESIS
    for expected, row in enumerate(rows, start=1):
        _, stored_head, version, seq, kind, actor, at, metadata, before, stored = row
        body = {"breakpointId": breakpoint_id, "seq": seq, "type": kind, "actor": actor, "at": at}
        if seq != expected or before != previous:
            raise _broken(breakpoint_id)
        said = msgspec.json.decode(metadata)
        # Purging removes an event's content but keeps its hash, which can then be followed but not recomputed.
        previous = stored if set(said) == {PURGED} else link(previous, body | {"metadata": said})
        if stored != previous:
            raise _broken(breakpoint_id)
    stored_head, version = rows[0][1:3]
    if (previous, len(rows)) != (stored_head, version):
        raise _broken(breakpoint_id)
    return previous


def _broken(breakpoint_id: str) -> Refused:
    msg = (
        f"The history of {breakpoint_id} is inconsistent: an event is missing or was changed. The operation was "
        "cancelled."
    )
    return Refused(msg)


def require_same(what: str, expected: object, found: object) -> None:
    if expected != found:
        msg = f"The restored data does not match the backup ({what}). Nothing was changed."
        raise Refused(msg)


def sync_folder(folder: Path) -> None:
    opened_folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened_folder)
    finally:
        os.close(opened_folder)
