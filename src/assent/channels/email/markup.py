"""Markdown of an agent as HTML for a letter: layout only, no link, no picture and no markup of the agent's own."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

MAX_NESTING = 20
TAGS = {
    "blockquote", "br", "code", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip


def as_markup(text: str) -> str:
    """Lay out a text that hides nothing; what the layout does not know is shown as it was written."""
    html: str = _parser.render(text)
    return nh3.clean(html, tags=TAGS, attributes={}, clean_content_tags=set(), link_rel=None)


def _heading_open(*_: object) -> str:
    # The letter has one heading of its own; the agent's are bold lines.
    return "<p><strong>"


def _heading_close(*_: object) -> str:
    return "</strong></p>\n"


def _link_close(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Mapping[str, Any]
) -> str:
    """Show where a link leads instead of making one: the only link of a letter is ours."""
    del renderer, options, env
    opened, depth = index, 0
    while opened >= 0:
        depth += {"link_close": 1, "link_open": -1}.get(tokens[opened].type, 0)
        if depth == 0:
            break
        opened -= 1
    target = str(tokens[opened].attrGet("href") or "")
    label = "".join(each.content for each in tokens[opened + 1 : index])
    return "" if label == target else f" ({escape(target)})"


def _image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Mapping[str, Any]
) -> str:
    del renderer, options, env
    return f"[{escape(tokens[index].content)}]"


def _nothing(*_: object) -> str:
    return ""


def _made() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": MAX_NESTING})
    made.enable(["table", "strikethrough"])
    rules: dict[str, Callable[..., str]] = {
        "heading_open": _heading_open,
        "heading_close": _heading_close,
        "link_open": _nothing,
        "link_close": _link_close,
        "image": _image,
    }
    for name, rule in rules.items():
        made.add_render_rule(name, rule)
    return made


_parser = _made()
