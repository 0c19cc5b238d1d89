"""Watches a local Git repository for merges, pushes and received pushes, which Assent's hooks record."""

import asyncio
import contextlib
import fcntl
import os
import re
import stat
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from assent.core.canonical import Json
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.triggers.event import Arrived, Trust
from assent.triggers.ports import WatchDesk
from assent.triggers.sources import git_spool, local, reading
from assent.triggers.sources.git_commands import Place, git, place
from assent.triggers.sources.git_spool import MERGED, PUSHED, RECEIVED, BadRecord, Move, Record
from assent.triggers.sources.notices import notices
from assent.triggers.sources.tools import SourceTools

KNOWN = frozenset({"path", "events", "poll"})
EVENTS = (MERGED, PUSHED, RECEIVED)
QUIET = 0.2
STANDBY_SECONDS = 3.0
AT_ONCE = 200
MOST_COMMITS = 200
REMOTES, HEADS = "refs/remotes/", "refs/heads/"
BY_PUSH = "update by push"
LONGEST_ID = 100
_SOURCE = re.compile(rb"(?:src_[0-9A-Za-z]{1,90})?")
_WHEN = re.compile(r"@\{(\d+)\}$")
_log = structlog.get_logger()


class GitSource:
    def __init__(self, settings: Mapping[str, Any], tools: SourceTools) -> None:
        found = local.fields(settings, tools, known=KNOWN)
        self._path = local.folder(found, tools)
        self._redacted = tools.redacted
        self._poll = found.flag("poll")
        self._events = local.texts(settings, "events") or EVENTS
        if not set(self._events) <= set(EVENTS):
            raise InvalidRequest.at("/settings/events", f"may contain only {', '.join(EVENTS)}")
        # The authors of commits choose branch names and messages, so events are not trusted by default.
        self._trust = local.trust(settings, Trust.UNTRUSTED)

    async def watch(self, desk: WatchDesk) -> None:
        found = await asyncio.to_thread(place, self._path)
        if found.spool.is_symlink() or not found.spool.is_dir():
            msg = f"The Assent hooks are not installed in {self._path}. Run `assent hooks install --repo {self._path}`."
            raise OSError(msg)
        async with _alone(found.spool, desk.source_id), notices(found.spool, poll=self._poll, recursive=False) as heard:
            await self._drain(found, desk)
            await desk.watching()
            while found.spool.is_dir():
                await heard.gathered(QUIET)
                await self._drain(found, desk)

    async def _drain(self, found: Place, desk: WatchDesk) -> None:
        """Report the recorded events, and delete each file once its events have been stored."""
        for path in await asyncio.to_thread(_waiting, found.spool):
            arrived = await asyncio.to_thread(self._read, found, path)
            for start in range(0, len(arrived), AT_ONCE):
                await desk.tell(arrived[start : start + AT_ONCE])
            # Delete the file only now, because events must not be lost if storing them fails.
            path.unlink(missing_ok=True)

    def _read(self, found: Place, path: Path) -> list[Arrived]:
        try:
            record = git_spool.read(path)
        except FileNotFoundError:
            return []
        except BadRecord as error:
            _log.warning("spool_file_put_aside", repository=str(found.common), file=path.name, error=str(error))
            with contextlib.suppress(FileNotFoundError):
                path.rename(path.with_name(f".bad-{path.name}"))
            return []
        if record.event not in self._events or record.is_squash:
            return []
        read = {MERGED: _merged, PUSHED: _pushed, RECEIVED: _received}[record.event]
        told = [each for move in record.moves for each in read(found, record, move)]
        return [self._redacted(_arrived(found, record, each, self._trust)) for each in told]


@contextlib.asynccontextmanager
async def _alone(spool: Path, source_id: str) -> AsyncGenerator[None]:
    """Wait until no other node on this machine is reading the spool. Raise OSError if another source is reading it."""
    with os.fdopen(_lock_file(spool / ".lock"), "r+") as lock:
        while not _locked(lock.fileno()):
            lock.seek(0)
            other = lock.read()
            if other and other != source_id:
                msg = f"Another source ({other}) already watches this repository. Remove one of the two sources."
                raise OSError(msg)
            await asyncio.sleep(STANDBY_SECONDS)
        lock.seek(0)
        lock.truncate(0)
        lock.write(source_id)
        lock.flush()
        yield


def _lock_file(path: Path) -> int:
    """Open the lock file, which contains the ID of the source that reads the spool. Reject links and foreign files."""
    msg = f"{path} was not created by Assent. Move or remove it, then try again."
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OSError(msg) from error
    seen = os.fstat(file)
    said = os.pread(file, LONGEST_ID + 1, 0) if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 else None
    if said is None or not _SOURCE.fullmatch(said):
        os.close(file)
        raise OSError(msg)
    return file


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _waiting(spool: Path) -> list[Path]:
    try:
        return git_spool.waiting(spool)
    except FileNotFoundError:
        return []


@dataclass(frozen=True, slots=True)
class _Told:
    """A ref change from which an event is created."""

    ref: str
    """Empty if no branch was checked out."""
    before: str | None
    sha: str | None
    action: str | None = None
    more: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def branch(self) -> str | None:
        return self.ref.removeprefix(HEADS) if self.ref.startswith(HEADS) else None


def _merged(_: Place, __: Record, move: Move) -> Iterator[_Told]:
    if move.new != move.old:
        yield _Told(move.ref if move.ref != "HEAD" else "", move.old, move.new)


def _received(_: Place, __: Record, move: Move) -> Iterator[_Told]:
    action = "created" if move.old is None else "deleted" if move.new is None else "updated"
    more: dict[str, Json] = {"created": move.old is None, "deleted": move.new is None}
    yield _Told(move.ref, move.old, move.new, action, more)


def _pushed(found: Place, record: Record, move: Move) -> Iterator[_Told]:
    """Yield the remote branch if a push updated it. Only the reflog distinguishes a push from a fetch."""
    if not move.ref.startswith(REMOTES) or move.new is None:
        return
    remote, branch = _split(found, move.ref.removeprefix(REMOTES))
    if not branch or branch == "HEAD":
        return
    entries = _reflog(found, move.ref)
    at = (record.at or 0) // SECOND
    same = [n for n, entry in enumerate(entries) if entry[0] == move.new]
    # The same commit can appear several times, for example after a push and a later fetch.
    nearest = min(same, key=lambda n: abs(entries[n][2] - at), default=None)
    if nearest is None or entries[nearest][1] != BY_PUSH:
        return
    before = entries[nearest + 1][0] if nearest + 1 < len(entries) else move.old
    yield _Told(f"{HEADS}{branch}", before, move.new, more={"remote": remote})


def _reflog(found: Place, ref: str) -> list[tuple[str, str, int]]:
    """Return the previous commits of a ref, newest first, each with the reason and time (in seconds) of the update."""
    said = git(found.folder, "log", "-g", "-n", "1000", "--format=%H%x00%gs%x00%gd", "--date=unix", ref, "--") or ""
    entries: list[tuple[str, str, int]] = []
    for line in said.splitlines():
        sha, why, selector = [*line.split("\0"), "", ""][:3]
        when = _WHEN.search(selector)
        entries.append((sha, why, int(when[1]) if when else 0))
    return entries


def _split(found: Place, rest: str) -> tuple[str, str]:
    """Return the remote and the branch, both of which can contain slashes."""
    names = (git(found.folder, "remote") or "").splitlines()
    # The longest match wins, because one remote's name can be the beginning of another's.
    remote = max((each for each in names if rest.startswith(f"{each}/")), key=len, default=rest.partition("/")[0])
    return remote, rest.removeprefix(f"{remote}/")


def _arrived(found: Place, record: Record, told: _Told, trust: Trust) -> Arrived:
    paths = _paths(found, told.before, told.sha)
    view = reading.view(
        repo=found.name,
        branch=told.branch,
        ref=told.ref,
        sha=told.sha,
        before=told.before,
        action=told.action,
        paths=[*paths[: local.MOST_SHOWN]],
        **_facts(found, told.sha),
    )
    return Arrived(
        type=f"git.{record.event}",
        key=f"git:{record.name}:{told.ref}:{told.before or ''}:{told.sha or ''}",
        data={"repository": str(found.common), **view, **told.more, **_counted(paths)},
        view=view,
        subject=reading.place(found.name, reading.after("@", told.branch or told.ref or told.sha)),
        occurred_at=record.at,
        verified=local.VERIFIED,
        trust=trust,
        marks=reading.marks(_messages(found, told.before, told.sha)),
    )


def _counted(paths: list[str]) -> dict[str, Json]:
    return {"paths": [*paths[: local.MOST_KEPT]], "count": len(paths)} if paths else {}


def _facts(found: Place, sha: str | None) -> dict[str, Json]:
    """Return a commit's committer and subject."""
    said = git(found.folder, "log", "-1", "--format=%cn%x00%s", sha, "--") if sha else None
    actor, _, title = (said or "").strip("\n").partition("\0")
    return {name: text[: reading.LONGEST] for name, text in {"actor": actor, "title": title}.items() if text}


def _paths(found: Place, before: str | None, sha: str | None) -> list[str]:
    if not before or not sha:
        return []
    names = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
    said = git(found.folder, *names, before, sha, "--") or ""
    return sorted(filter(None, said.split("\0")))


def _messages(found: Place, before: str | None, sha: str | None) -> str:
    if not sha:
        return ""
    wanted = (f"{before}..{sha}", "-n", str(MOST_COMMITS)) if before else (sha, "-n", "1")
    return git(found.folder, "log", "--format=%B", *wanted, "--") or ""
