"""Collects lines and prints one table."""

import platform
import sqlite3
import subprocess
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


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


@dataclass
class Report:
    lines: list[Line] = field(default_factory=list[Line])

    def rate(self, database: str, what: str, ours: float, theirs: float, *, against: str, goal: float) -> None:
        ratio = ours / theirs
        self._add("throughput", database, what, f"{ours:,.0f}/s", f"{against} {theirs:,.0f}/s", f"{ratio:.2f}×",
                  f"≥ {goal:.2f}×", ratio >= goal)  # fmt: skip

    def time(self, part: str, database: str, what: str, milliseconds: float, *, goal: float | None = None) -> None:
        self._add(part, database, what, f"{milliseconds:.1f} ms", "", "", f"< {goal:.0f} ms" if goal else "",
                  milliseconds < goal if goal else None)  # fmt: skip

    def fact(
        self, part: str, database: str, what: str, measured: str, goal: str = "", *, met: bool | None = None
    ) -> None:
        self._add(part, database, what, measured, "", "", goal, met)

    def _add(self, *values: object) -> None:
        line = Line(*values)  # type: ignore[arg-type]
        self.lines.append(line)
        print(line.database, line.what, line.measured, line.against, line.ratio, line.goal, line.met, flush=True)

    def print(self) -> None:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        table = Table(title=f"Assent bench, commit {commit.stdout.strip()}, Python {platform.python_version()}, "
                            f"SQLite {sqlite3.sqlite_version}")  # fmt: skip
        for column in ("database", "what", "measured", "against", "ratio", "goal", "met"):
            table.add_column(column)
        for line in self.lines:
            met = "" if line.met is None else "yes" if line.met else "NO"
            table.add_row(line.database, line.what, line.measured, line.against, line.ratio, line.goal, met)
        Console(width=150).print(table)
