"""Generates docs/explanation/performance.md and its plots from the saved results."""

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
        "Compared with the original service",
        "The original service, npm `@a5c-ai/babysitter-breakpoints` 0.1.5, and Assent both ran on SQLite, with the same"
        " load generator, the same number of connections and databases that were filled in advance. Each figure is the"
        " median of three alternating rounds. Assent verifies a token for every request and keeps a hash-chained"
        " history; the original service verifies a token only for creating, listing and releasing breakpoints. Creating"
        " is also measured with a single client, because the original service may crash with more. *Release → agent"
        " notified* is the time from sending the release until `breakpoints breakpoint wait` or `assent wait` prints"
        " its first byte. Releases are spread over three seconds, which is the original service's default polling"
        " interval.",
        Plot("Speedup over the original service", Mark(10, "goal: 10×")),
    ),
    "peers": Section(
        "Compared with peers",
        "In a full cycle, an agent asks a question and stops, a client releases the breakpoint, and the agent"
        " continues. The measured time includes asking and resuming, but not the reviewer's time in between. Cycles per"
        " second are measured with four concurrent cycles. Each peer is used as its documentation describes, in a"
        " separate environment with the versions specified in `bench/peers`. LangGraph and DBOS are libraries, so"
        " asking and releasing are calls within one process, without HTTP or authentication. Assent keeps a history"
        " and is called over HTTP by two clients with separate tokens. Prefect is called over HTTP and uses its default"
        " SQLite database. For peers that poll, releases are spread over the polling interval. Each figure is the"
        " median of three alternating rounds.",
        Plot("Create → release → agent resumes, p50 in ms (lower is better)", unit=" ms"),
    ),
    "throughput": Section(
        "Compared with the raw driver and a bare handler",
        "One baseline runs the same SQL statements with only the database driver and the same number of clients. The"
        " other baseline is a Starlette handler that returns the same bytes. The ratio shows how much of the baseline's"
        " throughput remains once HTTP, authorization and history are added.",
        Plot("Throughput relative to the baseline"),
    ),
    "pgbench": Section(
        "Compared with pgbench",
        "PostgreSQL's own load generator, pgbench, runs the same prepared statements with 32 clients, alternating with"
        " requests to Assent over HTTP. Each figure is the median of three rounds.",
        Plot("Throughput relative to pgbench"),
    ),
    "growth": Section(
        "Growth",
        "The same requests are sent to two running servers, one with few breakpoints and one with many. The ratio is"
        " the slowdown of the server with many breakpoints. Each figure is the median of five alternating rounds.",
        Plot("Slowdown with many rows (lower is better)", Mark(1.3, "goal: ≤ 1.3×")),
    ),
    "million": Section(
        "Lists over a million rows",
        "The results are 95th percentile latencies for a single client that requests one list at a time.",
    ),
    "waiters": Section(
        "Waiting agents",
        "The table shows how long it takes for a release to reach the waiting agent, and how much memory each waiter"
        " uses.",
    ),
    "expiry": Section("Deadlines", "The table shows what happens when many deadlines pass at the same time."),
    "clock": Section("Clock changes", "The table shows how far deadlines move when a clock changes."),
    "rules": Section("Rules", "The table shows how long it takes to index and evaluate rules."),
    "backtest": Section("Back-tests", "The table shows how long it takes to evaluate a rule against past decisions."),
    "runs": Section("Runs", "The table shows what suspended runs cost, and how soon a run continues after a decision."),
    "inbox": Section("Inbox", "The table shows the latency for a reviewer in the browser."),
    "delegation": Section(
        "Notifications",
        "The table shows how long it takes until a message arrives, and until it is closed after a decision.",
    ),
    "ingress": Section(
        "Inbound events", "The table shows the throughput and latency for signed events from external senders."
    ),
}
INTRODUCTION = """# Performance

`make bench ARGS=--write` generates this page from `bench/results.json`. The line above each table shows the date and
commit of its run. A ratio compares two results from the same run, and *NO* marks a goal that was not met. The load
generator ran on the same machine as the server and shared its cores.
"""


def page(results: list[Result]) -> str:
    parts = [part for part in SECTIONS if any(each.part == part for each in results)]
    machines = {result.machine for result in results}
    shared = machines.pop() if len(machines) == 1 else None
    introduction = f"{INTRODUCTION}\nEvery run used {shared}.\n" if shared else INTRODUCTION
    return "\n".join(
        [
            introduction,
            *(_section(part, [each for each in results if each.part == part], shared) for part in parts),
        ]
    )


def plots(results: list[Result]) -> dict[str, str]:
    """Return the plots by file name."""
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


def _section(part: str, results: list[Result], shared: str | None) -> str:
    section = SECTIONS[part]
    images = plots(results)
    text = textwrap.fill(section.text, 120, break_long_words=False, break_on_hyphens=False)
    lines = [f"## {section.title}", "", text, ""]
    for (date, commit, machine, command), together in groupby(results, key=_run):
        ran = list(together)
        state = commit.replace(", changed", " (with local changes)")
        where = "" if machine == shared else f"on {machine} "
        lines += [f"Measured on {date} at commit {state} {where}using `{command}`.", ""]
        for result in ran:
            name = image(result)
            if name in images and section.plot:
                lines += [
                    f"![{section.plot.title}, {result.database}. The table below has the same data.](../images/{name})",
                    "",
                ]
        lines += [*_table(line for result in ran for line in result.lines), ""]
    return "\n".join(lines)


def _run(result: Result) -> tuple[str, str, str, str]:
    return result.date, result.commit, result.machine, result.command


def _table(lines: Iterable[Line]) -> list[str]:
    shown = list(lines)
    if not any(line.against or line.ratio for line in shown):
        return _by_database(shown)
    rows = [(line.database, line.what, line.measured, line.against, line.ratio, line.goal, met(line)) for line in shown]
    head = ("database", "metric", "result", "baseline", "ratio", "goal", "met")
    return [_row(head), "|---" * len(head) + "|", *(_row(row) for row in rows)]


def _by_database(lines: list[Line]) -> list[str]:
    """Return one row per metric with a column for each database."""
    databases = list(dict.fromkeys(line.database for line in lines))
    metrics: dict[tuple[str, str], dict[str, Line]] = {}
    for line in lines:
        metrics.setdefault((line.what, line.goal), {})[line.database] = line
    head = ["metric", *("result" if name == "none" else name for name in databases), "goal", "met"]
    return [
        _row(head),
        "|---" * len(head) + "|",
        *(
            _row(
                [
                    what,
                    *(found[name].measured if name in found else "" for name in databases),
                    goal,
                    ", ".join(dict.fromkeys(met(line) for line in found.values())),
                ]
            )
            for (what, goal), found in metrics.items()
        ),
    ]


def _row(cells: Iterable[str]) -> str:
    # Patterns can contain characters that have a special meaning in Markdown tables.
    plain = (cell.replace("|", "/").replace("*", r"\*") for cell in cells)
    return f"| {' | '.join(plain)} |"


def _bar(line: Line, plot: Plot) -> Bar:
    number = line.number or 0.0
    text = f"{number:,.1f}{plot.unit}" if number >= 10 else f"{number:.2f}{plot.unit}"
    whom = line.against.rpartition(" ")[0]
    # The same metric is compared with several baselines.
    label = f"{line.what}, {whom}" if line.part == "throughput" and whom else line.what
    return Bar(label, number, text, ours=line.what.startswith("Assent"))
