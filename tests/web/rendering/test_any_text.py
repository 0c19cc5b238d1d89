"""Whatever the text and whatever it is called, what is made of it does nothing and holds what can be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.visible import visible
from assent.store.files import FileEntry
from assent.web.rendering import PAGE_CHARACTERS, ShownFile, framed, shown_file
from tests.web.corpus import HONEST, SPOOFS, XSS
from tests.web.rendering.reading import Made

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
def test_no_text_makes_anything_but_known_elements(said: str, ending: str, text: str) -> None:
    Made(shown(text, said, f"x.{ending}").html)


@pytest.mark.parametrize("said", FORMATS)
def test_no_hostile_text_makes_anything_but_known_elements(said: str) -> None:
    for text in HOSTILE:
        for around in ("{}", "before {} after", "> - {}", "```html\n{}\n```", '{{"a": "{}"}}', "@@ -1 +1 @@\n+{}"):
            made = Made(shown(around.format(text), said).html)
            assert not any("evil" in href and "javascript" in href for href in made.hrefs)


@given(st.text())
def test_plain_text_code_and_differences_are_there_to_the_letter(text: str) -> None:
    text = text.replace("\x00", "")
    expected = visible(text.encode(errors="replace").decode())
    for said in ("text", "code"):
        assert Made(shown(text, said, "x.py").html).text.rstrip("\n") == expected.rstrip("\n")
    patch = Made(shown(text, "diff").html).text.replace(" ", "")
    assert patch == re.sub("[ \n]", "", expected)


@given(
    st.lists(st.sampled_from(["# ", "- ", "> ", "*", "`", "| ", "\n", " ", "alpha", "beta", "<b>", "[gamma]"])).map(
        "".join
    )
)
def test_no_word_of_a_document_is_lost(text: str) -> None:
    made = Made(shown(text, "markdown").html).text
    assert "".join(re.findall("[a-z]", made)) == "".join(re.findall("[a-z]", text))


@pytest.mark.parametrize("said", FORMATS)
@pytest.mark.parametrize(("text", "seen"), SPOOFS.values(), ids=SPOOFS.keys())
def test_a_spoof_is_seen_through_in_every_format(said: str, text: str, seen: str) -> None:
    if text.encode(errors="replace").decode() != text:
        return
    made = Made(shown(f'"{text}"' if said == "json" else f"x {text} y", said).html)
    assert text not in made.text
    unescaped = re.sub(r"\\u00([0-9a-f]{2})|\\([bfr])", _mark, made.text)
    found = unescaped if said == "json" else made.text
    # In a document, a star is a mark-up of its own.
    assert re.sub(r"[\s*]", "", seen) in re.sub(r"[\s*]", "", found)


def _mark(found: re.Match[str]) -> str:
    """JSON text has its own way to write a control."""
    code = int(found.group(1), 16) if found.group(1) else {"b": 8, "f": 12, "r": 13}[found.group(2)]
    return f"⟦U+{code:04X}⟧"


@pytest.mark.parametrize(
    "mark",
    ["&#x202e;", "&#8238;", "&#x202E", "&#x" + "0" * 5000 + "202e;", "&rlm;", "&ZeroWidthSpace;", "&shy;", "&zwj;"],
)
def test_a_mark_written_as_an_entity_is_seen_through(mark: str) -> None:
    assert "⟦U+" in framed(f"<p>a{mark} b</p>".encode())
    if mark.endswith(";") and len(mark) < 100:
        assert "⟦U+" in shown(f"a{mark}b", "markdown").html


@pytest.mark.parametrize("said", FORMATS)
@pytest.mark.parametrize("text", HONEST)
def test_honest_text_stays_in_every_format(said: str, text: str) -> None:
    made = Made(shown(text, said).html)
    assert "".join(text.split()) in "".join(made.text.split())


@given(st.binary())
def test_any_bytes_are_shown_or_called_what_they_are(content: bytes) -> None:
    for said in (*FORMATS, "html", "image"):
        entry = FileEntry(0, "x", said, None, "0" * 64, len(content), content)
        assert shown_file(entry, room=PAGE_CHARACTERS).kind in {"text", "rich", "frame", "image", "binary"}
    framed(content)
