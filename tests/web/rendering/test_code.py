"""Code is split into lines, and highlighted if that is fast enough."""

import pytest

from assent.web.rendering.code import LANGUAGES, MAX_HIGHLIGHTED, MAX_LINE, code, language_of
from tests.web.rendering.reading import ParsedHtml


@pytest.mark.parametrize(
    ("said", "path", "language"),
    [
        (None, "src/a.py", "python"),
        ("ts", "a.py", "typescript"),
        ("Python", "", "python"),
        ("klingon", "a.py", None),
        (None, "Dockerfile", "docker"),
        (None, "README", None),
        ("../../etc/passwd", "", None),
    ],
)
def test_the_language_is_taken_from_the_agent_or_the_file_name(
    said: str | None, path: str, language: str | None
) -> None:
    assert language_of(said, path) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_highlighting_preserves_the_text_in_every_language(language: str) -> None:
    text = "\n\nif x == 'a' { return 1 } # no\n\t/* \n */ <a b='c'>\n"
    assert ParsedHtml(code(text, language).html).text == text


def test_a_multiline_string_is_split_into_separate_lines() -> None:
    assert str(code('a = """\nb\n"""\n', "python").html).count('class="line"') == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = 1\n" * (MAX_HIGHLIGHTED // 6 + 1), "longer than 50 KiB"), ("x" * (MAX_LINE + 1), "a line has more than")],
)
def test_code_too_long_to_highlight_has_a_note(text: str, why: str) -> None:
    shown = code(text, "python")
    assert why in shown.notes[0]
    assert "t-" not in shown.html


def test_code_too_slow_to_highlight_has_a_note() -> None:
    shown = code("x = 1\n", "python", patience=-1)
    assert (shown.hurried, shown.notes) == (
        True,
        ("Shown without highlighting because highlighting would take too long.",),
    )


@pytest.mark.parametrize("language", ["c", "java", "typescript", "yaml", "rust", "terraform"])
@pytest.mark.parametrize("mark", ["/", "\n ", "a.", "/*\n", "@", "0"])
@pytest.mark.timeout(60)
def test_pathological_code_is_highlighted_in_bounded_time(language: str, mark: str) -> None:
    for text in ((mark * MAX_LINE)[: MAX_LINE - 1] + "\n", mark * (MAX_HIGHLIGHTED // len(mark))):
        code(text, language)
