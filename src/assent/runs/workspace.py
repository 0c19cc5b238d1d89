"""A run's folder on a node. Files that tasks leave in it are stored in the database and restored on other nodes."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from assent.core.canonical import sha256
from assent.runs.model import RunFile
from assent.sdk.errors import FileRefused
from assent.sdk.files import MAX_FILE, ContextFile, relative_path, snapshot

MOST_FILES = 1000


class RunFolder:
    def __init__(
        self,
        place: Path,
        kept: Sequence[RunFile],
        fetch: Callable[[str], Awaitable[bytes]],
        *,
        most: int = MOST_FILES,
    ) -> None:
        self._place = place
        self._most = most
        self._kept = {each.path: each.sha256 for each in kept}
        self._fetch = fetch
        self._seen: dict[str, tuple[int, int]] = {}
        self._problems: list[str] = []

    def made(self) -> Path:
        # Path.mkdir applies its mode only to the last folder.
        self._place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._place

    def place(self, path: str) -> Path:
        return self.made() / relative_path(path)

    async def restore(self) -> None:
        """Restore the stored files that differ from the local ones."""
        for path, digest in self._kept.items():
            here = self._place / relative_path(path)
            if await asyncio.to_thread(_digest, here) != digest:
                content = await self._fetch(path)
                try:
                    await asyncio.to_thread(_write, here, content)
                except (FileExistsError, IsADirectoryError, NotADirectoryError):
                    # A task has created a folder with this name, or this node does not support the name.
                    self._problems.append(
                        f"The file {path!r} was not restored because another file or directory has the same name."
                    )
        self._seen = await asyncio.to_thread(_stamps, self._place)

    async def keep(self, files: Mapping[str, bytes]) -> None:
        """Write files to the folder; the caller records them."""
        for path, content in files.items():
            if len(content) > MAX_FILE:
                msg = (
                    f"{path!r} is larger than {MAX_FILE // 1024 // 1024} MiB. Store it elsewhere and save a "
                    "reference to it."
                )
                raise FileRefused(msg)
            here = self.place(path)
            await asyncio.to_thread(_write, here, content)
            self._kept[relative_path(path).as_posix()] = sha256(content)
            self._seen[relative_path(path).as_posix()] = _stamp(here)

    async def changes(self) -> dict[str, bytes]:
        """Return the files that were added or changed since the folder was last checked."""
        if not self._place.is_dir():
            return {}
        return await asyncio.to_thread(self._changes)

    def _changes(self) -> dict[str, bytes]:
        changed: dict[str, bytes] = {}
        stamps = _stamps(self._place)
        for path, stamp in stamps.items():
            if self._seen.get(path) == stamp:
                continue
            if stamp[1] > MAX_FILE or (path not in self._kept and len(self._kept) >= self._most):
                self._problems.append(
                    f"The file {path!r} was not saved because it is too large or the run has too many files."
                )
                continue
            content = _read(self._place / path)
            if content is None:
                self._problems.append(f"The file {path!r} was not saved because it cannot be read.")
            elif self._kept.get(path) != sha256(content):
                changed[path] = content
                self._kept[path] = sha256(content)
        self._seen = stamps
        return changed

    def take_problems(self) -> list[str]:
        problems, self._problems = self._problems, []
        return problems

    async def entry(self, wanted: str | ContextFile | Mapping[str, Any]) -> ContextFile | Mapping[str, Any]:
        """Read a file to show in a breakpoint; for a missing file, return only its name."""
        if isinstance(wanted, ContextFile):
            return wanted
        named = {"path": wanted} if isinstance(wanted, str) else dict(wanted)
        if {"content", "contentBase64", "sha256"} & set(named):
            return named
        relative_path(named["path"])
        if not (self._place / named["path"]).exists():
            self._problems.append(f"The file {named['path']!r} is not in the run's directory and is not shown.")
            return {"format": "text", **named}
        read = await asyncio.to_thread(snapshot, named["path"], root=self._place, format=named.get("format"))
        return ContextFile(read.path, read.format, read.content, named.get("language") or read.language)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written to a separate file and renamed, so that other readers never see partial content.
    beside = place.with_name(f".{place.name}.{os.getpid()}.new")
    beside.write_bytes(content)
    beside.replace(place)


def _read(place: Path) -> bytes | None:
    try:
        return place.read_bytes()
    except OSError:
        return None


def _digest(place: Path) -> str | None:
    content = _read(place)
    return None if content is None else sha256(content)


def _stamp(place: Path) -> tuple[int, int]:
    status = place.lstat()
    return status.st_mtime_ns, status.st_size


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return modification time and size of every regular file in a folder; links are not followed."""
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            try:
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118  # faster for thousands of files
            except FileNotFoundError:
                continue  # deleted by another task in the meantime
            path = PurePath(parent, name).relative_to(folder).as_posix()
            if stat.S_ISREG(status.st_mode) and _is_text(path):
                found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _is_text(path: str) -> bool:
    """Return whether a path is valid Unicode; other paths cannot be stored."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
