"""Markdown is rendered correctly, and its links never hide their targets."""

import pytest

from assent.web.rendering.markdown import MAX_NESTING, markdown
from tests.web.corpus import FALSE_LINKS
from tests.web.rendering.reading import ParsedHtml

N = 64 * 1024


def made(text: str) -> str:
    return str(markdown(text).html).strip()


def test_headings_start_below_the_pages_headings_and_skip_no_levels() -> None:
    made_of = ParsedHtml(made("# a\n\n### b\n\n# c\n\n###### d\n\n#"))
    assert [tag for tag in made_of.tags if tag.startswith("h")] == ["h3", "h4", "h3", "h4"]


def test_task_list_items_are_rendered_with_checkbox_symbols() -> None:
    text = ParsedHtml(made("- [x] done\n- [ ] open\n- [y] neither")).text
    assert "☑ done" in text
    assert "☐ open" in text
    assert "[y] neither" in text


def test_raw_html_from_agents_is_rendered_as_text() -> None:
    assert "&lt;b onclick=x&gt;" in made("<b onclick=x>bold</b>")


@pytest.mark.parametrize(("text", "beside"), FALSE_LINKS.items())
def test_a_link_shows_its_target_if_its_text_differs(text: str, beside: str) -> None:
    assert beside in ParsedHtml(made(text)).text


@pytest.mark.parametrize(
    "text", ["https://a.example/x", "<https://a.example>", "[https://a.example/](https://a.example)"]
)
def test_a_url_that_is_its_own_link_text_is_shown_once(text: str) -> None:
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
def test_links_with_disallowed_targets_are_rendered_as_text(address: str) -> None:
    made_of = ParsedHtml(made(f"[words]({address})"))
    assert made_of.hrefs == []
    assert f"words ({address})" in made_of.text


def test_a_link_without_text_shows_its_url() -> None:
    assert ParsedHtml(made("[](https://a.example)")).text.strip() == "https://a.example (a.example)"


def test_images_are_described_but_not_loaded() -> None:
    assert ParsedHtml(made("![a chart](https://evil.example/p.png)")).text.strip() == (
        "[image not loaded: a chart https://evil.example/p.png]"
    )


def test_column_alignment_works_without_inline_styles() -> None:
    html = made("| a | b |\n|:-:|--:|\n| 1 | 2 |")
    assert '<th class="center">a</th>' in html
    assert '<td class="right">2</td>' in html


def test_highlighting_classes_cannot_clash_with_the_pages_classes() -> None:
    assert '<span class="t-k">def</span>' in made("```python\ndef f(): ...\n```")
    assert '<span class="t-sr">' in made("```js\nx = /secret/;\n```")


def test_code_in_an_unknown_language_is_not_highlighted() -> None:
    html = made("```klingon\n<b>\n```")
    assert html.endswith('<pre class="code"><code>&lt;b&gt;\n</code></pre>')
    assert "klingon" in html


def test_link_and_image_titles_and_code_info_strings_are_shown() -> None:
    for text in ("[a](https://a.example 'beside')", "![a](b 'beside')", "[a](b 'beside')", "```py beside\n```"):
        assert "beside" in ParsedHtml(made(text)).text, text


@pytest.mark.parametrize(("row", "told"), [("| 1 | 2 |", 0), ("1 | 2", 0), ("| 1 |", 0), ("| 1 | 2 | hidden |", 1)])
def test_table_cells_beyond_the_last_column_are_reported(row: str, told: int) -> None:
    assert len(markdown(f"| a | b |\n|---|---|\n{row}").notes) == told


def test_link_definitions_that_are_not_rendered_are_reported() -> None:
    assert markdown("a\n\n[//]: # (hidden)").notes == ("Link definitions are shown only in the source.",)


def test_a_document_nested_too_deeply_is_shown_as_plain_text() -> None:
    shown = markdown("> " * (MAX_NESTING + 5) + "the point")
    assert shown.notes == ("Shown as plain text because it is nested too deeply.",)
    assert "the point" in shown.html


def test_a_document_that_takes_too_long_is_shown_as_plain_text() -> None:
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
def test_pathological_documents_are_rendered_in_bounded_time(text: str) -> None:
    ParsedHtml(markdown(text).html)
