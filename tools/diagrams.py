"""Draws the diagrams of the architecture page from the code: `python -m tools.diagrams` updates the page."""

import sys
import tomllib
from itertools import pairwise
from pathlib import Path

from assent.core.breakpoint import EVENT_OF, TRANSITIONS, Status

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def states() -> str:
    """Return a diagram of all transitions of a breakpoint."""
    stays = [EVENT_OF[action] for (status, action), target in TRANSITIONS.items() if status is target]
    moves = [
        f"    {status} --> {target}: {EVENT_OF[action]}"
        for (status, action), target in TRANSITIONS.items()
        if status is not target
    ]
    ends = [f"    {status} --> [*]" for status in Status if status is not Status.WAITING]
    start = f"    [*] --> {Status.WAITING}: created"
    return _mermaid(
        "stateDiagram-v2", [start, f"    {Status.WAITING} --> {Status.WAITING}: {', '.join(stays)}", *moves, *ends]
    )


def layers() -> str:
    """Return a diagram of the layers that import-linter enforces; each can import only those below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors: list[str] = next(each["layers"] for each in contracts if each["type"] == "layers")
    nodes = [f'    f{n}["{floor}"]' for n, floor in enumerate(floors)]
    return _mermaid("flowchart TD", [*nodes, *(f"    f{up} --> f{down}" for up, down in pairwise(range(len(floors))))])


def _mermaid(kind: str, lines: list[str]) -> str:
    return "\n".join(["```mermaid", kind, *lines, "```"])


DIAGRAMS = {"states": states, "layers": layers}


def drawn(page: str) -> str:
    """Return the page with the current diagrams between their markers."""
    for name, draw in DIAGRAMS.items():
        before, mark, rest = page.partition(f"<!-- diagram: {name} -->\n")
        _, end, after = rest.partition("<!-- end of diagram -->")
        if not (mark and end):
            sys.exit(f"The page has no markers for the diagram {name!r}.")
        page = f"{before}{mark}{draw()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
    sys.stdout.write(f"updated: {', '.join(DIAGRAMS)}\n")
