"""Measure how far our texts are from plain English: `python -m tools.prose`, and `--check` for `make lint`.

Each of the phrases below is fine once, but text with many of them is hard to read. Every kind of text has a ceiling in
markers per 1,000 words, which may only be lowered. Well-written projects in our field have 0.3 to 0.8.
"""

import argparse
import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parents[1]
CEILINGS = {"strings": 1.5, "templates": 1.5, "docs": 1.5, "comments": 1.5, "tests": 1.5}
"""Markers per 1,000 words. Well-written projects in our field have 0.3 to 0.8."""
SLACK = 1.0
"""How far a rate may be below its ceiling before the ceiling has to be lowered."""
MARKERS = {
    "a role without a name": r"who(?:m?ever|m)|whichever|whatever|somebody|nobody|everybody",
    "telling and hearing": r"tells|told|hears|heard",
    "standing": r"stands|stood|as (?:it|they) (?:stands?|lies|comes?)",
    "no instead of not": r"(?:is|are|was|were) (?:no(?! longer)|none)",
    "particle verbs": r"(?:go|goes|went) on|lets? go|(?:takes?|took|taken|given) up",
    "possession": r"of (?:its|our|their|your|one's) own|by (?:it|him|them)sel(?:f|ves)",
    "degree": r"however (?:often|many|much|long)|for ever",
    "a clause as a subject": r"what (?:became|came|comes|carries|follows|waits|has ended|(?:is|was) left)",
    "quality": r"is of (?:high|low|another|the same)|belongs into",
}
_MARKER = re.compile(rf"\b(?:{'|'.join(MARKERS.values())})\b", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:^|[.;:] )What (?!is\b|are\b|do\b|does\b|happens|it\b|to\b|you\b|change|not\b)\w+ \w+",
    re.MULTILINE | re.IGNORECASE,
)
_LEFT_OUT = {".git", ".venv", "node_modules", "vendor", "migrations", "build", "dist", "__pycache__"}
_SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE)\b")
_SENTENCE_WORDS = 4


class _Text(ast.Constant):
    value: str


class Text(NamedTuple):
    kind: str
    path: Path
    line: int
    words: str


@dataclass
class Rate:
    """Markers in one kind of text."""

    words: int = 0
    markers: int = 0
    places: list[tuple[int, Text]] = field(default_factory=list[tuple[int, Text]])

    def add(self, text: Text) -> None:
        self.words += len(text.words.split())
        found = markers(text.words)
        self.markers += found
        if found:
            self.places.append((found, text))

    @property
    def per_thousand(self) -> float:
        return 1000 * self.markers / max(self.words, 1)


def markers(text: str) -> int:
    return len(_MARKER.findall(text)) + len(_OPENING.findall(text))


def texts(root: Path) -> Iterator[Text]:
    """Yield every text in a tree: sentences in strings, comments, test names, templates and pages."""
    for path in _files(root):
        if path.suffix == ".py":
            yield from _python(path, is_test="tests" in path.relative_to(root).parts)
        elif path.suffix == ".html":
            plain = re.sub(r"<[^>]*>|\{[#%{].*?[#%}]\}", " ", path.read_text("utf-8"), flags=re.DOTALL)
            yield Text("templates", path, 1, plain)
        elif path.suffix == ".md":
            plain = re.sub(
                r"```.*?```", lambda code: "\n" * code[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL
            )
            for number, line in enumerate(plain.splitlines(), 1):
                yield Text("docs", path, number, re.sub(r"`[^`]*`", "x", line))


def _files(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        names[:] = sorted(set(names) - _LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(files))


def _python(path: Path, *, is_test: bool) -> Iterator[Text]:
    source = path.read_text("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text("comments", path, token.start[0], token.string.lstrip("# "))
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr) and _is_text(node.value)}
    for node in nodes:
        if _is_text(node):
            if node in docstrings:
                yield Text("comments", path, node.lineno, node.value)
            elif not is_test and _is_sentence(node.value):
                yield Text("strings", path, node.lineno, node.value)
        elif is_test and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Text("tests", path, node.lineno, node.name.removeprefix("test_").replace("_", " "))


def _is_text(node: ast.AST) -> TypeGuard[_Text]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_sentence(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= _SENTENCE_WORDS and not _SQL.search(text)


def rates(root: Path) -> dict[str, Rate]:
    found = {kind: Rate() for kind in CEILINGS}
    for text in texts(root):
        found[text.kind].add(text)
    return found


def complaints(found: dict[str, Rate], ceilings: Mapping[str, float] = CEILINGS) -> Iterator[str]:
    for kind, rate in found.items():
        ceiling, measured = ceilings[kind], rate.per_thousand
        if measured > ceiling:
            yield f"{kind}: {measured:.1f} markers per 1,000 words, more than {ceiling}. Write it in plain English:"
            for count, text in sorted(rate.places, key=lambda place: -place[0])[:10]:
                shown = " ".join(text.words.split())[:120]
                yield f"  {text.path.relative_to(ROOT)}:{text.line} ({count}) {shown}"
        elif measured < ceiling - SLACK and ceiling > max(SLACK, 1.5):
            yield f"{kind}: {measured:.1f} markers per 1,000 words. Lower its ceiling of {ceiling} in tools/prose.py."


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how far our texts are from plain English.")
    parser.add_argument("--check", action="store_true", help="Fail above a ceiling, and print nothing otherwise")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="List the N worst places")
    parser.add_argument("--kind", choices=CEILINGS, help="Kind of text that --worst lists")
    options = parser.parse_args()
    found = rates(ROOT)
    if options.check:
        problems = list(complaints(found))
        sys.stdout.write("".join(f"{each}\n" for each in problems))
        return bool(problems)
    for kind, rate in found.items():
        sys.stdout.write(f"{kind:10} {rate.per_thousand:6.1f} per 1,000 of {rate.words:,} words\n")
    places = [place for kind, rate in found.items() if options.kind in {None, kind} for place in rate.places]
    for count, text in sorted(places, key=lambda place: -place[0])[: options.worst]:
        shown = " ".join(text.words.split())[:140]
        sys.stdout.write(f"{count} {text.kind:9} {text.path.relative_to(ROOT)}:{text.line}  {shown}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
