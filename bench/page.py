"""Makes docs/explanation/performance.md and its plots out of what was measured, and of nothing else."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bench.plots import Bar, Mark, bars
from bench.report import Line, met
from bench.results import Result

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "explanation" / "performance.md"
IMAGES = DOCS / "images"


@dataclass(frozen=True)
class Plot:
    title: str
    mark: Mark | None = None
    unit: str = "×"


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    plot: Plot | None = None


SECTIONS = {
    "original": Section(
        "Against the original service",
        "npm `@a5c-ai/babysitter-breakpoints` 0.1.5 and Assent, both on SQLite on the same machine, asked by the"
        " same load generator over as many connections, by turns, three rounds; the middle one counts. Assent asks"
        " for a token every time and keeps a chained history; the original looks at a token only to create, to list"
        " and to release. Rows are written into either database beforehand. Creating is measured with one client,"
        " because the original may end with more. *Release → agent learns* is measured with each one's own command,"
        " `breakpoints breakpoint wait` and `assent wait`, from sending the release to the first byte that the"
        " waiting command prints. The original's looks every three seconds if not told otherwise, so agents are"
        " released at any moment of three seconds.",
        Plot("How many times faster than the original", Mark(10, "goal: 10×")),
    ),
    "peers": Section(
        "Against its peers",
        "One full cycle: an agent asks and stops, somebody releases it, the agent goes on. The time is that of"
        " asking, and from the release to the agent going on; how long the person takes in between is not counted."
        " Cycles a second are measured with four at once. Each peer does it as its documentation says, in an"
        " environment of its own with the versions in `bench/peers`. LangGraph and DBOS are libraries: asking and"
        " releasing are calls in one process, without HTTP and without proof of who released. Assent is asked over"
        " HTTP, by two clients with tokens of their own, and keeps the history. Prefect is asked over HTTP, on its"
        " default SQLite. Who looks now and then instead of being told is released at any moment of its interval."
        " Three rounds, by turns; the middle one counts.",
        Plot("Create → release → agent resumes, p50 in ms (shorter is better)", unit=" ms"),
    ),
    "throughput": Section(
        "Against the raw driver and a bare handler",
        "The same statements on the driver alone, at as many clients, and a Starlette handler that returns the"
        " same bytes and does nothing else: what is left of it once there is HTTP, authorisation and history.",
        Plot("Share of the limit that is left"),
    ),
    "pgbench": Section(
        "Against pgbench",
        "PostgreSQL's own load generator with the same statements, prepared, at 32 clients, by turns with Assent"
        " over HTTP, three rounds; the middle one counts.",
        Plot("Share of what pgbench does"),
    ),
    "growth": Section(
        "Growth",
        "The same questions to a server with few breakpoints and to one with many, both running, by turns, five"
        " rounds; the middle one counts. The ratio tells how many times longer it takes with many.",
        Plot("How many times longer with many rows (shorter is better)", Mark(1.3, "goal: ≤ 1.3×")),
    ),
    "million": Section("Lists over a million", "The 95th percentile of one client that asks one list after the other."),
    "waiters": Section("Waiting agents", "How soon a release reaches who waits, and what a parked agent costs."),
    "expiry": Section("Deadlines", "Many deadlines that come at once."),
    "clock": Section("Clocks that jump", "What happens to deadlines when the clock is set."),
    "rules": Section("Rules", "How long it takes to ask them."),
    "backtest": Section("Back-tests", "A rule put to past decisions."),
    "runs": Section("Runs", "Suspended runs, and how soon they go on."),
    "inbox": Section("The inbox", "What a reviewer waits for in the browser."),
    "delegation": Section("Telling people", "From the question to the message."),
    "ingress": Section("Events that come in", "Signed events from outside."),
}
INTRODUCTION = """# Performance

Made by `make bench ARGS=--write` out of `bench/results.json`; no number here was written by hand, and a part that the
last run did not measure keeps its own date and commit. A ratio compares two things of the same run. *NO* stands where a
goal was missed. The load came from the same machine, whose cores both sides have to share.
"""


def page(results: list[Result]) -> str:
    parts = [part for part in SECTIONS if any(each.part == part for each in results)]
    return "\n".join(
        [INTRODUCTION, *(_section(part, [each for each in results if each.part == part]) for part in parts)]
    )


def plots(results: list[Result]) -> dict[str, str]:
    """Return each plot by the name of its file."""
    drawn: dict[str, str] = {}
    for result in results:
        plot = SECTIONS[result.part].plot if result.part in SECTIONS else None
        shown = [_bar(line, plot) for line in result.lines if plot and line.number and line.number > 0]
        if plot and shown:
            title = f"{plot.title}, {result.database}, {result.date}"
            told = "; ".join(f"{bar.label}: {bar.text}" for bar in shown)
            drawn[image(result)] = bars(title, f"{told}.", shown, mark=plot.mark)
    return drawn


def image(result: Result) -> str:
    return f"performance-{result.part}-{result.database}.svg"


def write(results: list[Result]) -> None:
    PAGE.write_text(page(results))
    for old in IMAGES.glob("performance-*.svg"):
        old.unlink()
    for name, drawn in plots(results).items():
        (IMAGES / name).write_text(drawn)


def _section(part: str, results: list[Result]) -> str:
    section = SECTIONS[part]
    images = plots(results)
    text = textwrap.fill(section.text, 120, break_long_words=False, break_on_hyphens=False)
    lines = [f"## {section.title}", "", text, ""]
    for (date, commit, machine, command), together in groupby(results, key=_run):
        ran = list(together)
        lines += [f"Measured {date}, commit {commit}, {machine}, by `{command}`.", ""]
        for result in ran:
            name = image(result)
            if name in images and section.plot:
                lines += [
                    f"![{section.plot.title}, {result.database}; the table below says the same](../images/{name})",
                    "",
                ]
        lines += [*_table(line for result in ran for line in result.lines), ""]
    return "\n".join(lines)


def _run(result: Result) -> tuple[str, str, str, str]:
    return result.date, result.commit, result.machine, result.command


def _table(lines: Iterable[Line]) -> list[str]:
    rows = [(line.database, line.what, line.measured, line.against, line.ratio, line.goal, met(line)) for line in lines]
    head = ("database", "what", "measured", "against", "ratio", "goal", "met")
    return [_row(head), "|---" * len(head) + "|", *(_row(row) for row in rows)]


def _row(cells: Iterable[str]) -> str:
    # A pattern may have what Markdown takes for its own.
    plain = (cell.replace("|", "/").replace("*", r"\*") for cell in cells)
    return f"| {' | '.join(plain)} |"


def _bar(line: Line, plot: Plot) -> Bar:
    number = line.number or 0.0
    text = f"{number:,.1f}{plot.unit}" if number >= 10 else f"{number:.2f}{plot.unit}"
    whom = line.against.rpartition(" ")[0]
    # The same question is put to several limits.
    label = f"{line.what}, {whom}" if line.part == "throughput" and whom else line.what
    return Bar(label, number, text, ours=line.what.startswith("Assent"))
