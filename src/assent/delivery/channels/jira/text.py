"""Converts text to Jira's formats (Atlassian Document Format on Cloud, wiki markup on Data Center) and back.

Text from agents is escaped, so that nothing in it becomes a link, a mention or a macro.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

from assent.core.canonical import Json, is_array, is_object
from assent.delivery.channels.wording import Fact

Node: TypeAlias = dict[str, Any]
_MARKS = {"strong_open": "strong", "em_open": "em", "s_open": "strike"}
_WIKI = re.compile(r"[\\&{}\[\]*_^~+|!#?@()<>-]")
_SPELT = {"&": "&amp;", "\\": "&#92;"}
_DEEPEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The contents of an issue or a comment, independent of the format."""

    lead: str
    question: str = ""
    facts: Sequence[Fact] = ()
    link: tuple[str, str] | None = None
    mention: str | None = None
    """The Jira account to mention."""
    reference: str = ""
    """Identifies the comment, so that a retry can detect that it already exists."""


def document(body: Body) -> Node:
    """Return the body as an Atlassian document."""
    called = [{"type": "mention", "attrs": {"id": body.mention}}, _text(" ")] if body.mention else []
    parts = [_paragraph([*called, _text(body.lead)])]
    if body.link is not None:
        words, url = body.link
        marks = [{"type": "link", "attrs": {"href": url}}]
        parts.append(_paragraph([{"type": "text", "text": words, "marks": marks}]))
    parts += converted(body.question)
    if body.facts:
        items = [_item(_paragraph([_text(f"{each.label}: ", "strong"), _text(each.value)])) for each in body.facts]
        parts.append({"type": "bulletList", "content": items})
    if body.reference:
        parts.append(_paragraph([_text(body.reference, "code")]))
    return {"type": "doc", "version": 1, "content": parts}


def wiki(body: Body) -> str:
    """Return the body as wiki markup; only our own text contains markup."""
    # Remove characters that could end the mention and start other markup.
    called = f"[~{re.sub(r'[^A-Za-z0-9._@-]', '', body.mention)}] " if body.mention else ""
    parts = [
        f"{called}{wiki_escaped(body.lead)}",
        f"[{wiki_escaped(body.link[0])}|{body.link[1]}]" if body.link else "",
        wiki_escaped(body.question),
        "\n".join(f"* *{wiki_escaped(each.label)}:* {wiki_escaped(each.value)}" for each in body.facts),
        body.reference,
    ]
    return "\n\n".join(each for each in parts if each)


def wiki_escaped(text: str) -> str:
    # Two backslashes are a line break in wiki markup, so a backslash in the text becomes an entity.
    escaped = _WIKI.sub(lambda found: _SPELT.get(found[0], f"\\{found[0]}"), text)
    return re.sub(r"^(\s*)(h[1-6]|bq)\.", r"\1\2&#46;", escaped, flags=re.MULTILINE)


def plain(body: Json) -> str:
    """Return the plain text of a comment in either format."""
    if isinstance(body, str):
        return body.strip()
    return "".join(_words(body, 0)).strip() if is_object(body) else ""


def _words(node: Json, depth: int) -> Iterator[str]:
    if not is_object(node) or depth > _DEEPEST:
        return
    text: Json = node.get("text")
    if isinstance(text, str):
        yield text
    if node.get("type") == "hardBreak":
        yield "\n"
    inside: Json = node.get("content")
    for each in inside if is_array(inside) else ():
        # The depth is limited, because comments can be nested deeply enough to overflow the stack.
        yield from _words(each, depth + 1)
    if node.get("type") in {"paragraph", "heading", "codeBlock", "listItem"}:
        yield "\n"


def converted(markdown: str) -> list[Node]:
    """Convert an agent's Markdown to document blocks; unsupported blocks become paragraphs."""
    return _Builder(_parser().parse(markdown)).blocks()


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable("strikethrough")


class _Builder:
    """Converts Markdown tokens to document blocks in a single pass."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def blocks(self, until: str = "") -> list[Node]:
        found: list[Node] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == until:
                break
            found += self._block(token)
        return found

    def _block(self, token: Token) -> list[Node]:
        found: list[Node]
        match token.type:
            case "heading_open":
                found = [_paragraph([_strong(each) for each in self._inline("heading_close")])]
            case "paragraph_open":
                found = [_paragraph(self._inline("paragraph_close"))]
            case "fence" | "code_block":
                found = [{"type": "codeBlock", "content": [_text(token.content.rstrip("\n") or " ")]}]
            case "bullet_list_open" | "ordered_list_open":
                found = self._list(token)
            case "blockquote_open":
                found = _quotation(self.blocks("blockquote_close"))
            case "hr":
                found = [{"type": "rule"}]
            case "inline":
                found = [_paragraph(list(_inline(token)))]
            case _:
                found = [_paragraph([_text(token.content)])] if token.content.strip() else []
        return found

    def _list(self, token: Token) -> list[Node]:
        kind = "bulletList" if token.type == "bullet_list_open" else "orderedList"
        items: list[Node] = []
        while self._at < len(self._tokens):
            each = self._tokens[self._at]
            self._at += 1
            if each.type == token.type.replace("open", "close"):
                break
            if each.type == "list_item_open":
                items.append(_item(*(_in_item(block) for block in self.blocks("list_item_close"))))
        return [{"type": kind, "content": items}] if items else []

    def _inline(self, until: str) -> list[Node]:
        return [each for block in self.blocks(until) for each in block.get("content", [])]


def _quotation(inside: Sequence[Node]) -> list[Node]:
    """Return a quotation of the paragraphs, followed by all other blocks, which a quotation cannot contain."""
    quoted = [each for each in inside if each["type"] == "paragraph"]
    others = [each for each in inside if each["type"] != "paragraph"]
    return [{"type": "blockquote", "content": quoted}, *others] if quoted else others


def _in_item(block: Node) -> Node:
    """Return a block that a list item can contain; quotations and rules become paragraphs."""
    if block["type"] in {"paragraph", "bulletList", "orderedList", "codeBlock"}:
        return block
    return _paragraph([_text(plain(block) or "—")])


def _inline(token: Token) -> Iterator[Node]:
    marks: list[str] = []
    targets: list[str] = []
    for child in token.children or ():
        if child.type in _MARKS:
            marks.append(_MARKS[child.type])
        elif child.type == "link_open":
            targets.append(str(child.attrs.get("href", "")))
        elif child.type == "link_close":
            # Show the target as text, because only our own link may be clickable.
            yield _text(f" ({targets.pop()})", *marks)
        elif child.type.endswith("_close"):
            marks.pop()
        else:
            yield from _leaf(child, marks)


def _leaf(child: Token, marks: Sequence[str]) -> Iterator[Node]:
    if child.type in {"softbreak", "hardbreak"}:
        yield {"type": "hardBreak"}
    elif child.type == "image":
        yield _text(f"{child.content} ({child.attrs.get('src', '')})", *marks)
    elif child.content:
        # The document format does not allow other marks on code.
        yield _text(child.content, *(("code",) if child.type == "code_inline" else marks))


def _text(text: str, *marks: str) -> Node:
    node: Node = {"type": "text", "text": text}
    return node | {"marks": [{"type": each} for each in dict.fromkeys(marks)]} if marks else node


def _strong(node: Node) -> Node:
    held = [each["type"] for each in node.get("marks", [])]
    if node["type"] != "text" or "code" in held:
        return node
    return _text(node["text"], *held, "strong")


def _paragraph(content: Sequence[Node]) -> Node:
    return {"type": "paragraph", "content": [each for each in content if each.get("text") != ""]}


def _item(*blocks: Node) -> Node:
    """Return a list item; it must begin with a paragraph, so an empty one is added if necessary."""
    first = [] if blocks and blocks[0]["type"] == "paragraph" else [_paragraph([])]
    return {"type": "listItem", "content": [*first, *blocks]}
