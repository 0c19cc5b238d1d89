"""Gates derived from titles, including distinct gates for titles that cannot be transliterated."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assent.core.gates import MAX_GATE, slug

sayable = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


@pytest.mark.parametrize(
    ("title", "gate"),
    [
        ("Star repo", "star-repo"),
        ("confirm.star-repo", "confirm.star-repo"),
        ("  Deploy   to -- production!! ", "deploy-to-production"),
        ("Release v1.2.3", "release-v1.2.3"),
        ("UPPER_case", "upper-case"),
        ("Привет мир", "privet-mir"),
        ("Überweisung über 100 €", "uberweisung-uber-100-eur"),
        ("a" * 300, "a" * MAX_GATE),
    ],
)
def test_titles_are_converted_to_the_expected_gates(title: str, gate: str) -> None:
    assert slug(title) == gate


@pytest.mark.parametrize("title", ["日本語", "한국어", "עברית", "ไทย", "🚀", "👩‍👩‍👧", "Ωμέγα"])
def test_titles_in_other_scripts_are_transliterated(title: str) -> None:
    assert not slug(title).startswith("breakpoint-")
    assert re.search("[a-z0-9]", slug(title))


@pytest.mark.parametrize("title", ["!!!", "...", "—", "   ", "?", "\u200b", "-", ". .", ".-.", "... ?! ..."])
def test_a_title_without_usable_characters_gets_a_generated_gate(title: str) -> None:
    assert re.fullmatch(r"breakpoint-[0-9a-f]{8,}", slug(title))


@given(st.lists(st.text("!?-—… .()\u200b", min_size=1, max_size=12), unique=True, min_size=2, max_size=6))
def test_different_titles_never_share_a_generated_gate(titles: list[str]) -> None:
    assert len({slug(title) for title in titles}) == len(titles)


@given(sayable)
def test_every_gate_has_the_specified_format(title: str) -> None:
    gate = slug(title)
    assert re.fullmatch(r"[a-z0-9.]+(-[a-z0-9.]+)*", gate)
    assert re.search(r"[a-z0-9]", gate)
    assert 1 <= len(gate) <= MAX_GATE


@given(sayable)
def test_converting_a_gate_again_does_not_change_it(title: str) -> None:
    assert slug(slug(title)) == slug(title)


@given(st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True))
def test_a_title_that_is_a_valid_gate_is_unchanged(gate: str) -> None:
    assert slug(gate) == gate


@given(st.text("abc XYZ-_.!", min_size=1, max_size=30))
def test_case_and_punctuation_do_not_change_the_gate(title: str) -> None:
    assume(re.search("[a-z]", slug(title)))
    assert slug(title.upper()) == slug(title)
