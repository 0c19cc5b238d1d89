"""Renders code and plain text as numbered lines, with syntax highlighting if it is fast enough."""

import re
import time
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import STANDARD_TYPES

from assent.web.rendering.rendered import Rendered, TooSlow

MAX_HIGHLIGHTED = 50 * 1024
MAX_LINE = 1_000
PATIENCE = 0.3
"""Timeout for highlighting in seconds."""

# Only lexers whose steps are short even for hostile text, because the timeout is checked between steps.
LANGUAGES = {
    "bash": "bash sh zsh shell console", "c": "c h", "cpp": "cpp cc cxx hpp c++", "csharp": "csharp cs c#",
    "css": "css scss", "docker": "docker dockerfile", "go": "go golang", "graphql": "graphql gql",
    "html": "html htm vue",
    "java": "java", "javascript": "javascript js mjs cjs jsx", "json": "json jsonl", "kotlin": "kotlin kt kts",
    "php": "php", "protobuf": "protobuf proto", "python": "python py pyi python3", "ruby": "ruby rb", "rust": "rust rs",
    "sql": "sql", "terraform": "terraform tf hcl", "toml": "toml", "typescript": "typescript ts tsx",
    "xml": "xml svg", "yaml": "yaml yml",
}  # fmt: skip
# Prefixed, because the pages use some of the same class names, one of which hides its element.
CLASSES = {kind: f"t-{name}" if name else "" for kind, name in STANDARD_TYPES.items()}
_NAMES = {name: lexer for lexer, names in LANGUAGES.items() for name in names.split()}
_lexers: dict[str, Lexer] = {}
_LONG_LINE = re.compile(f"[^\n]{{{MAX_LINE + 1}}}")


def language_of(language: str | None, path: str = "") -> str | None:
    """Return the language for highlighting, based on what the agent specified or otherwise on the file name."""
    named = _NAMES.get((language or "").strip().lower())
    if named or language:
        return named
    name = PurePosixPath(path).name.lower()
    return _NAMES.get(name.rpartition(".")[2])


def code(text: str, language: str | None, *, patience: float = PATIENCE) -> Rendered:
    """Number the lines, and highlight them or explain why not; hidden characters must already be visible in `text`."""
    note = _why_plain(text) if language else None
    if language is None or note:
        return Rendered(plain(text), (note,) if note else ())
    try:
        return Rendered(_numbered(_pieces(text, language, until=time.monotonic() + patience)))
    except TooSlow:
        return Rendered(
            plain(text), ("Shown without highlighting because highlighting would take too long.",), hurried=True
        )


def highlighted(text: str, language: str | None, *, until: float) -> Markup:
    """Return the contents of a code block; hidden characters must already be visible in `text`."""
    if language is None or _why_plain(text):
        return escape(text)
    try:
        return Markup().join(_marked(kind, piece) for kind, piece in _pieces(text, language, until=until))
    except TooSlow:
        return escape(text)


def plain(text: str) -> Markup:
    return _numbered([("", text)])


def _why_plain(text: str) -> str | None:
    if len(text) > MAX_HIGHLIGHTED:
        return f"Shown without highlighting because it is longer than {MAX_HIGHLIGHTED // 1024} KiB."
    if _LONG_LINE.search(text):
        return f"Shown without highlighting because a line has more than {MAX_LINE} characters."
    return None


def _pieces(text: str, language: str, *, until: float) -> Iterator[tuple[str, str]]:
    lexer = _lexers.get(language)
    if lexer is None:
        lexer = _lexers[language] = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    # get_tokens() would change line breaks and remove a byte order mark.
    steps: Any = lexer.get_tokens_unprocessed(text)
    for _, kind, piece in steps:
        if time.monotonic() > until:
            raise TooSlow
        while kind not in CLASSES:
            kind = kind.parent  # noqa: PLW2901
        yield CLASSES[kind], piece


def _numbered(pieces: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Markup:
    lines: list[list[Markup]] = [[]]
    for kind, piece in pieces:
        first, *more = piece.split("\n")
        lines[-1].append(_marked(kind, first))
        lines += [[_marked(kind, each)] for each in more]
    # A line break at the end of the text does not start another line.
    if len(lines) > 1 and not Markup().join(lines[-1]):
        lines.pop()
    return Markup().join(Markup('<span class="line">%s\n</span>') % Markup().join(line) for line in lines)


def _marked(kind: str, piece: str) -> Markup:
    return Markup('<span class="%s">%s</span>') % (kind, piece) if kind and piece else escape(piece)
