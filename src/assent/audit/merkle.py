"""A Merkle tree over an append-only log (RFC 6962): its root, and proofs of inclusion and consistency.

Hashes of complete subtrees are stored only for every eighth level: about four thousand hashes for a million entries.
Other hashes are computed from at most 128 hashes of the nearest stored level below.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

STEP = 8
"""Hashes are stored for levels that are multiples of this number; level 0 contains the entries themselves."""
EMPTY = hashlib.sha256().digest()

Kept: TypeAlias = Callable[[int, int, int], Sequence[bytes]]
"""Returns stored hashes; the arguments are a level, the number of the first hash, and the number of hashes."""


def leaf(entry: bytes) -> bytes:
    """Hash an entry; the prefix prevents it from being mistaken for a node."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Subtree:
    """A complete subtree: the n-th on its level, covering 2^level entries."""

    level: int
    n: int
    hash: bytes


@dataclass(slots=True)
class Growing:
    """A tree that grows entry by entry, and keeps one hash for each 1 bit in its size."""

    size: int = 0
    peaks: list[bytes] = field(default_factory=list[bytes])

    def add(self, entry: bytes) -> list[Subtree]:
        """Append the hash of an entry; return the newly completed subtrees that must be stored."""
        whole, level, n = entry, 0, self.size
        kept: list[Subtree] = []
        while n & 1:
            whole = node(self.peaks.pop(), whole)
            n >>= 1
            level += 1
            if level % STEP == 0:
                kept.append(Subtree(level, n, whole))
        self.peaks.append(whole)
        self.size += 1
        return kept

    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY
        found = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            found = node(peak, found)
        return found


def grown(kept: Kept, size: int) -> Growing:
    """Rebuild the tree of the given size from the stored hashes."""
    peaks: list[bytes] = []
    start = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            peaks.append(_whole(kept, level, start >> level))
            start += 1 << level
    return Growing(size, peaks)


def inclusion(kept: Kept, position: int, size: int) -> list[bytes]:
    """Return the proof that an entry is at this position in the tree of the given size."""
    if not 0 <= position < size:
        msg = f"position {position} is not in a tree of size {size}"
        raise ValueError(msg)
    found: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if position < middle:
            found.append(_range(kept, middle, end))
            end = middle
        else:
            found.append(_range(kept, start, middle))
            start = middle
    return found[::-1]


def consistency(kept: Kept, first: int, second: int) -> list[bytes]:
    """Return the proof that the tree of size `first` is a prefix of the tree of size `second`."""
    if not 0 < first <= second:
        msg = f"a tree of size {first} is not a prefix of a tree of size {second}"
        raise ValueError(msg)
    found: list[bytes] = []
    start, end, known = 0, second, True
    while first != end:
        middle = start + _split(end - start)
        if first <= middle:
            found.append(_range(kept, middle, end))
            end = middle
        else:
            found.append(_range(kept, start, middle))
            start, known = middle, False
    if not known:
        found.append(_range(kept, start, end))
    return found[::-1]


def includes(entry: bytes, position: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether a path proves that the hash of an entry is at this position (RFC 9162, 2.1.3.2)."""
    if not 0 <= position < size:
        return False
    at, last, found = position, size - 1, entry
    for each in path:
        # The path is longer than the height of the tree.
        if last == 0:
            return False
        if at & 1 or at == last:
            found = node(each, found)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            found = node(found, each)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def continues(first: int, first_root: bytes, second: int, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Return whether a path proves that one tree is a prefix of another (RFC 9162, 2.1.4.2)."""
    if first == second:
        return not path and first_root == second_root
    if not 0 < first < second or not path:
        return False
    # If the first size is a power of two, the first root is a node of the second tree, so the path does not contain it.
    rest = list(path) if first & (first - 1) else [first_root, *path]
    at, last = first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = rest[0]
    for each in rest[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = node(each, old), node(each, new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new = node(new, each)
        at, last = at >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root


def _split(count: int) -> int:
    """Return the largest power of two that is smaller than the count."""
    return 1 << (count - 1).bit_length() - 1


def _range(kept: Kept, start: int, end: int) -> bytes:
    """Return the root of a range that consists of complete subtrees, ordered from largest to smallest."""
    count = end - start
    if count & (count - 1) == 0:
        return _whole(kept, count.bit_length() - 1, start >> count.bit_length() - 1)
    middle = start + _split(count)
    return node(_range(kept, start, middle), _range(kept, middle, end))


def _whole(kept: Kept, level: int, n: int) -> bytes:
    below = level % STEP
    hashes = list(kept(level - below, n << below, 1 << below))
    if len(hashes) != 1 << below:
        msg = f"the hashes of level {level - below} are missing, starting at number {n << below}"
        raise LookupError(msg)
    while len(hashes) > 1:
        hashes = [node(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]
