"""Measure the share of inserted faults that the domain's tests detect."""

import argparse
import os
import sys
from pathlib import Path

import pytest

from tests.mutation.quick import OPTIONS
from tests.mutation.runner import PURE, Module, Runner, Score, say

TESTS = tuple(
    sorted(
        str(each)
        for pattern in (
            "core",
            "fuzz",
            "*/model",
            "agents/doctor/*_checkup*.py",
            "agents/doctor/*_settings.py",
            "kernel/*_yaml_*.py",
        )
        for each in Path("tests").glob(pattern)
    )
)
ENOUGH = 0.85


def table(scores: list[Score]) -> str:
    rows = [
        "| module | faults | tried | killed | of them by a limit | survived | score |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    total = Score("all")
    for score in scores:
        total.of += score.of
        total.messages += score.messages
        total.killed += score.killed
        total.survivors += score.survivors
    for score in [*scores, total]:
        cut = score.killed["hung"] + score.killed["crashed"]
        low, high = score.interval()
        rate = f"{score.rate:.1%}" + (f" ({low:.0%}–{high:.0%})" if low != high else "")
        cells = [score.of, score.tried, score.killed.total(), cut, len(score.survivors), rate]
        rows.append(f"| {score.module} | {' | '.join(map(str, cells))} |")
    rows.append(f"\nBy the number of faults in each module: {weighted(scores):.1%} are killed.")
    return "\n".join([*rows, f"{total.messages} faults in sentences for people were not tried."])


def weighted(scores: list[Score]) -> float:
    """Return the overall rate, weighting each module by its number of faults instead of its sample size."""
    faults = sum(score.of for score in scores)
    return sum(score.of * score.rate for score in scores) / faults if faults else 1.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--module", action="append", help="such as rules.py; all of the domain without it")
    parser.add_argument("--sample", type=int, help="as many faults of each module, by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=TESTS, help="where the tests are")
    parser.add_argument("--again", type=Path, help="only the survivors in the output of an earlier run")
    options = parser.parse_args()
    names = {Path(name).name for name in options.module or ()}
    found = [Module.of(path) for path in PURE if path.name != "__init__.py" and (not names or path.name in names)]
    again = None
    if options.again:
        lines = options.again.read_text().splitlines()
        again = frozenset(line.removeprefix("survived ") for line in lines if line.startswith("survived "))
    os.nice(10)
    runner = Runner(found, sample=options.sample, seed=options.seed, jobs=options.jobs, again=again)
    status = pytest.main([*OPTIONS, *options.tests], plugins=[runner])
    say(table(runner.scores))
    sound = status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    return int(not sound or weighted(runner.scores) < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
