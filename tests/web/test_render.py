"""What others wrote is shown as it is."""

import unicodedata
from importlib.resources import files

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
        ("agent:ci", "agent ci"),
        ("system:timeout", "Assent (deadline)"),
        ("system:project-removed", "Assent (project removed)"),
        ("system:sweep", "Assent (sweep)"),
    ],
)
def test_actors_are_named_as_people_speak_of_them(actor: str, name: str) -> None:
    assert render.person(actor) == name


@pytest.mark.parametrize(("actor", "said"), [("person:ann", "by ann"), ("system:timeout", "at the deadline")])
def test_an_outcome_names_who_decided_or_the_deadline(actor: str, said: str) -> None:
    assert render.ended_by(actor) == said


def test_an_exact_time_names_the_zone_it_is_in() -> None:
    assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"
    with render.times_in("Europe/Berlin"):
        assert render.exact(NOW) == "2027-01-15 09:00:00 CET"
        assert render.exact(NOW + 180 * 86_400 * SECOND) == "2027-07-14 10:00:00 CEST"
    assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"


def test_a_zone_that_this_machine_does_not_know_is_read_as_utc() -> None:
    with render.times_in("Europe/Atlantis"):
        assert render.exact(NOW) == "2027-01-15 08:00:00 UTC"


def test_a_time_at_the_end_of_the_calendar_has_a_text_in_every_zone() -> None:
    with render.times_in("Asia/Tokyo"):
        assert render.exact(253_402_300_799 * SECOND) == "9999-12-31 23:59:59 UTC"


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("ann", "AN"), ("mia-lindqvist", "ML"), ("j.r.r.tolkien", "JT"), ("x", "X"), ("7up", "7U"), ("-", "?"),
        ("", "?"), ("山田 太郎", "山太"), ("security-team", "ST"),
    ],
)  # fmt: skip
def test_initials_are_of_the_first_and_the_last_word(name: str, letters: str) -> None:
    assert render.initials(name) == letters


def test_an_avatar_has_one_of_the_colours_of_the_style_sheet_and_always_the_same() -> None:
    sheet = (files("assent.web") / "static" / "assent.css").read_text()
    assert {render.tone(f"person-{n}") for n in range(200)} == {*range(render.TONES)}
    assert all(f".tone-{n} {{" in sheet for n in range(render.TONES))
    assert (render.tone("ann"), render.tone("bea")) == (3, 0)
