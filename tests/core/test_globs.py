"""Globs, compared with a brute-force reference implementation."""

from itertools import product
from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.patterns.globs import Glob, glob_matches
from tests.core.pattern_language import glob_reference as reference

alphabet = st.text("ab.*", max_size=9)
names = st.text("ab.", max_size=9)


@given(alphabet, names)
def test_random_globs_match_like_the_reference_implementation(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) == Glob.of(pattern).matches(text) == reference(pattern, text)


def test_every_short_glob_matches_like_the_reference_implementation() -> None:
    globs = ["".join(each) for size in range(6) for each in product("ab*", repeat=size)]
    texts = ["".join(each) for size in range(7) for each in product("ab", repeat=size)]
    wrong = [(glob, text) for glob in globs for text in texts if glob_matches(glob, text) != reference(glob, text)]
    assert (len(globs) * len(texts), wrong) == (46_228, [])


@given(names, st.data())
def test_replacing_any_part_of_a_name_with_a_star_matches_the_name(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert glob_matches(f"{text[:start]}*{text[end:]}", text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "anything.at-all", True),
        ("", "", True),
        ("", "a", False),
        ("confirm.*", "confirm.deploy.production", True),
        ("confirm.*", "confirm", False),
        ("confirm.*", "xconfirm.a", False),
        ("confirm.x", "confirm.x\n", False),
        ("*.production", "deploy.production", True),
        ("*.production", "deploy.production.eu", False),
        ("a*a", "a", False),
        ("Deploy", "deploy", False),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
        ("a+", "aa", False),
        ("\\*", "\\x", True),
    ],
)
def test_globs_are_anchored_literal_and_case_sensitive(pattern: str, text: str, expected: bool) -> None:  # noqa: FBT001
    assert glob_matches(pattern, text) is expected


class Watched(str):  # noqa: SLOT000  # the counter requires an instance dictionary
    """A string that counts how many of its characters are read."""

    looked = 0

    def find(self, piece: str, start: SupportsIndex | None = None, end: SupportsIndex | None = None, /) -> int:
        found = super().find(piece, start, end)
        first, last = int(start or 0), len(self) if end is None else int(end)
        self.looked += (last if found < 0 else found + len(piece)) - first
        return found

    def startswith(self, piece: str, *_: object) -> bool:  # type: ignore[override]
        self.looked += len(piece)
        return super().startswith(piece)

    def endswith(self, piece: str, *_: object) -> bool:  # type: ignore[override]
        self.looked += len(piece)
        return super().endswith(piece)


HOSTILE = ["*a" * 1000 + "b", "*" * 2000, "a*" * 1000, "*aa*ab" * 300, "*" + "a" * 1998 + "b", "a*" * 999 + "*b"]


@pytest.mark.parametrize("glob", HOSTILE, ids=lambda glob: str(glob[:8]))
@pytest.mark.parametrize("size", [200, 5_000])
def test_matching_a_hostile_glob_reads_each_character_at_most_once(glob: str, size: int) -> None:
    text = Watched("a" * size)
    Glob.of(glob).matches(text)
    assert text.looked <= len(text) + len(glob)


@given(alphabet, names)
def test_matching_a_glob_takes_linear_time(glob: str, text: str) -> None:
    watched = Watched(text)
    Glob.of(glob).matches(watched)
    assert watched.looked <= len(text) + len(glob)
