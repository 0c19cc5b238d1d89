"""Globs: `*` matches any characters, including dots; everything else is literal; the whole text must match."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from assent.core.patterns.folding import is_uncertain, readings, solid, spellings


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob, split at its stars into literal pieces that must occur in this order."""

    text: str
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Glob":
        return cls(text, tuple(text.split("*")))

    @property
    def literal(self) -> bool:
        return len(self.pieces) == 1

    def matches(self, text: str) -> bool:
        return _matches(self.pieces, text)

    def matches_loosely(self, text: str) -> bool:
        """Match like `never` rules: regardless of case, spelling and the kind of whitespace."""
        return (
            self.matches(text)
            or any(each.matches(reading) for each in self.loosened() for reading in readings(text))
            or (is_uncertain(text) and any(_matches(pieces, each) for pieces in self._solid() for each in solid(text)))
        )

    def _solid(self) -> Iterator[tuple[str, ...]]:
        """Yield the pieces without whitespace, in composed and decomposed form."""
        return zip(*map(_both, self.pieces), strict=True)

    def loosened(self) -> tuple["Glob", ...]:
        """Return globs for folded text. At least one of them matches if any reading of this glob matches."""
        return _loosened(self)


def _both(piece: str) -> tuple[str, str]:
    found = solid(piece)
    return found[0], found[-1]


@lru_cache(maxsize=4096)
def _loosened(glob: Glob) -> tuple[Glob, ...]:
    return tuple(Glob("*".join(pieces), pieces) for pieces in spellings(glob.pieces))


def glob_matches(pattern: str, text: str) -> bool:
    return _matches(pattern.split("*"), text)


def _matches(pieces: Sequence[str], text: str) -> bool:
    """Match each piece at its first possible position. Without backtracking, matching takes linear time."""
    head, tail = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == head
    position, end = len(head), len(text) - len(tail)
    # The first condition prevents the head and the tail from overlapping.
    if position > end or not text.startswith(head) or not text.endswith(tail):
        return False
    for piece in pieces[1:-1]:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
