"""Markdown reads as it was meant, and leads nowhere it does not say."""

import pytest

from assent.web.rendering.markdown import MAX_NESTING, markdown
from tests.web.corpus import FALSE_LINKS
from tests.web.rendering.reading import Made

N = 64 * 1024


def made(text: str) -> str:
    return str(markdown(text).html).strip()


def test_headings_stand_below_those_of_the_page_and_skip_no_level() -> None:
    made_of = Made(made("# a\n\n### b\n\n# c\n\n###### d\n\n#"))
    assert [tag for tag in made_of.tags if tag.startswith("h")] == ["h3", "h4", "h3", "h4"]


def test_tasks_are_told_in_signs() -> None:
    text = Made(made("- [x] done\n- [ ] open\n- [y] neither")).text
    assert "☑ done" in text
    assert "☐ open" in text
    assert "[y] neither" in text


def test_markup_of_the_agents_own_is_text() -> None:
    assert "&lt;b onclick=x&gt;" in made("<b onclick=x>bold</b>")


@pytest.mark.parametrize(("text", "beside"), FALSE_LINKS.items())
def test_a_link_says_where_it_leads_when_its_text_does_not(text: str, beside: str) -> None:
    assert beside in Made(made(text)).text


@pytest.mark.parametrize(
    "text", ["https://a.example/x", "<https://a.example>", "[https://a.example/](https://a.example)"]
)
def test_a_link_that_is_its_own_text_is_not_told_twice(text: str) -> None:
    assert "target" not in made(text).replace('target="_blank"', "")


@pytest.mark.parametrize(
    "address",
    [
        "docs/plan.md",
        "/breakpoints/x",
        "//evil.example",
        "ftp://a.example",
        "https://bank.example@evil.example",
        "#top",
        "?a=b",
    ],
)
def test_a_link_to_anywhere_else_is_only_told(address: str) -> None:
    made_of = Made(made(f"[words]({address})"))
    assert made_of.hrefs == []
    assert f"words ({address})" in made_of.text


def test_a_link_without_words_shows_its_address() -> None:
    assert Made(made("[](https://a.example)")).text.strip() == "https://a.example (a.example)"


def test_pictures_are_told_and_not_loaded() -> None:
    assert Made(made("![a chart](https://evil.example/p.png)")).text.strip() == (
        "[image not loaded: a chart https://evil.example/p.png]"
    )


def test_columns_keep_their_side_without_a_style() -> None:
    html = made("| a | b |\n|:-:|--:|\n| 1 | 2 |")
    assert '<th class="center">a</th>' in html
    assert '<td class="right">2</td>' in html


def test_code_is_highlighted_by_classes_that_cannot_be_the_pages_own() -> None:
    assert '<span class="t-k">def</span>' in made("```python\ndef f(): ...\n```")
    assert '<span class="t-sr">' in made("```js\nx = /secret/;\n```")


def test_code_of_no_known_language_is_shown_plain() -> None:
    html = made("```klingon\n<b>\n```")
    assert html.endswith('<pre class="code"><code>&lt;b&gt;\n</code></pre>')
    assert "klingon" in html


def test_what_stands_beside_a_link_a_picture_or_code_is_shown() -> None:
    for text in ("[a](https://a.example 'beside')", "![a](b 'beside')", "[a](b 'beside')", "```py beside\n```"):
        assert "beside" in Made(made(text)).text, text


@pytest.mark.parametrize(("row", "told"), [("| 1 | 2 |", 0), ("1 | 2", 0), ("| 1 |", 0), ("| 1 | 2 | hidden |", 1)])
def test_cells_beyond_the_columns_are_told(row: str, told: int) -> None:
    assert len(markdown(f"| a | b |\n|---|---|\n{row}").notes) == told


def test_what_only_the_source_shows_is_told() -> None:
    assert markdown("a\n\n[//]: # (hidden)").notes == ("Link definitions are shown only in the source.",)


def test_what_is_nested_too_deeply_is_shown_as_text() -> None:
    shown = markdown("> " * (MAX_NESTING + 5) + "the point")
    assert shown.notes == ("Shown as plain text because it is nested too deeply.",)
    assert "the point" in shown.html


def test_what_takes_too_long_is_shown_as_text() -> None:
    shown = markdown("# *a* [b](c)", patience=-1)
    assert shown.hurried
    assert shown.notes == ("Shown as plain text because rendering it would take too long.",)
    assert "# *a* [b](c)" in shown.html


PATHOLOGICAL = {
    "brackets": "[" * N,
    "pictures": "![" * (N // 2),
    "links in links": "[[a](" * (N // 5),
    "emphasis": "*a_" * (N // 3),
    "quotes": "> " * (N // 2) + "x",
    "lists": "- " * (N // 2),
    "ticks": "".join("`" * n + "a" for n in range(1, 360)),
    "rows": "a|b\n-|-\n" + "x\n" * (N // 2),
    "autolinks": "<http://a" * (N // 9),
    "definitions": "[" + "a\n" * (N // 2),
    "one line": "a" * (1024 * 1024),
    "words in one line": "a *b* " * (N // 6),
    "entities": "&#x41;" * (N // 6),
    "code blocks": "```py\ndef\n```\n" * (N // 14),
}


@pytest.mark.parametrize("text", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
@pytest.mark.timeout(60)
def test_no_text_is_laid_out_for_ever(text: str) -> None:
    Made(markdown(text).html)
