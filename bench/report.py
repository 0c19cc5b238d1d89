"""Collects results, prints them as a table, and keeps them for the performance page."""

import platform
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.cycles import Found


@dataclass
class Line:
    part: str
    database: str
    what: str
    measured: str
    against: str
    ratio: str
    goal: str
    met: bool | None
    number: float | None = None
    """The value that a plot shows."""


@dataclass
class Report:
    lines: list[Line] = field(default_factory=list[Line])

    def rate(  # noqa: PLR0913  # the columns of the table
        self, database: str, what: str, ours: float, theirs: float, *, against: str, goal: float | None,
        part: str = "throughput",
    ) -> None:  # fmt: skip
        ratio = ours / theirs
        self._add(part, database, what, f"{_plain(ours)}/s", f"{against} {_plain(theirs)}/s", f"{ratio:.2f}×",
                  f"≥ {goal:.2f}×" if goal else "", ratio >= goal if goal else None, ratio)  # fmt: skip

    def time(self, part: str, database: str, what: str, milliseconds: float, *, goal: float | None = None) -> None:
        self._add(part, database, what, f"{milliseconds:.1f} ms", "", "", f"< {goal:.0f} ms" if goal else "",
                  milliseconds < goal if goal else None, milliseconds)  # fmt: skip

    def sooner(  # noqa: PLR0913  # the columns of the table
        self, part: str, database: str, what: str, ours: float, theirs: float, *, against: str, goal: float | None
    ) -> None:
        """Compare durations in seconds; the ratio is our speedup."""
        ratio = theirs / ours
        self._add(part, database, what, f"{ours * 1000:.1f} ms", f"{against} {theirs * 1000:.1f} ms", f"{ratio:.2f}×",
                  f"≥ {goal:.2f}×" if goal else "", ratio >= goal if goal else None, ratio)  # fmt: skip

    def growth(
        self, database: str, what: str, small: float, large: float, *, rows: tuple[int, int], goal: float
    ) -> None:
        """Compare rates with few and with many rows; the ratio is the slowdown with many."""
        ratio = small / large
        few, many = (f"{_plain(rate)}/s at {count:,} rows" for rate, count in zip((small, large), rows, strict=True))
        self._add("growth", database, what, many, few, f"{ratio:.2f}×", f"≤ {goal:.1f}×", ratio <= goal, ratio)

    def cycle(self, database: str, what: str, found: Found, ours: Found | None) -> None:
        """Add a peer's cycle with our speedup over it, or our own cycle if `ours` is None."""
        measured = f"p50 {found.p50 * 1000:.1f} ms, p95 {found.p95 * 1000:.1f} ms, {_plain(found.rate)} cycles/s"
        if ours is None:
            self._add("peers", database, what, measured, "", "", "", None, found.p50 * 1000)
            return
        sooner, more = found.p50 / ours.p50, ours.rate / found.rate
        self._add("peers", database, what, measured, "Assent SDK",
                  f"Assent: {sooner:.2f}× the speed, {more:.2f}× the cycles", "≥ 1.00× for both",
                  sooner >= 1 and more >= 1, found.p50 * 1000)  # fmt: skip

    def fact(
        self, part: str, database: str, what: str, measured: str, goal: str = "", *, met: bool | None = None
    ) -> None:
        self._add(part, database, what, measured, "", "", goal, met)

    def _add(self, *values: object) -> None:
        line = Line(*values)  # type: ignore[arg-type]
        self.lines.append(line)
        print(line.database, line.what, line.measured, line.against, line.ratio, line.goal, line.met, flush=True)

    def print(self) -> None:
        table = Table(title=f"Assent bench, {today()}, commit {commit()}, {machine()}")
        for column in ("database", "metric", "result", "baseline", "ratio", "goal", "met"):
            table.add_column(column)
        for line in self.lines:
            table.add_row(line.database, line.what, line.measured, line.against, line.ratio, line.goal, met(line))
        Console(width=150).print(table)


def met(line: Line) -> str:
    return "" if line.met is None else "yes" if line.met else "NO"


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def commit() -> str:
    """Return the current commit, and whether there are local changes."""
    asked = ["git", "describe", "--always", "--dirty=, changed"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def machine() -> str:
    """Describe the machine, without anything that identifies it."""
    cores = _lines_with(Path("/proc/cpuinfo"), "model name")
    memory = _lines_with(Path("/proc/meminfo"), "MemTotal")
    named = f"{len(cores)} × {cores[0]}" if cores else platform.machine()
    size = f", {int(memory[0].split()[0]) // 1024**2} GB" if memory else ""
    return (
        f"{named}{size}, {platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )


def command() -> str:
    return f'make bench ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "make bench"


def _lines_with(path: Path, name: str) -> list[str]:
    if not path.is_file():
        return []
    return [line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith(name)]


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 20 else f"{number:.2f}"
