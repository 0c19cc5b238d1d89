"""Renders an agent's Markdown as HTML for emails: layout only, without links, images or raw HTML."""

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
    """Render Markdown in which hidden characters are already visible; unsupported syntax is shown unchanged."""
    html: str = _parser.render(text)
    # The renderer already omits links, images and HTML; the sanitizer is a second line of defense.
    return nh3.clean(html, tags=TAGS, attributes={}, clean_content_tags=set(), link_rel=None)


def _heading_open(*_: object) -> str:
    # The only heading in an email is its title, so headings in agent text become bold lines.
    return "<p><strong>"


def _heading_close(*_: object) -> str:
    return "</strong></p>\n"


def _link_close(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Mapping[str, Any]
) -> str:
    """Show a link's target as text; only our own links are clickable."""
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
