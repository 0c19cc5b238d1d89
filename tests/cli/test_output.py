"""What is printed can neither lie nor command the terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from assent.cli import output
from assent.cli.output import visible


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
def test_what_hides_or_commands_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_stay_lines_where_lines_are_meant() -> None:
    assert visible("one\n\ttwo\r\n", lines=True) == "one\n\ttwo\\r\n"


@given(st.text(st.characters(), max_size=200))
def test_nothing_hidden_is_ever_left(text: str) -> None:
    left = {unicodedata.category(char) for char in visible(text)}

    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters(), max_size=200))
def test_making_visible_twice_changes_nothing_more(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("text", ["[bold red]not red[/bold red]", "[link=http://evil]x[/link]", ":boom:", "[/]"])
def test_markup_in_a_text_is_only_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.say(text)
    output.fields({"title": text})
    output.table(("what",), [[text]], empty="")
    output.block(text)

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == [text, text, "WHAT", text, text]


@given(st.text(st.characters(), max_size=50))
def test_json_output_is_ascii_that_reads_back(text: str) -> None:
    encoded = json.dumps({"title": text}, ensure_ascii=True)

    assert encoded.isascii()
    assert "\x1b" not in encoded
    assert json.loads(encoded) == {"title": text}


def test_a_long_line_is_never_broken(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("x" * 500)

    assert capsys.readouterr().out == "x" * 500 + "\n"


def test_a_table_on_a_terminal_cuts_long_texts() -> None:
    assert len(output._cell("x" * 500)) == output.LONGEST_CELL


def test_a_cell_is_coloured_by_what_it_says() -> None:
    assert output._cell("approved") == Text("approved", style="green")


@pytest.mark.parametrize(
    ("seconds", "spoken"), [(5, "5 s ago"), (61, "1 min ago"), (7200, "2 h ago"), (200_000, "2 d ago"), (-3, "0 s ago")]
)
def test_times_are_told_as_people_tell_them(seconds: int, spoken: str) -> None:
    moment = "2026-11-15T12:00:00Z"

    assert output.ago(moment, now=output._seconds(moment) + seconds) == spoken
