"""A folder as it was: which files it had, and what tells whether one has changed."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from pathspec import GitIgnoreSpec

LARGE = 20 * 1024 * 1024
"""What is larger is not read: its size and time tell whether it has changed."""
MOST_FILES = 200_000
STORM = 1_000
"""So many changes at once are found by a look at everything: the system may have dropped some."""
BLOCK = 256 * 1024
LEFT_OUT = (
    ".git/", ".hg/", ".svn/", "node_modules/", "__pycache__/", ".venv/", "*.swp", "*.swx", "*~", ".#*", "4913",
    ".DS_Store",
)  # fmt: skip
"""What other programs keep beside the files that people mean; `exclude: ["!node_modules/"]` takes one of them in."""
_LOSSY = "\N{REPLACEMENT CHARACTER}"

Entry: TypeAlias = tuple[int, int, str]
"""Size, time of the last change in nanoseconds, and the hash of the content, which is empty where it was not read."""
Snapshot: TypeAlias = dict[str, Entry]


class Wanted:
    """Which files of a folder count, as patterns of .gitignore say it."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Raise ValueError for a pattern that cannot be read."""
        self._include = GitIgnoreSpec.from_lines(include) if include else None
        self._exclude = GitIgnoreSpec.from_lines([*LEFT_OUT, *exclude])
        # What is taken in again may lie in a folder that is left out.
        self._prunes = not any(each.startswith("!") for each in exclude)

    def file(self, path: str) -> bool:
        return (self._include is None or self._include.match_file(path)) and not self._exclude.match_file(path)

    def folder(self, path: str) -> bool:
        return not self._prunes or not self._exclude.match_file(f"{path}/")


@dataclass(frozen=True, slots=True)
class Batch:
    """What is different between two snapshots, each list in order."""

    added: list[str]
    changed: list[str]
    removed: list[str]

    @property
    def paths(self) -> list[str]:
        return sorted([*self.added, *self.changed, *self.removed])


def difference(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> Batch:
    return Batch(
        added=sorted(after.keys() - before.keys()),
        changed=sorted(path for path, entry in after.items() if path in before and _differs(before[path], entry)),
        removed=sorted(before.keys() - after.keys()),
    )


def _differs(before: Entry, after: Entry) -> bool:
    if before[0] != after[0] or not before[2] or not after[2]:
        return before[:2] != after[:2]
    return before[2] != after[2]


def scan(root: Path, wanted: Wanted, known: Mapping[str, Entry]) -> Snapshot:
    """Look at all there is; what has the size and time that are known is not read again."""
    return _complete(_found(root, "", wanted, known))


def rescan(root: Path, wanted: Wanted, known: Snapshot, paths: Collection[str]) -> Snapshot:
    """Return what is known, with these paths looked at anew: a folder with all that is in it."""
    places = _places(root, paths) if len(paths) <= STORM else None
    if places is None:
        return scan(root, wanted, known)
    after = dict(known)
    emptied: set[str] = set()
    for place in places:
        whole = root / place
        if after.pop(place, None) is None or whole.is_dir():
            emptied.add(place)
        entry = _entry(whole) if wanted.file(place) else None
        if entry is not None:
            after[place] = entry
    if emptied:
        after = {path: entry for path, entry in after.items() if not _lies_in(path, emptied)}
    for place in emptied:
        whole = root / place
        if whole.is_dir() and not whole.is_symlink() and wanted.folder(place):
            after |= _found(root, place, wanted, known)
    return _complete(after.items())


def _places(root: Path, paths: Iterable[str]) -> list[str] | None:
    """Return the paths relative to the folder; None if only a look at everything can tell."""
    prefix = f"{root}{os.sep}"
    found: set[str] = set()
    for path in paths:
        if _LOSSY in path or not path.startswith(prefix):
            return None
        # The system follows links out of the folder; what is behind them is not in it.
        if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path):  # noqa: PTH120  # many paths
            found.add(path.removeprefix(prefix))
    return sorted(found)


def _lies_in(path: str, folders: set[str]) -> bool:
    at = path.rfind("/")
    while at > 0:
        if path[:at] in folders:
            return True
        at = path.rfind("/", 0, at)
    return False


def _complete(found: Iterable[tuple[str, Entry]]) -> Snapshot:
    made: Snapshot = {}
    for path, entry in found:
        made[path] = entry
        if len(made) > MOST_FILES:
            msg = f"More than {MOST_FILES:,} files. Watch a smaller folder, or limit the files with `include`."
            raise ValueError(msg)
    return made


def _found(root: Path, place: str, wanted: Wanted, known: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield the files of a folder and of those in it; links are not followed."""
    waiting = [place]
    while waiting:
        at = waiting.pop()
        for each in _listed(root / at, is_root=not at):
            path = _shown(f"{at}/{each.name}" if at else each.name)
            if each.is_dir(follow_symlinks=False):
                if wanted.folder(path):
                    waiting.append(f"{at}/{each.name}" if at else each.name)
            elif path in known or wanted.file(path):
                entry = _entry(Path(each.path), known.get(path))
                if entry is not None:
                    yield path, entry


def _listed(folder: Path, *, is_root: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        if is_root:
            msg = f"Folder not found: {folder}."
            raise FileNotFoundError(msg) from None
        return []  # gone since it was seen
    except PermissionError as error:
        msg = f"Permission denied: the user that runs Assent cannot read {folder}."
        raise PermissionError(msg) from error


def _entry(path: Path, known: Entry | None = None) -> Entry | None:
    """Look at one file; None if it is gone, or is no file."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            return None
        if known is not None and known[:2] == (found.st_size, found.st_mtime_ns):
            return known
        return found.st_size, found.st_mtime_ns, _content(path, found)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _content(path: Path, found: os.stat_result) -> str:
    """Return the hash of a file's content, or of where a link leads; empty where it is too large or may not be read."""
    if stat.S_ISLNK(found.st_mode):
        return _hash([os.fsencode(path.readlink())])
    try:
        return "" if found.st_size > LARGE else _hash(_blocks(path))
    except PermissionError:
        return ""


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _hash(blocks: Iterable[bytes]) -> str:
    made = blake2b(digest_size=16)
    for block in blocks:
        made.update(block)
    return made.hexdigest()


def _shown(path: str) -> str:
    """Return a path that can be written down, also where its bytes are no text."""
    return path if path.isprintable() else os.fsencode(path).decode(errors="backslashreplace")


def read(kept: Mapping[str, Sequence[Any]]) -> Snapshot:
    return {path: (size, at, content) for path, (size, at, content) in kept.items()}
