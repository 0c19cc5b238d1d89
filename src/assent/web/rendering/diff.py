"""Renders diffs as numbered lines, even if an agent's diff has wrong line counts or no headers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from assent.core.safe_text import visible
from assent.web.rendering.rendered import Rendered

# At most nine digits, because int() raises an error for extremely long numbers.
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_STARTS = ("diff --git ", "diff -", "Index: ")
_SIGNS = {"+": "added", "-": "removed", " ": "same", "": "same"}
WRONG_COUNTS = "The line counts in this diff do not add up, so line numbers may be wrong."
NO_HUNKS = "This diff has no hunks, so its lines are shown as is."


@dataclass(frozen=True, slots=True)
class PatchLine:
    kind: str
    text: str
    old: int | None = None
    new: int | None = None


class _Reader:
    """Parses a patch line by line; the signs of lines take precedence over the counts."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._in_hunk = False
        self._old = self._new = 0
        self._old_left = self._new_left = 0
        self.hunks = 0
        self.files = 0
        self.wrong_counts = False

    def read(self) -> Iterator[PatchLine]:
        for place, text in enumerate(self._lines):
            yield self._line(place, text)
        self._leave()

    def _line(self, place: int, text: str) -> PatchLine:
        if found := _HUNK.match(text):
            return self._enter(text, found)
        if text.startswith(_STARTS) or self._is_header(place):
            self._leave()
            first = not (text.startswith("--- ") and self._after_start(place))
            self.files += first
            return PatchLine("start" if first else "header", text)
        if not self._in_hunk:
            return PatchLine("header", text)
        return self._inside(text)

    def _enter(self, text: str, found: re.Match[str]) -> PatchLine:
        self._leave()
        self._in_hunk = True
        self.hunks += 1
        old, old_count, new, new_count = found.groups()
        self._old, self._new = int(old), int(new)
        self._old_left = 1 if old_count is None else int(old_count)
        self._new_left = 1 if new_count is None else int(new_count)
        return PatchLine("hunk", text)

    def _leave(self) -> None:
        if self._in_hunk and (self._old_left or self._new_left):
            self.wrong_counts = True
        self._in_hunk = False
        self._old_left = self._new_left = 0

    def _is_header(self, place: int) -> bool:
        """Whether a line is the header of the next file and not a removed line that looks like one."""
        following = self._lines[place + 1 : place + 3]
        if not self._lines[place].startswith("--- ") or not following or not following[0].startswith("+++ "):
            return False
        counted_out = self._old_left <= 0 and self._new_left <= 0
        return counted_out or (len(following) > 1 and following[1].startswith("@@"))

    def _after_start(self, place: int) -> bool:
        """Whether a line above has already started this file."""
        # Git writes only a few lines, such as modes and renames, between the start of a file and “---”.
        for text in reversed(self._lines[max(0, place - 12) : place]):
            if text.startswith(_STARTS):
                return True
            if text[:1] in {"+", "-", " ", "@"}:
                return False
        return False

    def _inside(self, text: str) -> PatchLine:
        sign = text[:1]
        # “\ No newline at end of file” refers to the previous line and is not counted.
        if sign == "\\":
            return PatchLine("header", text)
        # An empty line is a context line without its leading space; after the last counted line, it ends the hunk.
        kind = _SIGNS.get(sign)
        if kind is None or (sign == "" and self._old_left <= 0 and self._new_left <= 0):
            self._leave()
            return PatchLine("header", text)
        old = self._old if kind != "added" else None
        new = self._new if kind != "removed" else None
        self._old += old is not None
        self._old_left -= old is not None
        self._new += new is not None
        self._new_left -= new is not None
        return PatchLine(kind, text, old, new)


def diff(text: str) -> Rendered:
    """Render a patch; the result contains all of its lines with their signs."""
    shown = visible(text)
    lines = shown.removesuffix("\n").split("\n")
    reader = _Reader(lines)
    found = list(reader.read())
    if not reader.hunks:
        return Rendered(_block(found), (NO_HUNKS,))
    added, removed = (sum(line.kind == kind for line in found) for kind in ("added", "removed"))
    counted = f"{_counted(reader.files)}{added} added, {removed} removed."
    return Rendered(_block(found), (counted, *((WRONG_COUNTS,) if reader.wrong_counts else ())))


def _counted(files: int) -> str:
    return f"{files} files: " if files > 1 else ""


def _block(lines: Sequence[PatchLine]) -> Markup:
    return Markup('<div class="diff">%s</div>') % Markup().join(map(_row, lines))


def _row(line: PatchLine) -> Markup:
    if line.kind not in _SIGNS.values():
        return Markup('<div class="%s">%s</div>') % (line.kind, line.text or " ")
    return Markup(
        '<div class="%s"><span class="no">%s</span><span class="no">%s</span>'
        '<span class="sign">%s</span><span class="text">%s</span></div>'
    ) % (line.kind, line.old or "", line.new or "", _sign(line), escape(line.text[1:]))


def _sign(line: PatchLine) -> str:
    return {"added": "+", "removed": "-"}.get(line.kind, " ")
