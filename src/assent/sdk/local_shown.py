"""Shows a breakpoint in a terminal, without hidden or control characters, and marks content that is left out."""

import json
from collections.abc import Sequence

from markdown_it import MarkdownIt
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from assent.core.breakpoint import Breakpoint
from assent.core.draft import FileDraft
from assent.core.plurals import plural
from assent.sdk.visible import visible

MAX_LINES = 400
MAX_CHARACTERS = 64 * 1024
_SHORT_DIGEST = 12
_SHOWN = frozenset(
    {
        "question", "title", "tags", "context", "expert", "strategy", "options", "form", "risk", "breakpointId",
        "previousFeedback", "attempt", "autoApproveAfterN", "presentAlwaysApprove", "hardStop", "editable",
    }
)  # fmt: skip
_STYLES = {"risk": "bold red", "rules": "yellow"}


def show(console: Console, asked: Breakpoint, files: Sequence[FileDraft], *, problem: str | None) -> None:
    """Print what a reviewer decides on, with the question last."""
    payload = asked.payload
    console.print(Line(Text(visible(asked.title or "Approval needed"), style="bold"), style="dim"))
    attempt = payload.get("attempt")
    experts = ", ".join(seat.name for seat in asked.seats)
    fields = {
        "gate": asked.gate,
        "agent": asked.agent_id,
        "run": asked.run_id,
        "risk": asked.risk,
        "tags": ", ".join(asked.tags),
        "assigned to": experts and f"{experts} ({asked.strategy})",
        "attempt": str(attempt) if attempt is not None else None,
        "rules": problem,
    }
    grid = Table.grid(Column(no_wrap=True, style="dim"), Column(overflow="fold"), padding=(0, 1))
    for name, value in fields.items():
        if value:
            grid.add_row(name, Text(visible(value), style=_STYLES.get(name, "")))
    console.print(grid)
    # Show every other field, because a reviewer must see everything that the agent sent.
    rest = {name: value for name, value in payload.items() if name not in _SHOWN}
    if rest:
        console.print(_theirs(_source(json.dumps(rest, ensure_ascii=False, indent=2), "json")))
    for file in files:
        _show_file(console, file)
    for label, text in (("Previous feedback", payload.get("previousFeedback")), ("Question", payload.get("question"))):
        if text:
            console.print(Text(f"{label}:", style="dim"))
            console.print(_theirs(_block(str(text), style="bold" if label == "Question" else "")))
    console.print(Line(style="dim"))


def _theirs(shown: RenderableType) -> Padding:
    """Indent content from others, so that it cannot imitate our own lines, which are not indented."""
    return Padding(shown, (0, 0, 0, 2))


def _block(text: str, *, style: str) -> Text:
    return Text(visible(text, lines=True), style=style)


def _show_file(console: Console, file: FileDraft) -> None:
    digest = (file.sha256 or "")[:_SHORT_DIGEST]
    about = (
        f"{file.format}, {plural(len(file.content), 'byte')}, {digest}" if file.content is not None else "not provided"
    )
    console.print(Line(Text(f"{visible(file.path)} ({visible(about)})", style="dim"), align="left", style="dim"))
    text = None if file.content is None or file.format == "image" else _text(file.content)
    if text is not None:
        kept, left_out = _cut(text)
        console.print(_theirs(_rendered(file, kept)))
        if left_out:
            console.print(Text(f"… {left_out}. Read the whole file before you decide.", style="bold yellow"))
    elif file.content is not None:
        console.print(Text("This file cannot be shown in a terminal. Open it before you decide.", style="bold yellow"))


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _cut(text: str) -> tuple[str, str]:
    """Return the part that fits, and a note on how much does not."""
    lines = text.split("\n")
    kept = "\n".join(lines[:MAX_LINES])
    if len(kept) > MAX_CHARACTERS:
        # A file can have few but very long lines, so limit both their number and their length.
        return kept[:MAX_CHARACTERS], f"{plural(len(text) - MAX_CHARACTERS, 'more character')} not shown"
    return kept, f"{plural(len(lines) - MAX_LINES, 'more line')} not shown" if len(lines) > MAX_LINES else ""


def _rendered(file: FileDraft, text: str) -> RenderableType:
    if file.format == "markdown":
        return _markdown(visible(text, lines=True))
    lexer = {"code": file.language or "text", "diff": "diff", "json": "json", "html": "html"}.get(file.format)
    return _source(text, lexer) if lexer else _block(text, style="")


def _source(text: str, lexer: str) -> Syntax:
    # Use the terminal's own colors and background.
    return Syntax(visible(text, lines=True), lexer, theme="ansi_dark", background_color="default", word_wrap=True)


def _markdown(text: str) -> Markdown:
    """Render Markdown without omissions: raw HTML, comments, images and definitions stay as written."""
    rendered = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    rendered.parsed = parser.disable(["reference", "image"]).parse(text)
    return rendered
