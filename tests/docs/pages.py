"""The documentation as data: pages, tables, sections, snippets and links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_SNIPPET = re.compile(r"<!-- run: (?P<name>[a-z]+) -->\n```sh\n(?P<code>.*?)```\n", re.DOTALL)
_FENCE = re.compile(r"^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r"(?:^<!-- (?P<kind>run|file|shows): (?P<name>\S+) -->\n)?^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A shell snippet that is marked to be run by a test."""

    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; if marked, it is run, saved as a file, or compared with the output of an earlier block."""

    kind: str | None
    name: str | None
    language: str
    code: str


def every_page() -> list[Path]:
    return [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]


def read(path: str) -> str:
    return (DOCS / path).read_text()


def snippets(page: Path) -> list[Snippet]:
    return [Snippet(found["name"], found["code"]) for found in _SNIPPET.finditer(page.read_text())]


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text())
    return [Block(each["kind"], each["name"], each["language"], each["code"]) for each in found]


def fences(text: str, language: str) -> list[str]:
    return [found["code"] for found in _FENCE.finditer(text) if found["language"] == language]


def rows(text: str) -> list[list[str]]:
    """Return the cells of every row of every table, without headings and separators."""
    lines = text.splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("|") and not line.startswith("|--") and not following.startswith("|--")
    ]


def sections(text: str, level: int) -> dict[str, str]:
    """Return the text below each heading of a level, up to the next heading of this level or a higher one."""
    parts = re.split(rf"^(#{{1,{level}}}) (.+)\n", text, flags=re.MULTILINE)[1:]
    return {title: body for marks, title, body in zip(*[iter(parts)] * 3, strict=True) if len(marks) == level}


def code_words(text: str) -> set[str]:
    return set(_CODE.findall(_FENCE.sub("", text)))


def links(text: str) -> list[str]:
    """Return the links to our own pages, except in fenced blocks."""
    found = _LINK.findall(_FENCE.sub("", text))
    return [link for link in found if not link.startswith(("http://", "https://"))]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, in the form that GitHub uses."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(_FENCE.sub("", text)))
    return {title.replace(" ", "-") for title in plain}
