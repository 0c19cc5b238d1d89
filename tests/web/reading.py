"""Parses the elements, forms and text of a page as a browser does."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "img", "br", "circle", "path"})


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict[str, str])


class Page(HTMLParser):
    """The contents of a page; fails if its elements are not closed in the correct order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.forms: list[Form] = []
        self.text = ""
        self.wrapped: list[dict[str, str]] = []
        """Controls that are nested in their labels."""
        self._open: list[str] = []
        self._suggested: dict[str, set[str]] = {}
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert len(attributes) == len(attrs), f"an attribute twice in <{tag}>: {attrs}"
        self.elements.append((tag, attributes))
        if "label" in self._open:
            self.wrapped.append(attributes)
        if tag == "datalist":
            self._suggested[attributes["id"]] = set()
        if tag == "option" and "datalist" in self._open:
            self._suggested[[*self._suggested][-1]].add(attributes["value"])
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form":
            self.forms.append(Form(attributes.get("action", ""), attributes["method"]))
        if tag == "input" and attributes.get("type") == "hidden":
            self.forms[-1].fields[attributes["name"]] = attributes["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def structure(self) -> list[tuple[str, tuple[str, ...]]]:
        """The elements with the names of their attributes, without text and attribute values."""
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.elements]

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def form(self, action: str) -> Form:
        """Return the first form whose action, without its query, ends with `action`.

        The list's bulk form, which is on every page, matches only an action that starts with `/bulk`.
        """
        own = [form for form in self.forms if action.startswith("/bulk") or not form.action.startswith("/bulk")]
        return next(form for form in own if form.action.partition("?")[0].endswith(action))

    def suggestions(self, datalist: str) -> set[str]:
        return self._suggested[datalist]

    def links(self) -> list[str]:
        return [attributes["href"] for attributes in self.all("a")]
