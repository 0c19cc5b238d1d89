"""Text for Jira: any agent text becomes a valid document with a single link and no mentions."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.delivery.channels.jira.text import Body, Node, converted, document, plain, wiki, wiki_escaped

BLOCKS = {"paragraph", "bulletList", "orderedList", "codeBlock", "blockquote", "rule"}
INSIDE = {
    "doc": BLOCKS,
    "paragraph": {"text", "hardBreak", "mention"},
    "bulletList": {"listItem"},
    "orderedList": {"listItem"},
    "listItem": {"paragraph", "bulletList", "orderedList", "codeBlock"},
    "codeBlock": {"text"},
    "blockquote": {"paragraph"},
}
MARKDOWN = st.lists(
    st.sampled_from(
        ["# ", "- ", "  - ", "1. ", "> ", "```\n", "    ", "\n", "\n\n", "**", "_", "`", "~~", "[", "](http://x)", "![",
         "---\n", "<b>", "@ann", "[~ann]", "{code}", "\\", "|", "word", " ", "&amp;", "***", "1) "]
    ),
    max_size=30,
).map("".join)  # fmt: skip


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for each in node.get("content", []):
        yield from nodes(each)


def check(node: Node) -> None:
    """Validate a document against the part of the Atlassian Document Format schema that we use."""
    for each in nodes(node):
        inside = each.get("content", [])
        assert all(child["type"] in INSIDE[each["type"]] for child in inside), each
        marks = {mark["type"] for mark in each.get("marks", [])}
        assert marks <= {"strong", "em", "strike", "code", "link"}
        assert "code" not in marks or len(marks) == 1
        if each["type"] == "text":
            assert each["text"]
        if each["type"] in {"bulletList", "orderedList", "blockquote", "listItem"}:
            assert inside
        if each["type"] == "listItem":
            assert inside[0]["type"] == "paragraph"
        if each["type"] == "codeBlock":
            assert all("marks" not in child for child in inside)


@given(MARKDOWN | st.text(max_size=200))
def test_any_text_is_converted_to_a_valid_document(text: str) -> None:
    made = document(Body(lead="An agent asks.", question=text, link=("Review", "https://assent.example.com/x")))
    check(made)
    links = [mark["attrs"] for each in nodes(made) for mark in each.get("marks", []) if mark["type"] == "link"]
    assert links == [{"href": "https://assent.example.com/x"}]
    assert not any(each["type"] == "mention" for each in nodes(made))


def test_headings_lists_quotes_and_code_keep_their_structure() -> None:
    text = "# Plan\n\nIt is **big** and `new`.\n\n1. one\n2. two\n   - inner\n\n> said\n\n```py\nx = 1\n```\n"
    made = converted(text)
    assert [each["type"] for each in made] == ["paragraph", "paragraph", "orderedList", "blockquote", "codeBlock"]
    assert made[0]["content"][0]["marks"] == [{"type": "strong"}]
    words = " ".join(plain({"type": "doc", "content": made}).split())
    assert words == "Plan It is big and new. one two inner said x = 1"


def test_link_targets_are_shown_as_text() -> None:
    made = converted("[click](http://evil.org) ![pic](http://evil.org/p.png)")
    assert plain(made[0]) == "click (http://evil.org) pic (http://evil.org/p.png)"


def test_only_our_own_text_can_mention_people() -> None:
    made = document(Body(lead="Hello", mention="acc-1"))
    assert made["content"][0]["content"][0] == {"type": "mention", "attrs": {"id": "acc-1"}}
    assert wiki(Body(lead="Hello", mention="ann]{code}")) == "[~anncode] Hello"


@given(st.text(max_size=100))
def test_escaped_wiki_text_contains_no_markup(text: str) -> None:
    escaped = wiki_escaped(text)
    assert not re.search(r"(?<!\\)[{}\[\]|!~@^+]", escaped)
    assert "\\\\" not in escaped
    assert not re.search(r"^\s*(h[1-6]|bq)\.", escaped, re.MULTILINE)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (" approve ", "approve"),
        (None, ""),
        ({"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "a"}]}]}, "a"),
        ({"content": [{"type": "text", "text": 7}, "x", None]}, ""),
        ([1], ""),
    ],
)
def test_comments_are_parsed_from_plain_text_and_documents(body: Any, words: str) -> None:
    assert plain(body) == words


def test_a_deeply_nested_document_is_read_without_overflowing_the_stack() -> None:
    deep: dict[str, Any] = {"type": "text", "text": "x"}
    for _ in range(5000):
        deep = {"type": "paragraph", "content": [deep]}
    assert plain(deep) == ""
