"""Rendering any text in any format yields inert HTML that contains the complete text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.breakpoints.pages.file_contents import PAGE_CHARACTERS, ShownFile, shown_file
from assent.breakpoints.store.files import FileEntry
from assent.core.safe_text import visible
from assent.web.rendering.frame import framed
from tests.web.corpus import HONEST, SPOOFS, XSS
from tests.web.rendering.reading import ParsedHtml

FORMATS = ("markdown", "code", "text", "diff", "json")
ENDINGS = ("py", "js", "ts", "html", "yaml", "sql", "rs", "go", "sh", "tf", "nobody-knows")
HOSTILE = (*XSS, *(text for text, _ in SPOOFS.values()))
PIECES = st.sampled_from(
    ["<", ">", "[", "](", ")", "!", "*", "_", "`", "```\n", "|", "\n", "> ", "- ", "# ", "---\n", "&#x202e;", "\u202e",
     "+", "-", "@@ -1,2 +3 @@\n", "--- a\n+++ b\n", "diff --git a b\n", "\\ No", '"', "{", "}", "[[", ":", ",", "'",
     "\\", "javascript:", "https://a.example", "<script>", "onerror=", "word", " ", "\t", "&lt;", "]: ", "~~",
     "1. ", "[x] "]
)  # fmt: skip


def shown(text: str, said: str, path: str = "a/b", language: str | None = None) -> ShownFile:
    content = text.encode(errors="replace")
    return shown_file(FileEntry(0, path, said, language, "0" * 64, len(content), content), room=PAGE_CHARACTERS)


@given(st.sampled_from(FORMATS), st.sampled_from(ENDINGS), st.text() | st.lists(PIECES, max_size=60).map("".join))
def test_rendered_text_contains_only_allowed_elements(said: str, ending: str, text: str) -> None:
    ParsedHtml(shown(text, said, f"x.{ending}").html)


@pytest.mark.parametrize("said", FORMATS)
def test_rendered_hostile_text_contains_only_allowed_elements(said: str) -> None:
    for text in HOSTILE:
        for around in ("{}", "before {} after", "> - {}", "```html\n{}\n```", '{{"a": "{}"}}', "@@ -1 +1 @@\n+{}"):
            made = ParsedHtml(shown(around.format(text), said).html)
            assert not any("evil" in href and "javascript" in href for href in made.hrefs)


@given(st.text())
def test_rendering_text_code_or_a_diff_loses_no_characters(text: str) -> None:
    text = text.replace("\x00", "")
    expected = visible(text.encode(errors="replace").decode())
    for said in ("text", "code"):
        assert ParsedHtml(shown(text, said, "x.py").html).text.rstrip("\n") == expected.rstrip("\n")
    patch = ParsedHtml(shown(text, "diff").html).text.replace(" ", "")
    assert patch == re.sub("[ \n]", "", expected)


@given(
    st.lists(st.sampled_from(["# ", "- ", "> ", "*", "`", "| ", "\n", " ", "alpha", "beta", "<b>", "[gamma]"])).map(
        "".join
    )
)
def test_rendering_markdown_loses_no_words(text: str) -> None:
    made = ParsedHtml(shown(text, "markdown").html).text
    assert "".join(re.findall("[a-z]", made)) == "".join(re.findall("[a-z]", text))


@pytest.mark.parametrize("said", FORMATS)
@pytest.mark.parametrize(("text", "seen"), SPOOFS.values(), ids=SPOOFS.keys())
def test_spoofing_characters_are_made_visible_in_every_format(said: str, text: str, seen: str) -> None:
    if text.encode(errors="replace").decode() != text:
        return
    made = ParsedHtml(shown(f'"{text}"' if said == "json" else f"x {text} y", said).html)
    assert text not in made.text
    unescaped = re.sub(r"\\u00([0-9a-f]{2})|\\([bfr])", _mark, made.text)
    found = unescaped if said == "json" else made.text
    # In Markdown, an asterisk is markup and not part of the text.
    assert re.sub(r"[\s*]", "", seen) in re.sub(r"[\s*]", "", found)


def _mark(found: re.Match[str]) -> str:
    """Return the visible form of a control character that is escaped in JSON."""
    code = int(found.group(1), 16) if found.group(1) else {"b": 8, "f": 12, "r": 13}[found.group(2)]
    return f"⟦U+{code:04X}⟧"


@pytest.mark.parametrize(
    "mark",
    ["&#x202e;", "&#8238;", "&#x202E", "&#x" + "0" * 5000 + "202e;", "&rlm;", "&ZeroWidthSpace;", "&shy;", "&zwj;"],
)
def test_hidden_characters_written_as_entities_are_made_visible(mark: str) -> None:
    assert "⟦U+" in framed(f"<p>a{mark} b</p>".encode())
    if mark.endswith(";") and len(mark) < 100:
        assert "⟦U+" in shown(f"a{mark}b", "markdown").html


@pytest.mark.parametrize("said", FORMATS)
@pytest.mark.parametrize("text", HONEST)
def test_legitimate_text_is_unchanged_in_every_format(said: str, text: str) -> None:
    made = ParsedHtml(shown(text, said).html)
    assert "".join(text.split()) in "".join(made.text.split())


@given(st.binary())
def test_any_bytes_are_rendered_as_a_known_kind(content: bytes) -> None:
    for said in (*FORMATS, "html", "image"):
        entry = FileEntry(0, "x", said, None, "0" * 64, len(content), content)
        assert shown_file(entry, room=PAGE_CHARACTERS).kind in {"text", "rich", "frame", "image", "binary"}
    framed(content)
