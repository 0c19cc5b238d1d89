"""Snapshots of a folder's files, with sizes, times and hashes to detect changes."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from pathspec import GitIgnoreSpec

LARGE = 20 * 1024 * 1024
"""Larger files are not hashed; only their size and time are compared."""
MOST_FILES = 200_000
STORM = 1_000
"""Maximum number of changes without a full scan. Beyond this, the operating system may have dropped notifications."""
BLOCK = 256 * 1024
LEFT_OUT = (
    ".git/", ".hg/", ".svn/", "node_modules/", "__pycache__/", ".venv/", "*.swp", "*.swx", "*~", ".#*", "4913",
    ".DS_Store",
)  # fmt: skip
"""Other programs' files, excluded by default. For example, `exclude: ["!node_modules/"]` includes that folder again."""
_LOSSY = "\N{REPLACEMENT CHARACTER}"

Entry: TypeAlias = tuple[int, int, str]
"""Size, modification time in nanoseconds, and content hash, which is empty if the content was not read."""
Snapshot: TypeAlias = dict[str, Entry]


class Wanted:
    """Selects a folder's files with .gitignore patterns."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Raise ValueError for an invalid pattern."""
        self._include = GitIgnoreSpec.from_lines(include) if include else None
        self._exclude = GitIgnoreSpec.from_lines([*LEFT_OUT, *exclude])
        # A `!` pattern can include a file in an excluded folder, so such folders must be searched.
        self._prunes = not any(each.startswith("!") for each in exclude)

    def file(self, path: str) -> bool:
        return (self._include is None or self._include.match_file(path)) and not self._exclude.match_file(path)

    def folder(self, path: str) -> bool:
        return not self._prunes or not self._exclude.match_file(f"{path}/")


@dataclass(frozen=True, slots=True)
class Batch:
    """The differences between two snapshots, as sorted lists."""

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
    # If both hashes are known, a file that was merely touched does not count as changed.
    if before[0] != after[0] or not before[2] or not after[2]:
        return before[:2] != after[:2]
    return before[2] != after[2]


def scan(root: Path, wanted: Wanted, known: Mapping[str, Entry]) -> Snapshot:
    """Scan the whole folder. Files with an unchanged size and time are not read again."""
    return _complete(_found(root, "", wanted, known))


def rescan(root: Path, wanted: Wanted, known: Snapshot, paths: Collection[str]) -> Snapshot:
    """Return the known snapshot with these paths updated, including the contents of folders."""
    places = _places(root, paths) if len(paths) <= STORM else None
    if places is None:
        return scan(root, wanted, known)
    after = dict(known)
    emptied: set[str] = set()
    for place in places:
        whole = root / place
        # A path that was not a known file may be a folder, whose files must be scanned again.
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
    """Return the paths relative to the folder, or None if a full scan is necessary."""
    prefix = f"{root}{os.sep}"
    found: set[str] = set()
    for path in paths:
        # Undecodable names are reported with replacement characters, so the path is unknown.
        if _LOSSY in path or not path.startswith(prefix):
            return None
        # The operating system also reports changes behind symbolic links, which are not part of the folder.
        if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path):  # noqa: PTH120  # pathlib is slow for many paths
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
            msg = (
                f"There are more than {MOST_FILES:,} files to watch. Watch a smaller folder, or limit the files with "
                "`include`."
            )
            raise ValueError(msg)
    return made


def _found(root: Path, place: str, wanted: Wanted, known: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield the files of a folder recursively, without following links."""
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
        return []  # deleted after it was listed
    except PermissionError as error:
        msg = f"Permission denied: the user that runs Assent cannot read {folder}."
        raise PermissionError(msg) from error


def _entry(path: Path, known: Entry | None = None) -> Entry | None:
    """Return the entry of a file or symbolic link, or None if it does not exist or is something else."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            return None
        # Reading every file at each scan would be slow.
        if known is not None and known[:2] == (found.st_size, found.st_mtime_ns):
            return known
        return found.st_size, found.st_mtime_ns, _content(path, found)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _content(path: Path, found: os.stat_result) -> str:
    """Return the hash of a file's content or of a link's target; empty if the file is too large or unreadable."""
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
    """Return a path that can be stored as text, with undecodable bytes escaped."""
    return path if path.isprintable() else os.fsencode(path).decode(errors="backslashreplace")


def read(kept: Mapping[str, Sequence[Any]]) -> Snapshot:
    return {path: (size, at, content) for path, (size, at, content) in kept.items()}
