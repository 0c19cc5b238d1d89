"""Run the benchmarks on both databases and print ratios (`make bench`)."""

import argparse
import sys
import tempfile
from pathlib import Path

from assent.installation import migrate
from assent.kernel.settings import Settings
from bench import page, results
from bench.backtest import backtest
from bench.clock import clock
from bench.delegation import delegation
from bench.expiry import expiry
from bench.growth import growth
from bench.inbox import inbox
from bench.ingress import ingress
from bench.million import million
from bench.original import against_the_original
from bench.peers.side_by_side import peers
from bench.pgbench import pgbench
from bench.report import Report
from bench.rules import rules
from bench.runs import runs
from bench.throughput import throughput
from bench.waiters import waiters
from tests.support.postgres import new_database, postgres

PARTS = {
    "throughput": throughput,
    "million": million,
    "waiters": waiters,
    "expiry": expiry,
    "clock": clock,
    "backtest": backtest,
    "runs": runs,
    "inbox": inbox,
    "delegation": delegation,
    "ingress": ingress,
    "original": against_the_original,
    "peers": peers,
    "pgbench": pgbench,
    "growth": growth,
}
ONLY_ON = {"original": ("sqlite",), "pgbench": ("postgresql",)}
"""Parts that are meaningful on only one of the databases."""
PURE = {"rules": rules}
"""Parts that do not use a database."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", choices=[*PARTS, *PURE], action="append")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each load in seconds")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--waiters", type=int, default=10_000)
    parser.add_argument("--due", type=int, default=100_000, help="number of simultaneous deadlines")
    parser.add_argument("--runs", type=int, default=50_000, help="number of suspended runs")
    parser.add_argument("--waiting", type=int, default=10_000, help="number of pending breakpoints in the inbox")
    parser.add_argument("--write", action="store_true", help="save the results and write the performance page")
    parser.add_argument("--page", action="store_true", help="write the page from the saved results without measuring")
    options = parser.parse_args()
    if options.page:
        page.write(results.load())
        return
    report = Report()
    wanted = options.only or [*PARTS, *PURE]
    for name in (each for each in PURE if each in wanted):
        PURE[name](report)
    parts = [each for each in PARTS if each in wanted]
    if parts:
        _on_databases(parts, report, options)
    report.print()
    if options.write:
        kept = results.merged(results.load(), results.of(report))
        results.save(kept)
        page.write(kept)


def _on_databases(parts: list[str], report: Report, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="assent-bench-") as folder, postgres(settings=SETTINGS) as server:
        for dialect in options.database or ("sqlite", "postgresql"):
            for name in (each for each in parts if dialect in ONLY_ON.get(each, (dialect,))):
                print(f"— {name} on {dialect}", file=sys.stderr, flush=True)
                with new_database(server) as url:
                    place = Path(folder) / f"{name}-{dialect}"
                    place.mkdir()
                    settings = Settings(data_dir=place, database_url=url if dialect == "postgresql" else None)
                    migrate(settings)
                    PARTS[name](settings, report, options)


SETTINGS = "max_wal_size = '4GB'"

if __name__ == "__main__":
    main()
