"""Renders context files according to their type, truncates long files with a note, and caches the results."""

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup

from assent.breakpoints.api.content import safe_type
from assent.breakpoints.store.files import FileEntry
from assent.core.safe_text import visible
from assent.web.filters import file_size
from assent.web.rendering.cache import Cache
from assent.web.rendering.code import code, language_of, plain
from assent.web.rendering.diff import diff
from assent.web.rendering.json_tree import json_tree
from assent.web.rendering.markdown import markdown
from assent.web.rendering.rendered import Rendered

VERSION = 1
"""Increment this when a renderer's output changes, to invalidate the cache."""
MAX_LINES = 2_000
MAX_CHARACTERS = 64 * 1024
PAGE_CHARACTERS = 512 * 1024
MAX_TREE = 1024 * 1024
KEPT_BYTES = 32 * 1024 * 1024
NOTHING = Markup()

_cache = Cache(KEPT_BYTES)


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A context file as shown on the page: text, rich text, a frame, an image or only a description."""

    n: int
    path: str
    format: str
    size: str = ""
    kind: str = "missing"
    text: str = ""
    more_lines: int = 0
    sha256: str = ""
    html: Markup = NOTHING
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a file that was read, and the source for its renderer."""

    shown: ShownFile
    source: str = ""
    language: str | None = None


def excerpt(entry: FileEntry, *, room: int) -> Excerpt:
    """Choose how to show a file, and keep only the part shown; `room` is the number of characters left on the page."""
    if entry.content is None:
        return Excerpt(ShownFile(entry.n, entry.path, entry.format))
    about = ShownFile(entry.n, entry.path, entry.format, file_size(len(entry.content)), sha256=entry.sha256 or "")
    kind = safe_type(entry)
    if kind.startswith("image/"):
        return Excerpt(replace(about, kind="image"))
    # NUL does not occur in text, so the declared format is wrong.
    if kind == "application/octet-stream" or b"\x00" in entry.content[:MAX_CHARACTERS]:
        return Excerpt(replace(about, kind="binary"))
    text = entry.content.decode(errors="replace")
    shown = _beginning(text, min(room, MAX_CHARACTERS))
    rest = text[len(shown) :]
    more = rest.count("\n") + (rest != "" and not rest.endswith("\n"))
    # A JSON tree can be built only from the complete document.
    source = text if entry.format == "json" and len(text) <= MAX_TREE and shown else shown
    about = replace(about, kind=_KINDS.get(entry.format, "rich"), text=shown, more_lines=more)
    return Excerpt(about, source, language_of(entry.language, entry.path))


_KINDS = {"html": "frame", "text": "text", "code": "text"}


def rendered(read: Excerpt) -> ShownFile:
    shown = read.shown
    if not read.source:
        note = ("Not shown because the page has reached its text limit.",) if shown.more_lines else ()
        return replace(shown, notes=note, kind="text" if shown.more_lines else shown.kind)
    made = _cache.get(_key(read), lambda: _rendered(read))
    return replace(shown, html=made.html, notes=_with_cut(shown, made.notes))


def shown_files(read: Iterable[Excerpt]) -> list[ShownFile]:
    """Render the excerpts. Do not call this function on the event loop, because it is slow."""
    return [rendered(each) for each in read]


def shown_file(entry: FileEntry, *, room: int) -> ShownFile:
    return rendered(excerpt(entry, room=room))


def _key(read: Excerpt) -> Hashable:
    content = hashlib.sha256(read.source.encode(errors="surrogatepass")).digest()
    return (content, read.shown.format, read.language, VERSION)


def _rendered(read: Excerpt) -> Rendered:
    if read.shown.format == "code":
        return code(visible(read.source), read.language)
    return _RENDERERS.get(read.shown.format, _lines)(read.source)


def _lines(text: str) -> Rendered:
    return Rendered(plain(visible(text)))


_RENDERERS: dict[str, Callable[[str], Rendered]] = {"markdown": markdown, "diff": diff, "json": json_tree}


def _with_cut(shown: ShownFile, notes: tuple[str, ...]) -> tuple[str, ...]:
    return (*notes, f"Only the beginning is shown. The file size is {shown.size}.") if shown.more_lines else notes


def _beginning(text: str, room: int) -> str:
    beginning = text[: max(0, room)]
    lines = beginning.split("\n", MAX_LINES)
    return beginning if len(lines) <= MAX_LINES else beginning[: len(beginning) - len(lines[-1])]
