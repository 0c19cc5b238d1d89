"""Renders Markdown as safe HTML, without raw HTML or external images, and with visible link targets."""

import re
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup

from assent.core.safe_text import visible
from assent.web.rendering import code
from assent.web.rendering.code import highlighted, language_of, plain
from assent.web.rendering.rendered import Rendered, TooSlow

PATIENCE = 1.0
"""Timeout for rendering in seconds."""
MAX_NESTING = 50
SHIFT = 2
"""The page itself uses the first two heading levels."""
DEEPEST = 6
TAGS = {
    "a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
CLASSES = {
    "div": {"wide"},
    "span": {"target", "inert", "picture", *filter(None, code.CLASSES.values())},
    "td": {"left", "center", "right"},
    "th": {"left", "center", "right"},
    "pre": {"code"},
}
SCHEMES = {"http", "https", "mailto"}
# Only URLs that all browsers parse in the same way: no user name, no backslash, no non-ASCII host.
_WEB = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?=[/?#]|$)", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[^\s<>\"\\]+$", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\](?=\s)")


def markdown(text: str, *, patience: float = PATIENCE) -> Rendered:
    """Render a document; if it is nested too deeply or takes too long, show it as plain text."""
    shown = visible(text, scripts=False)
    env: dict[str, Any] = {"until": time.monotonic() + patience}
    try:
        tokens = _parser.parse(shown, env)
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            return _as_text(visible(text), "it is nested too deeply.")
        _rework(tokens)
        html: str = _parser.renderer.render(tokens, _parser.options, env)
    except TooSlow:
        return _as_text(visible(text), "rendering it would take too long.", hurried=True)
    return Rendered(_cleaned(html), tuple(_left_out(shown, tokens, env)))


def _left_out(text: str, tokens: Sequence[Token], env: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes about parts of the document that Markdown does not render."""
    if env.get("references"):
        yield "Link definitions are shown only in the source."
    lines, columns = text.split("\n"), 0
    for token in tokens:
        if token.type == "thead_open" and token.map:
            columns = len(_cells(lines[token.map[0]]))
        if token.type == "tr_open" and token.map and len(_cells(lines[token.map[0]])) > columns:
            yield "A table row has more cells than the table has columns. The extra cells are shown only in the source."
            return


def _cells(line: str) -> list[str]:
    return escapedSplit(line.lstrip(" >\t-*+").strip().strip("|"))


def _as_text(text: str, why: str, *, hurried: bool = False) -> Rendered:
    return Rendered(
        Markup('<pre class="lines">%s</pre>') % plain(text), (f"Shown as plain text because {why}",), hurried
    )


def _cleaned(html: str) -> Markup:
    """Remove all elements and attributes that are not on the allowlists, independently of the previous steps."""
    return Markup(  # noqa: S704  # nh3 makes it safe
        nh3.clean(
            html,
            tags=TAGS,
            attributes={"a": {"href"}, "ol": {"start"}, "div": {"tabindex"}},
            allowed_classes=CLASSES,
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}},
            strip_comments=True,
        )
    )


def _rework(tokens: list[Token]) -> None:
    _shift_headings(tokens)
    for place, token in enumerate(tokens):
        if token.type in {"th_open", "td_open"}:
            _align(token)
            if token.tag == "th" and not tokens[place + 1].content.strip():
                token.tag = tokens[place + 2].tag = "td"
        if token.type in {"fence", "code_block"}:
            token.content = visible(token.content)
        if token.type == "inline":
            if place > 1 and tokens[place - 2].type == "list_item_open":
                _mark_task(token)
            token.children = list(_reworked(token.children or []))


def _shift_headings(tokens: list[Token]) -> None:
    """Move headings below the page's own levels, without skipping a level."""
    above = SHIFT
    for place, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        level = min(int(token.tag[1]) + SHIFT, above + 1, DEEPEST)
        empty = not tokens[place + 1].content.strip()
        token.tag = tokens[place + 2].tag = "p" if empty else f"h{level}"
        above = above if empty else level


def _align(token: Token) -> None:
    # Use classes, because the content security policy blocks inline styles.
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrs["class"] = style.removeprefix("text-align:")


def _mark_task(token: Token) -> None:
    first = token.children[0] if token.children else None
    found = _TASK.match(first.content) if first and first.type == "text" else None
    if first and found:
        first.content = ("☐" if found.group(1) == " " else "☑") + first.content[found.end() :]


def _reworked(children: Sequence[Token]) -> Iterator[Token]:
    """Show hidden characters that were written as entities, replace images with text, and show link targets."""
    closing = Markup()
    for place, child in enumerate(children):
        if child.type == "image":
            yield _ours(_picture(child))
        elif child.type == "link_open":
            opening, closing = _link(children, place)
            yield _ours(opening)
        elif child.type == "link_close":
            yield _ours(closing)
        else:
            child.content = visible(child.content)
            yield child


def _ours(html: Markup) -> Token:
    return Token("html_inline", "", 0, content=html)


def _picture(child: Token) -> Markup:
    address, words = visible(child.attrs.get("src", "")), visible(child.content)
    return Markup('<span class="picture">[image not loaded: %s %s%s]</span>') % (words, address, _title(child))


def _title(child: Token) -> str:
    title = child.attrs.get("title")
    return f" “{visible(title)}”" if title else ""


def _link(children: Sequence[Token], opened: int) -> tuple[Markup, Markup]:
    """Return the opening and closing HTML of a link; the target is shown if it differs from the text."""
    href = str(children[opened].attrs.get("href", ""))
    closed = next(n for n in range(opened, len(children)) if children[n].type == "link_close")
    text = "".join(child.content for child in children[opened + 1 : closed]).strip()
    title = _title(children[opened])
    web = _WEB.match(href)
    if not web and not _MAIL.match(href):
        beside = Markup(' <span class="target">(%s%s)</span>') % (visible(href), title) if text != href else ""
        return Markup('<span class="inert">'), Markup("</span>%s") % beside
    target = web.group(1).lower() if web else href.partition(":")[2]
    same = not title and text.rstrip("/") in {href.rstrip("/"), href.removeprefix("mailto:")}
    beside = Markup("") if same else Markup(' <span class="target">(%s%s)</span>') % (visible(target), title)
    return Markup('<a href="%s">') % href, Markup("%s</a>%s") % ("" if text else href, beside)


def _watch_inline(state: StateInline, _: bool) -> bool:  # noqa: FBT001
    return _watch(state.env)


def _watch_block(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:  # noqa: FBT001
    return _watch(state.env)


def _watch(env: MutableMapping[str, Any]) -> bool:
    """Check the timeout before every rule, because some texts take quadratic time."""
    if time.monotonic() > env["until"]:
        raise TooSlow
    return False


def _fence(_: RendererHTML, tokens: Sequence[Token], place: int, _options: OptionsDict, env: Any) -> str:  # noqa: ANN401
    token = tokens[place]
    info = visible(token.info).strip()
    language = language_of(info.split()[0] if info else None)
    said = Markup('<p><span class="target">%s</span></p>') % info if info and (not language or " " in info) else ""
    inside = highlighted(visible(token.content), language, until=env["until"])
    return str(Markup('%s<pre class="code"><code>%s</code></pre>\n') % (said, inside))


def _table_open(*_: object) -> str:
    # With tabindex, keyboard users can scroll a wide table.
    return '<div class="wide" tabindex="0"><table>\n'


def _table_close(*_: object) -> str:
    return "</table></div>\n"


def _build() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False, "maxNesting": MAX_NESTING})
    # Only complete URLs become links; otherwise, file names such as setup.py would be parsed as host names.
    linkify: Any = parser.linkify
    linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    parser.inline.ruler.before("text", "watch", _watch_inline)
    parser.block.ruler.before("table", "watch", _watch_block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    return parser


_parser = _build()
