"""The previous attempt: the preceding breakpoint with the same gate and run, its outcome, and how its files differ."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assent.breakpoints.store.attempts import Attempts, Named
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.files import Files
from assent.breakpoints.store.reading import Whole
from assent.core.breakpoint import Comment, Response
from assent.db.transaction import Transaction

TEXTS = frozenset({"markdown", "html", "code", "text", "diff", "json"})
MAX_COMPARED = 256 * 1024
"""Maximum size in bytes of a file that is compared line by line."""
MAX_READ = 1024 * 1024
"""Maximum number of bytes that are read to compare two attempts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A file as of each attempt; contents are omitted if it was not sent, is unchanged, is not text or is too large."""

    before: Named | None
    after: Named | None
    contents: tuple[bytes, bytes] | None = None

    @property
    def changed(self) -> bool:
        return self.before is None or self.after is None or self.before[2:4] != self.after[2:4]


@dataclass(frozen=True, slots=True)
class Previous:
    row: Whole
    responses: Sequence[Response]
    comments: Sequence[Comment]
    pairs: Sequence[Pair]


def previous(tx: Transaction, row: Whole) -> Previous | None:
    """Return the previous attempt in the same run, if any."""
    attempts = tx[Attempts]
    found = attempts.find_previous(row)
    if found is None:
        return None
    # The files of a purged breakpoint can no longer be read.
    gone = row.purged_at is not None or found.purged_at is not None
    return Previous(
        row=found,
        responses=tx[Breakpoints].responses(found.id),
        comments=tx[Breakpoints].comments(found.id),
        pairs=() if gone else _pairs(tx, attempts, found, row),
    )


def _pairs(tx: Transaction, attempts: Attempts, before: Whole, after: Whole) -> list[Pair]:
    old, new = _by_name(attempts.files(before.id)), _by_name(attempts.files(after.id))
    room = MAX_READ
    pairs: list[Pair] = []
    for name in [*new, *(name for name in old if name not in new)]:
        pair = Pair(old.get(name), new.get(name))
        taken = _comparable(pair)
        # Files that exceed the limit are only reported as changed.
        if taken and taken <= room:
            room -= taken
            pair = Pair(pair.before, pair.after, _contents(tx, before, after, pair))
        pairs.append(pair)
    return pairs


def _by_name(files: Iterable[Named]) -> dict[tuple[str, int], Named]:
    """Key files by path, and by position among files with the same path."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], Named] = {}
    for file in files:
        found[file.path, seen[file.path]] = file
        seen[file.path] += 1
    return found


def _comparable(pair: Pair) -> int:
    """Return how many bytes must be read to compare a file, or 0 if it cannot be compared."""
    if pair.before is None or pair.after is None or not pair.changed:
        return 0
    if not {pair.before.format, pair.after.format} <= TEXTS or not (pair.before.sha256 and pair.after.sha256):
        return 0
    sizes = pair.before.size or 0, pair.after.size or 0
    return sum(sizes) if max(sizes) <= MAX_COMPARED else 0


def _contents(tx: Transaction, before: Whole, after: Whole, pair: Pair) -> tuple[bytes, bytes]:
    assert pair.before is not None, "checked by _comparable"
    assert pair.after is not None, "checked by _comparable"
    old = tx[Files].get_entry(before.id, pair.before.n, project=before.project_id)
    new = tx[Files].get_entry(after.id, pair.after.n, project=after.project_id)
    return old.content or b"", new.content or b""
