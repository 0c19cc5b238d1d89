"""Saved views: named query strings for the inbox."""

from dataclasses import dataclass

from assent.core.errors import InvalidRequest

LONGEST_NAME = 60
LONGEST_QUERY = 2_000
MOST = 50


@dataclass(frozen=True, slots=True)
class SavedView:
    name: str
    query: str
    at: int


def saved_view(name: str, query: str, *, at: int) -> SavedView:
    """Validate a view; remove whitespace around its name and a leading question mark from its query."""
    name, query = name.strip(), query.removeprefix("?")
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidRequest.at("/name", f"must be 1 to {LONGEST_NAME} visible characters")
    if len(query) > LONGEST_QUERY or not all("!" <= character <= "~" for character in query) or "#" in query:
        what = f"must be a URL query string of at most {LONGEST_QUERY} characters"
        raise InvalidRequest.at("/query", what)
    return SavedView(name, query, at)
