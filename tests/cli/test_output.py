"""Printed text can neither mislead the user nor control the terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from assent.console import output
from assent.console.output import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünïcode, 漢字, 🙂", "plain text, ünïcode, 漢字, 🙂"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\x08b\x7f\x00", "a\\x08b\\x7f\\x00"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("\u2066\u2069\u200f", "\\u2066\\u2069\\u200f"),
        ("zero\u200bwidth\u200d\ufeff", "zero\\u200bwidth\\u200d\\ufeff"),
        ("soft\u00adhyphen", "soft\\xadhyphen"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("filler\u3164\u2800", "filler\\u3164\\u2800"),
        ("line\u2028para\u2029", "line\\u2028para\\u2029"),
        ("lone\ud800", "lone\\ud800"),
        ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
    ],
)
def test_invisible_and_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_breaks_are_kept_in_multi_line_text() -> None:
    assert visible("one\n\ttwo\r\n", lines=True) == "one\n\ttwo\\r\n"


@given(st.text(st.characters(), max_size=200))
def test_no_invisible_character_remains(text: str) -> None:
    left = {unicodedata.category(char) for char in visible(text)}

    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters(), max_size=200))
def test_escaping_invisible_characters_is_idempotent(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("text", ["[bold red]not red[/bold red]", "[link=http://evil]x[/link]", ":boom:", "[/]"])
def test_markup_in_text_is_printed_literally(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.say(text)
    output.fields({"title": text})
    output.table(("what",), [[text]], empty="")
    output.block(text)

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == [text, text, "WHAT", text, text]


@given(st.text(st.characters(), max_size=50))
def test_json_output_is_ascii_and_can_be_parsed_back(text: str) -> None:
    encoded = json.dumps({"title": text}, ensure_ascii=True)

    assert encoded.isascii()
    assert "\x1b" not in encoded
    assert json.loads(encoded) == {"title": text}


def test_a_long_line_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("x" * 500)

    assert capsys.readouterr().out == "x" * 500 + "\n"


def test_tables_on_a_terminal_truncate_long_cells() -> None:
    assert len(output._cell("x" * 500)) == output.LONGEST_CELL


def test_a_cell_is_colored_by_its_value() -> None:
    assert output._cell("approved") == Text("approved", style="green")


@pytest.mark.parametrize(
    ("seconds", "spoken"), [(5, "5 s ago"), (61, "1 min ago"), (7200, "2 h ago"), (200_000, "2 d ago"), (-3, "0 s ago")]
)
def test_times_are_shown_relative_to_now(seconds: int, spoken: str) -> None:
    moment = "2026-11-15T12:00:00Z"

    assert output.ago(moment, now=output._seconds(moment) + seconds) == spoken
