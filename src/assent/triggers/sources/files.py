"""Watches a local folder and reports added, changed and removed files as one event once the changes have stopped."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from assent.core.errors import Conflict, InvalidRequest
from assent.triggers.event import Arrived, Trust
from assent.triggers.ports import WatchDesk
from assent.triggers.sources import local, reading, snapshots
from assent.triggers.sources.notices import Notices, notices
from assent.triggers.sources.snapshots import Batch, Snapshot, Wanted
from assent.triggers.sources.tools import SourceTools

TYPE = "fs.changed"
KNOWN = frozenset({"path", "include", "exclude", "quiet", "poll", "catchup"})
QUIET = "2s"
LONGEST_QUIET = 3600
AWAY_SECONDS = 1.0
"""How long the folder can be missing while it is being replaced."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The last reported state of the folder."""

    files: Snapshot
    turn: int
    """The number of reports so far, so that a repeated change creates a different event."""


class FilesSource:
    def __init__(self, settings: Mapping[str, Any], tools: SourceTools) -> None:
        found = local.fields(settings, tools, known=KNOWN)
        self._path = local.folder(found, tools)
        self._quiet = found.length("quiet", QUIET)
        if not 0 < self._quiet <= LONGEST_QUIET:
            raise InvalidRequest.at("/settings/quiet", "must be between 1ms and 1h")
        self._poll = found.flag("poll")
        self._catches_up = found.one_of("catchup", "changed", "none") == "changed"
        self._trust = local.trust(settings, Trust.TRUSTED)
        include, exclude = local.texts(settings, "include"), local.texts(settings, "exclude")
        self._wanted = _wanted(include, exclude)
        # Memory stored with different settings would make all files look added or removed.
        self._of = sha256(repr((str(self._path), include, exclude)).encode()).hexdigest()[:16]

    async def watch(self, desk: WatchDesk) -> None:
        while True:
            root = await asyncio.to_thread(_folder, self._path)
            async with notices(root, poll=self._poll) as heard:
                await self._watch(root, heard, desk)

    async def _watch(self, root: Path, heard: Notices, desk: WatchDesk) -> None:
        """Report changes until another folder replaces this one."""
        identity = await asyncio.to_thread(_identity, root)
        known = await self._caught_up(root, desk)
        await desk.watching()
        # A watcher keeps following a folder that is moved, so restart it if another folder took its place.
        while await _settled_identity(root) == identity:
            paths = await heard.gathered(self._quiet)
            if paths:
                after = await asyncio.to_thread(snapshots.rescan, root, self._wanted, known.files, paths)
                known = await self._told(root, desk, known, after)

    async def _caught_up(self, root: Path, desk: WatchDesk) -> _Known:
        """Report the changes made while no node was watching. The first time, only store the state."""
        while True:
            kept = self._read(await desk.memory())
            after = await asyncio.to_thread(snapshots.scan, root, self._wanted, kept.files if kept else {})
            if kept is not None and self._catches_up:
                return await self._told(root, desk, kept, after)
            # Start the count at the current time, so that keys are not reused if the memory is recreated.
            begun = _Known(after, kept.turn + 1 if kept else desk.now())
            try:
                await desk.tell([], self._memory(begun))
            except Conflict:
                continue
            return begun

    async def _told(self, root: Path, desk: WatchDesk, known: _Known, after: Snapshot) -> _Known:
        """Report the differences. After a conflict, report only those that the other node has not reported."""
        while True:
            batch = snapshots.difference(known.files, after)
            if not batch.paths:
                return _Known(after, known.turn)
            told = _Known(after, known.turn + 1)
            try:
                await desk.tell([await self._arrived(root, desk, batch, (known, told))], self._memory(told))
            except Conflict:
                kept = self._read(await desk.memory())
                if kept is None:  # the settings have changed, so the new watcher starts from scratch
                    raise
                known = kept
                after = await asyncio.to_thread(snapshots.scan, root, self._wanted, after)
            else:
                return told

    def _memory(self, known: _Known) -> dict[str, Any]:
        return {"of": self._of, "turn": known.turn, "files": known.files}

    def _read(self, memory: Any) -> _Known | None:  # noqa: ANN401  # decoded JSON
        """Return the stored state, or None if it belongs to a different folder or different patterns."""
        if memory is None or memory["of"] != self._of:
            return None
        return _Known(snapshots.read(memory["files"]), memory["turn"])

    async def _arrived(self, root: Path, desk: WatchDesk, batch: Batch, states: tuple[_Known, _Known]) -> Arrived:
        paths = batch.paths
        return Arrived(
            type=TYPE,
            key=_key(paths, *states),
            data={"folder": str(self._path), "count": len(paths), **_told(batch)},
            view={"paths": [*paths[: local.MOST_SHOWN]]},
            subject=self._path.name or str(self._path),
            occurred_at=desk.now(),
            verified=local.VERIFIED,
            trust=self._trust,
            marks=await _authors(desk, [f"{root}{os.sep}{path}" for path in paths]),
        )


def _wanted(include: tuple[str, ...], exclude: tuple[str, ...]) -> Wanted:
    try:
        return Wanted(include, exclude)
    except ValueError as error:
        name = "include" if include else "exclude"
        raise InvalidRequest.at(f"/settings/{name}", f"contains an invalid pattern: {error}") from error


def _folder(path: Path) -> Path:
    if not path.is_dir():
        msg = f"Folder not found: {path}."
        raise FileNotFoundError(msg)
    return path.resolve()


def _identity(root: Path) -> tuple[int, int]:
    try:
        found = root.stat()
    except FileNotFoundError:
        msg = f"Folder not found: {root}."
        raise FileNotFoundError(msg) from None
    return found.st_dev, found.st_ino


async def _settled_identity(root: Path) -> tuple[int, int]:
    """Return the folder's identity. If it is missing, wait once, because another folder may be replacing it."""
    try:
        return await asyncio.to_thread(_identity, root)
    except FileNotFoundError:
        await asyncio.sleep(AWAY_SECONDS)
        return await asyncio.to_thread(_identity, root)


def _key(paths: list[str], before: _Known, after: _Known) -> str:
    content = [before.turn, [(path, _content(before, path), _content(after, path)) for path in paths]]
    return f"fs:{sha256(msgspec.json.encode(content)).hexdigest()}"


def _content(known: _Known, path: str) -> Any:  # noqa: ANN401  # any JSON value
    entry = known.files.get(path)
    return entry and (entry[0], entry[2] or entry[1])


def _told(batch: Batch) -> dict[str, Any]:
    """Return the added, changed and removed paths, up to the maximum for an event."""
    room = local.MOST_KEPT
    told: dict[str, Any] = {}
    for name in ("added", "changed", "removed"):
        told[name] = getattr(batch, name)[:room]
        room -= len(told[name])
    return told


async def _authors(desk: WatchDesk, paths: list[str]) -> tuple[str, ...]:
    """Return the runs that declared that they write these files, or only the newest runs if there are too many.

    If any of the files was not declared, return no runs.
    """
    runs = await desk.written_by(paths)
    # A file without a run was changed by someone else, so the event is not only a run's work.
    found = sorted(set(runs.values())) if all(path in runs for path in paths) else []
    return tuple(found[-reading.MOST_MARKS :])
