"""Renders JSON as a collapsible tree; numbers keep their original notation."""

import json
from typing import Any, TypeAlias

from markupsafe import Markup

from assent.core.safe_text import visible
from assent.web.rendering.code import plain
from assent.web.rendering.rendered import Rendered

MAX_MEMBERS = 100
MAX_NODES = 2_000
MAX_DEPTH = 12
OPEN_DEPTH = 2
OPEN_MEMBERS = 20


class _Object(list[tuple[str, Any]]):
    """Members in their original order, including duplicate names."""


class _Number(str):
    """A number in its original notation, without rounding."""

    __slots__ = ()


Value: TypeAlias = _Object | list[Any] | str | bool | None


class _Tree:
    def __init__(self) -> None:
        self.left = MAX_NODES
        self.cut = False

    def node(self, name: Markup, value: "Value", depth: int) -> Markup:
        self.left -= 1
        if isinstance(value, list) and value:
            return self._branch(name, value, depth)
        return Markup("%s%s") % (name, _leaf(value))

    def _branch(self, name: Markup, value: list[Any], depth: int) -> Markup:
        is_object = isinstance(value, _Object)
        count = len(value)
        what = ("member" if is_object else "item") + ("" if count == 1 else "s")
        opened = Markup(" open") if depth < OPEN_DEPTH and count <= OPEN_MEMBERS else Markup("")
        return Markup('<details%s><summary>%s<span class="count">%s %s %s</span></summary>%s</details>') % (
            opened, name, "{…}" if is_object else "[…]", f"{count:,}", what, self._members(value, depth),
        )  # fmt: skip

    def _members(self, value: list[Any], depth: int) -> Markup:
        shown = 0 if depth >= MAX_DEPTH else min(len(value), MAX_MEMBERS)
        rows: list[Markup] = []
        for n, member in enumerate(value[:shown]):
            if self.left <= 0:
                break
            key, inner = member if isinstance(value, _Object) else (str(n), member)
            name = Markup('<bdi class="key">%s</bdi>: ') % (_quoted(key) if isinstance(value, _Object) else key)
            rows.append(Markup("<li>%s</li>") % self.node(name, inner, depth + 1))
        if len(rows) < len(value):
            self.cut = True
            left = f"{len(value) - len(rows):,}"
            rows.append(Markup("<li><strong>… %s more; see the source or the full file</strong></li>") % left)
        return Markup("<ul>%s</ul>") % Markup().join(rows)


def json_tree(text: str) -> Rendered:
    """Render a JSON document; invalid JSON is shown as text with a note."""
    try:
        value = json.loads(
            text, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number, parse_constant=_Number
        )
    except (ValueError, RecursionError):  # the parser recurses once per level of nesting
        return Rendered(Markup('<pre class="lines">%s</pre>') % plain(visible(text)), ("This is not valid JSON.",))
    tree = _Tree()
    html = Markup('<div class="tree">%s</div>') % tree.node(Markup(""), value, 0)
    return Rendered(html, ("The tree shows only part of the content.",) if tree.cut else ())


def _leaf(value: Value) -> Markup:
    if isinstance(value, _Number):
        return Markup('<span class="t-mi">%s</span>') % visible(value)
    if isinstance(value, str):
        return Markup('<bdi class="t-s">%s</bdi>') % _quoted(value)
    word = "{}" if isinstance(value, _Object) else json.dumps(value)
    return Markup('<span class="t-kc">%s</span>') % word


def _quoted(text: str) -> str:
    return visible(json.dumps(text, ensure_ascii=False))
