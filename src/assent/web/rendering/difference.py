"""Computes a unified diff of two texts in bounded time, even for hostile texts."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from assent.core.safe_text import visible

MAX_LINES = 5_000
CONTEXT = 3
SMALL = 40_000
"""A section without unique lines is compared in detail only if it has at most this many line pairs."""
MAX_DEPTH = 40
"""Maximum recursion depth; deeper sections count as changed."""
NO_NEWLINE = "\n\\ No newline at end of file"

Match = tuple[int, int]


def difference(before: str, after: str) -> str | None:
    """Return the changes as hunks, an empty string if nothing changed, or None if a text has too many lines."""
    # If only one text has CR LF, the changed line endings must be visible in the diff.
    if ("\r\n" in before) == ("\r\n" in after):
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > MAX_LINES:
        return None
    return "".join(_hunk(old, new, group) for group in _groups(_blocks(old, new)))


def _lines(text: str) -> list[str]:
    """Split a text into lines and make hidden characters visible; note a missing line break at the end."""
    lines = text.split("\n")
    last = lines.pop()
    shown = [visible(line) for line in lines]
    return [*shown, visible(last) + NO_NEWLINE] if last else shown


def _matches(old: Sequence[str], new: Sequence[str], start: Match, end: Match, depth: int = 0) -> Iterator[Match]:
    """Match equal lines: first at both ends, then around lines that are unique on both sides."""
    (i, j), (k, m) = start, end
    while i < k and j < m and old[i] == new[j]:
        yield i, j
        i, j = i + 1, j + 1
    tail = 0
    while i < k - tail and j < m - tail and old[k - tail - 1] == new[m - tail - 1]:
        tail += 1
    if depth < MAX_DEPTH:
        yield from _inner(old, new, (i, j), (k - tail, m - tail), depth)
    yield from ((k - n, m - n) for n in range(tail, 0, -1))


def _inner(old: Sequence[str], new: Sequence[str], start: Match, end: Match, depth: int) -> Iterator[Match]:
    (i, j), (k, m) = start, end
    anchors = _anchors(old[i:k], new[j:m])
    if anchors:
        at = start
        for a, b in anchors:
            yield from _matches(old, new, at, (i + a, j + b), depth + 1)
            yield i + a, j + b
            at = i + a + 1, j + b + 1
        yield from _matches(old, new, at, end, depth + 1)
    elif (k - i) * (m - j) <= SMALL:
        for a, b, size in SequenceMatcher(None, old[i:k], new[j:m], autojunk=False).get_matching_blocks():
            yield from ((i + a + n, j + b + n) for n in range(size))


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[Match]:
    """Return the longest increasing sequence of lines that are unique on both sides."""
    counts, others = Counter(old), Counter(new)
    places = {line: n for n, line in enumerate(new) if others[line] == 1}
    pairs = [(n, places[line]) for n, line in enumerate(old) if counts[line] == 1 and line in places]
    ends: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    for n, (_, b) in enumerate(pairs):
        length = bisect_left(ends, b)
        ends[length : length + 1] = [b]
        tails[length : length + 1] = [n]
        before.append(tails[length - 1] if length else -1)
    row: list[Match] = []
    at = tails[-1] if tails else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


Block = tuple[bool, int, int, int, int]


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the equal and the different sections of both texts, in order."""
    i = j = 0
    end = len(old), len(new)
    same: list[Match] = []
    for a, b in [*_matches(old, new, (0, 0), end), end]:
        if (a, b) != (i, j) and same:
            yield True, same[0][0], i, same[0][1], j
            same = []
        if (a, b) != (i, j):
            yield False, i, a, j, b
        same.append((a, b))
        i, j = a + 1, b + 1
    if same[:-1]:
        yield True, same[0][0], end[0], same[0][1], end[1]


def _groups(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Combine nearby changes into one hunk with a few lines of context."""
    group: list[Block] = []
    for same, i, k, j, m in blocks:
        if same and k - i > 2 * CONTEXT:
            if group:
                yield [*group, (True, i, i + CONTEXT, j, j + CONTEXT)]
            group = [(True, k - CONTEXT, k, m - CONTEXT, m)]
        else:
            group.append((same, i, k, j, m))
    if any(not block[0] for block in group):
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Block]) -> str:
    group = _trimmed(group)
    first, last = group[0], group[-1]
    rows: list[str] = []
    for same, i, k, j, m in group:
        if same:
            rows += [f" {line}\n" for line in old[i:k]]
        else:
            rows += [f"-{line}\n" for line in old[i:k]]
            rows += [f"+{line}\n" for line in new[j:m]]
    header = f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"
    return header + "".join(rows)


def _trimmed(group: Sequence[Block]) -> list[Block]:
    trimmed = list(group)
    same, _, k, _, m = trimmed[0]
    if same:
        keep = min(CONTEXT, k - trimmed[0][1])
        trimmed[0] = (True, k - keep, k, m - keep, m)
    same, i, k, j, _ = trimmed[-1]
    if same:
        keep = min(CONTEXT, k - i)
        trimmed[-1] = (True, i, i + keep, j, j + keep)
    return trimmed


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}"
