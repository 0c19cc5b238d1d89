"""Template filters: hidden characters, times and names."""

import unicodedata
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.breakpoints.pages import presentation
from assent.core.safe_text import visible
from assent.web import filters as render
from tests.web.corpus import HONEST, SPOOFS

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
# Format characters with a visible glyph, such as Arabic number signs and Syriac and Kaithi marks; they are not escaped.
DRAWN = {
    chr(code) for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), SPOOFS.values(), ids=SPOOFS.keys())
def test_hidden_and_misleading_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", HONEST)
def test_legitimate_text_in_any_language_is_unchanged(text: str) -> None:
    assert visible(text) == text


@given(st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp"])))
def test_invisible_control_and_format_characters_are_always_escaped(text: str) -> None:
    left = set(visible(text.replace("\r\n", "")))
    unseen = {mark for mark in left if unicodedata.category(mark) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}}
    assert unseen <= {"\n", "\t"} | DRAWN


@given(st.text())
def test_making_text_visible_is_idempotent(text: str) -> None:
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
def test_relative_times_use_a_single_unit(seconds: int, said: str) -> None:
    assert render.relative(NOW + seconds * SECOND, NOW) == said


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        ("person:ann", "ann"),
        ("agent:ci", "agent ci"),
        ("system:timeout", "Assent (deadline)"),
        ("system:project-removed", "Assent (project removed)"),
        ("system:sweep", "Assent (sweep)"),
    ],
)
def test_actors_have_readable_display_names(actor: str, name: str) -> None:
    assert render.person(actor) == name


@pytest.mark.parametrize(("actor", "said"), [("person:ann", "by ann"), ("system:timeout", "at the deadline")])
def test_an_outcome_names_the_decider_or_the_deadline(actor: str, said: str) -> None:
    assert presentation.ended_by(actor) == said


def test_an_exact_time_includes_its_time_zone() -> None:
    assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"
    with render.times_in("Europe/Berlin"):
        assert render.exact(NOW) == "2027-01-15 09:00:00 CET"
        assert render.exact(NOW + 180 * 86_400 * SECOND) == "2027-07-14 10:00:00 CEST"
    assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"


def test_an_unknown_time_zone_falls_back_to_utc() -> None:
    with render.times_in("Europe/Atlantis"):
        assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"


def test_the_last_second_of_the_year_9999_can_be_formatted_in_any_zone() -> None:
    with render.times_in("Asia/Tokyo"):
        assert render.exact(253_402_300_799 * SECOND) == "9999-12-31 23:59:59 UTC"


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("ann", "AN"), ("mia-lindqvist", "ML"), ("j.r.r.tolkien", "JT"), ("x", "X"), ("7up", "7U"), ("-", "?"),
        ("", "?"), ("山田 太郎", "山太"), ("security-team", "ST"),
    ],
)  # fmt: skip
def test_initials_come_from_the_first_and_last_word(name: str, letters: str) -> None:
    assert render.initials(name) == letters


def test_an_avatar_has_a_stable_color_from_the_style_sheet() -> None:
    sheet = (files("assent.web") / "static" / "assent.css").read_text()
    assert {render.tone(f"person-{n}") for n in range(200)} == {*range(render.TONES)}
    assert all(f".tone-{n} {{" in sheet for n in range(render.TONES))
    assert (render.tone("ann"), render.tone("bea")) == (3, 0)
