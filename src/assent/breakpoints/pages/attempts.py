"""A breakpoint's previous attempt: the feedback on it, and what the agent has changed since then."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from markupsafe import Markup

from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.attempts import Pair, Previous
from assent.core.breakpoint import Comment
from assent.core.plurals import plural
from assent.web.filters import file_size
from assent.web.rendering.cache import Cache
from assent.web.rendering.diff import diff
from assent.web.rendering.difference import difference
from assent.web.rendering.rendered import Rendered

VERSION = 1
KEPT_BYTES = 8 * 1024 * 1024
MAX_CHARACTERS = 256 * 1024
MAX_SHOWN_LINES = 2_000
# The question is compared separately. The other two fields differ in every attempt and are shown above the comparison.
_APART = frozenset({"question", "attempt", "previousFeedback"})
NOTHING = Markup()

_cache = Cache(KEPT_BYTES)


@dataclass(frozen=True, slots=True)
class Change:
    """A change, shown as a diff or a description."""

    what: str
    path: str = ""
    html: Markup = NOTHING
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    row: Whole
    said: Sequence[Comment]
    changes: Sequence[Change]
    compared: bool
    """False if the content of either attempt was purged, which makes a comparison impossible."""


def shown_attempt(found: Previous, row: Whole) -> ShownAttempt:
    """Compare two attempts. Do not call this function on the event loop, because it is slow."""
    compared = row.purged_at is None and found.row.purged_at is None
    changes = list(_changes(found, row)) if compared else []
    return ShownAttempt(found.row, found.comments, changes, compared)


def _changes(found: Previous, row: Whole) -> Iterator[Change]:
    before: dict[str, Any] = msgspec.json.decode(found.row.payload)
    after: dict[str, Any] = msgspec.json.decode(row.payload)
    questions = str(before.get("question") or ""), str(after.get("question") or "")
    if questions[0] != questions[1]:
        yield _compared("Question", *(f"{question}\n" for question in questions))
    told = _told(found.row, before), _told(row, after)
    if told[0] != told[1]:
        yield _compared("Other content", *told)
    for pair in found.pairs:
        if pair.changed:
            yield _file(pair)


def _told(row: Whole, payload: Mapping[str, Any]) -> str:
    """Return the content, without the question and files, as formatted JSON with sorted keys."""
    rest = {name: value for name, value in payload.items() if name not in _APART}
    context = rest.get("context")
    if isinstance(context, dict):
        rest["context"] = {name: value for name, value in context.items() if name != "files"}  # pyright: ignore[reportUnknownVariableType]
    outside = {"agentId": row.agent_id, "title": row.title, "tags": msgspec.json.decode(row.tags), "risk": row.risk}
    named = rest | {name: value for name, value in outside.items() if value}
    return msgspec.json.format(msgspec.json.encode(named, order="sorted"), indent=2).decode() + "\n"


def _file(pair: Pair) -> Change:
    before, after = pair.before, pair.after
    if before is None or after is None:
        there = before or after
        assert there is not None, "a pair has at least one side"
        size = file_size(there.size) if there.size is not None else "not provided"
        return Change("File removed" if after is None else "New file", there.path, notes=(size,))
    notes = (f"The format changed from {before.format} to {after.format}.",) if before.format != after.format else ()
    if before.sha256 == after.sha256:
        return Change("File", after.path, notes=notes)
    if pair.contents is None:
        return Change("File", after.path, notes=(*notes, _why_not(pair)))
    texts = (content.decode(errors="replace") for content in pair.contents)
    return _compared("File", *texts, path=after.path, notes=notes)


def _why_not(pair: Pair) -> str:
    assert pair.before is not None, "the file is in both attempts"
    assert pair.after is not None, "the file is in both attempts"
    if pair.after.sha256 is None:
        return "Provided last time, but not this time."
    if pair.before.sha256 is None:
        return "Not provided last time."
    sizes = f"{file_size(pair.before.size or 0)} before, {file_size(pair.after.size or 0)} now"
    return f"Changed ({sizes}). The file is not text or is too long to compare here."


def _compared(what: str, before: str, after: str, *, path: str = "", notes: tuple[str, ...] = ()) -> Change:
    made = _cache.get((_hash(before), _hash(after), VERSION), lambda: _difference(before, after))
    return Change(what, path, made.html, (*notes, *made.notes))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _difference(before: str, after: str) -> Rendered:
    found = difference(before, after) if max(len(before), len(after)) <= MAX_CHARACTERS else None
    if found is None:
        return Rendered(NOTHING, ("Changed, but too long to compare here.",))
    if not found:
        return Rendered(NOTHING, ("Only bytes that do not affect the text have changed.",))
    lines = found.split("\n")
    made = diff("\n".join(lines[:MAX_SHOWN_LINES]))
    if len(lines) <= MAX_SHOWN_LINES:
        return made
    left = f"{plural(len(lines) - MAX_SHOWN_LINES, 'more line is', 'more lines are')} not shown."
    return Rendered(made.html, (*made.notes[1:], left))
