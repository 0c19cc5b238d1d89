"""What others wrote is shown as it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.visible import visible
from assent.web import render
from tests.web.corpus import HONEST, SPOOFS

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
# Format characters with a glyph of their own: Arabic number signs, Syriac and Kaithi marks stand visibly in the text.
DRAWN = {
    chr(code) for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), SPOOFS.values(), ids=SPOOFS.keys())
def test_characters_that_hide_or_mislead_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_in_any_language_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp"])))
def test_no_control_or_format_character_gets_through_alone(text: str) -> None:
    left = set(visible(text.replace("\r\n", "")))
    unseen = {mark for mark in left if unicodedata.category(mark) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}}
    assert unseen <= {"\n", "\t"} | DRAWN


@given(st.text())
def test_writing_out_twice_changes_nothing_more(text: str) -> None:
    once = visible(text)
    assert visible(once) == once


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "just now"),
        (-20, "20 s ago"),
        (-150, "2 min ago"),
        (-7200, "2 h ago"),
        (-3 * 86400, "3 days ago"),
        (30, "in 30 s"),
        (3599, "in 59 min"),
        (86400, "in 24 h"),
    ],
)
def test_times_are_told_in_one_unit(seconds: int, said: str) -> None:
    assert render.relative(NOW + seconds * SECOND, NOW) == said


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        ("person:ann", "ann"),
        ("agent:ci", "the agent ci"),
        ("system:timeout", "the deadline"),
        ("system:project-removed", "Assent (project removed)"),
        ("system:sweep", "Assent (sweep)"),
    ],
)
def test_actors_are_named_as_people_speak_of_them(actor: str, name: str) -> None:
    assert render.person(actor) == name
