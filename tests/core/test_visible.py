"""Untrusted text is displayed safely: it cannot hide characters, reverse the text or cover other lines."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core import hidden_characters
from assent.core.safe_text import visible
from assent.sdk.visible import visible as visible_in_a_terminal
from tools.hidden_characters import MODULE, module

STYLE, JOINER, KEYCAP = "\ufe0f", "\u200d", "\u20e3"
ACUTE = "\u0301"
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Format characters that are visible: Arabic number signs and end of ayah, and Syriac and Kaithi marks.
DRAWN = frozenset(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)))


@pytest.mark.parametrize(
    "text",
    ["", "plain", "a\tb\nc", "naïve Zölle", "עברית", "العربية", "ไทย", "हिन्दी", "日本語", "東京\u3000大阪",
     "API-шлюз", "5 μs, 10 kΩ", "x̂́", "+1 ≠ 2 → 3", "1⃣",
     "❤️", "☎️ 1", "↔️", "←️", "‼️", "⁉️", "〰️", "1️⃣", "#️⃣", "👩‍💻", "👩🏽‍💻", "👩🏿‍💻", "👩🏻‍💻", "❤️‍🔥", "🏳️‍🌈", "👨‍👩‍👧"],
)  # fmt: skip
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
    assert visible(f"before {text} after") == f"before {text} after"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a⟦U+0000⟧b"),
        ("a\rb", "a⟦U+000D⟧b"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("a\n\rb", "a\n⟦U+000D⟧b"),
        ("\x1b[31mred", "⟦U+001B⟧[31mred"),
        ("user\u202etxt.exe", "user⟦U+202E⟧txt.exe"),
        ("pay\u200bpal", "pay⟦U+200B⟧pal"),
        ("\u2028", "⟦U+2028⟧"),
        ("\ufeffa", "⟦U+FEFF⟧a"),
        ("\ud800", "⟦U+D800⟧"),
        ("a\U000e0041", "a⟦U+E0041⟧"),
        ("\U0010ffff", "⟦U+10FFFF⟧"),
        ("\u3164\u2800", "⟦U+3164⟧⟦U+2800⟧"),
        ("\U00016fe4\U0001d159", "⟦U+16FE4⟧⟦U+1D159⟧"),
        ("rm\u00a0-rf", "rm⟦U+00A0⟧-rf"),
    ],
)
def test_hidden_and_misleading_characters_are_shown_as_code_points(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (STYLE, "⟦U+FE0F⟧"),
        (f"a{STYLE}", "a⟦U+FE0F⟧"),
        (f"X{STYLE}", "X⟦U+FE0F⟧"),
        (f"+{STYLE}", "+⟦U+FE0F⟧"),
        (f"\u207a{STYLE}", "\u207a⟦U+FE0F⟧"),
        (f"❤a{STYLE}", "❤a⟦U+FE0F⟧"),
        (f"1{STYLE}a{KEYCAP}", f"1⟦U+FE0F⟧a{KEYCAP}"),
        (f"❤{STYLE}{STYLE}", "❤\ufe0f⟦U+FE0F⟧"),
        ("❤\ufe0e", "❤⟦U+FE0E⟧"),
    ],
)
def test_a_variation_selector_is_allowed_only_after_an_emoji(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (JOINER, "⟦U+200D⟧"),
        (f"a{JOINER}b", "a⟦U+200D⟧b"),
        (f"👩{JOINER}", "👩⟦U+200D⟧"),
        (f"👩{JOINER}b", "👩⟦U+200D⟧b"),
        (f"👩{JOINER}b👩", "👩⟦U+200D⟧b👩"),
        (f"a{JOINER}👩", "a⟦U+200D⟧👩"),
        (f"👩a{JOINER}👩", "👩a⟦U+200D⟧👩"),
        (f"❤{STYLE}{JOINER}b", "❤\ufe0f⟦U+200D⟧b"),
        (f"{STYLE}{JOINER}👩", "⟦U+FE0F⟧⟦U+200D⟧👩"),
        (f"a{STYLE}{JOINER}👩", "a⟦U+FE0F⟧⟦U+200D⟧👩"),
        (f"❤{STYLE}{STYLE}{JOINER}👩", "❤\ufe0f⟦U+FE0F⟧⟦U+200D⟧👩"),
        (f"👩{JOINER}{JOINER}👩", "👩⟦U+200D⟧⟦U+200D⟧👩"),
        (f"👩{JOINER}{KEYCAP}", f"👩⟦U+200D⟧{KEYCAP}"),
        ("👩\u200c👩", "👩⟦U+200C⟧👩"),
    ],
)
def test_a_joiner_is_allowed_only_between_two_emoji(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("tone", ["\U0001f3fb", "\U0001f3fc", "\U0001f3fd", "\U0001f3fe", "\U0001f3ff"])
def test_emoji_of_all_skin_tones_can_be_joined(tone: str) -> None:
    assert visible(f"👩{tone}{JOINER}💻") == f"👩{tone}{JOINER}💻"


def test_a_letter_keeps_at_most_four_combining_marks() -> None:
    assert visible("e" + ACUTE * 4 + "x") == "e" + ACUTE * 4 + "x"
    assert visible("e" + ACUTE * 5 + "x") == "e" + ACUTE * 4 + "⟦U+0301⟧x"
    assert visible("e" + ACUTE * 4 + "\u0300\u20dd") == "e" + ACUTE * 4 + "⟦U+0300⟧⟦U+20DD⟧"
    assert visible("e" + ACUTE * 5 + "e" + ACUTE * 5).count("⟦U+0301⟧") == 2
    assert visible(("e" + ACUTE * 3) * 9) == ("e" + ACUTE * 3) * 9


@pytest.mark.parametrize(
    "mark",
    ["\u0300", "\u036f", "\u0489", "\u0591", "\u061a", "\u064b", "\u0e31", "\u0e3a", "\u0e4e", "\u1ab0", "\u1dff",
     "\u20d0", "\u20f0", "\ufe20", "\ufe2f"],
)  # fmt: skip
def test_stacked_combining_marks_of_any_kind_are_shown_as_code_points(mark: str) -> None:
    assert visible("a" + mark * 30) == "a" + mark * 4 + f"⟦U+{ord(mark):04X}⟧" * 26


def test_non_string_values_are_converted_to_text() -> None:
    assert visible(12) == "12"
    assert visible(None) == "None"
    assert visible(["\u202e"]) == r"['\u202e']"


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])))
def test_tabs_and_newlines_are_the_only_invisible_characters_kept(text: str) -> None:
    left = {mark for mark in visible(text) if unicodedata.category(mark) in UNSEEN}
    assert left <= {"\t", "\n"} | DRAWN


@given(st.text(st.sampled_from(["a", "❤", "👩", "\U0001f3fd", STYLE, JOINER, KEYCAP, ACUTE, "\r", "\n", "\u202e"])))
def test_marking_hidden_characters_is_idempotent(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    assert "\u202e" not in once
    assert "\r" not in once


def codes(ranges: str) -> set[int]:
    pairs = [each.split("-") for each in ranges.split()]
    return {code for pair in pairs for code in range(int(pair[0], 16), int(pair[-1], 16) + 1)}


def test_the_character_list_is_up_to_date_with_the_unicode_version() -> None:
    assert unicodedata.unidata_version == hidden_characters.UNICODE_VERSION
    assert MODULE.read_text(encoding="utf-8") == module()


@pytest.mark.parametrize("ranges", [hidden_characters.HIDDEN, hidden_characters.FILLERS, hidden_characters.BLANKS])
def test_pages_and_terminals_mark_every_listed_character(ranges: str) -> None:
    for code in codes(ranges):
        assert visible(f"a{chr(code)}b") == f"a⟦U+{code:04X}⟧b"
        assert chr(code) not in visible_in_a_terminal(f"a{chr(code)}b")


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("p\u0430ypal", "p⟦\u0430 U+0430⟧ypal"),
        ("Прив\u0065т", "Прив⟦e U+0065⟧т"),
        ("r\u03bfot", "r⟦\u03bf U+03BF⟧ot"),
        ("\u0430\u0301dmin", "⟦\u0430 U+0430⟧\u0301dmin"),
        ("\u0430d", "⟦\u0430 U+0430⟧d"),
        ("r\U0001d5c6dir", "r⟦\U0001d5c6 U+1D5C6⟧dir"),
    ],
)
def test_letters_from_the_minority_script_of_a_mixed_word_are_marked(word: str, shown: str) -> None:
    assert visible(word) == shown
    assert visible(visible(word)) == shown
    assert visible_in_a_terminal(word) == shown


@pytest.mark.parametrize("text", ["Москва и London", "foo_бар", "Ελλάδα 2", "GitHubのリポジトリ", "µs μs kΩ", "Δt"])
def test_adjacent_words_of_different_scripts_are_unchanged(text: str) -> None:
    assert visible(text) == visible_in_a_terminal(text) == text
