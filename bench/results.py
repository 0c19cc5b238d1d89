"""Saves each part's latest results for each database, with the date, commit, machine and command of the run."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.report import Line, Report, command, commit, machine, today

RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """The results of one part on one database, from one run."""

    part: str
    database: str
    date: str
    commit: str
    machine: str
    command: str
    lines: tuple[Line, ...]


def of(report: Report) -> list[Result]:
    """Return the results of this run."""
    found: list[Result] = []
    for part, database in dict.fromkeys((line.part, line.database) for line in report.lines):
        lines = tuple(line for line in report.lines if (line.part, line.database) == (part, database))
        found.append(Result(part, database, today(), commit(), machine(), command(), lines))
    return found


def merged(before: list[Result], now: list[Result]) -> list[Result]:
    """Replace saved results with newer ones, and keep those that were not measured in this run."""
    kept = {(each.part, each.database): each for each in (*before, *now)}
    return [kept[key] for key in sorted(kept)]


def load(path: Path = RESULTS) -> list[Result]:
    if not path.is_file():
        return []
    kept = json.loads(path.read_text())
    return [Result(**each | {"lines": tuple(Line(**line) for line in each["lines"])}) for each in kept]


def save(results: list[Result], path: Path = RESULTS) -> None:
    path.write_text(json.dumps([asdict(each) for each in results], ensure_ascii=False, indent=1) + "\n")
