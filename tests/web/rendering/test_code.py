"""Code is told by its lines, and highlighted where that is quick."""

import pytest

from assent.web.rendering.code import LANGUAGES, MAX_HIGHLIGHTED, MAX_LINE, code, language_of
from tests.web.rendering.reading import Made


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
def test_the_language_is_the_named_one_or_that_of_the_ending(said: str | None, path: str, language: str | None) -> None:
    assert language_of(said, path) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_highlighter_that_changes_no_letter(language: str) -> None:
    text = "\n\nif x == 'a' { return 1 } # no\n\t/* \n */ <a b='c'>\n"
    assert Made(code(text, language).html).text == text


def test_each_line_is_one() -> None:
    assert str(code('a = """\nb\n"""\n', "python").html).count('class="line"') == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = 1\n" * (MAX_HIGHLIGHTED // 6 + 1), "longer than 50 KiB"), ("x" * (MAX_LINE + 1), "a line has more than")],
)
def test_what_is_too_long_to_highlight_says_so(text: str, why: str) -> None:
    shown = code(text, "python")
    assert why in shown.notes[0]
    assert "t-" not in shown.html


def test_what_takes_too_long_to_highlight_says_so() -> None:
    shown = code("x = 1\n", "python", patience=-1)
    assert (shown.hurried, shown.notes) == (
        True,
        ("Shown without highlighting because highlighting would take too long.",),
    )


@pytest.mark.parametrize("language", ["c", "java", "typescript", "yaml", "rust", "terraform"])
@pytest.mark.parametrize("mark", ["/", "\n ", "a.", "/*\n", "@", "0"])
@pytest.mark.timeout(60)
def test_no_text_is_highlighted_for_ever(language: str, mark: str) -> None:
    for text in ((mark * MAX_LINE)[: MAX_LINE - 1] + "\n", mark * (MAX_HIGHLIGHTED // len(mark))):
        code(text, language)
