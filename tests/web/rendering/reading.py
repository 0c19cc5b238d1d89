"""Parses rendered HTML as a browser does."""

import re
from html.parser import HTMLParser

TAGS = {
    "a", "blockquote", "br", "code", "details", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "bdi", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = frozenset({"class", "href", "rel", "target", "start", "tabindex", "open"})
VOID = frozenset({"br", "hr"})


class ParsedHtml(HTMLParser):
    """The parsed elements and text; fails on anything that is not on the allowlists."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.tags: list[str] = []
        self.hrefs: list[str] = []
        self._open: list[str] = []
        self.feed(str(html))
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name == "href":
                assert re.match(r"(https?://|mailto:)", value or "", re.IGNORECASE), value
                self.hrefs.append(value or "")
        if tag == "a":
            assert ("rel", "noopener noreferrer nofollow") in attrs, attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)
