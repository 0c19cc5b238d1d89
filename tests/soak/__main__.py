"""Long searches for faults: `python -m tests.soak --budget 30m --only model --report build/soak.md`."""

import argparse
import asyncio
import re
import sys
import time
import traceback
from pathlib import Path

from tests.soak.searches import SOAKS, Found, say
from tests.support.postgres import postgres

NO_WAITING = "fsync = off;synchronous_commit = off"
MOST_SHOWN = 20


def bound(trials: int) -> str:
    """Return the upper bound for the failure rate after N trials without a failure, by the rule of three."""
    return f"below {3 / trials:.1e}" if trials else "nothing was tried"


def seconds(budget: str) -> float:
    """Parse a duration such as 90s, 10m, 2h or 1h30m."""
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", budget)
    if parts is None or not budget:
        msg = f"{budget!r} is not a time such as 90s, 10m or 1h30m"
        raise argparse.ArgumentTypeError(msg)
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return hours * 3600.0 + minutes * 60.0 + rest


async def searched(name: str, url: str, budget: float) -> Found:
    try:
        return await SOAKS[name](url, time.monotonic() + budget)
    except AssertionError:
        return Found(0, "broke off", [traceback.format_exc()])


async def run(names: list[str], budget: float) -> list[str]:
    """Run the searches one after another, and return the rows of the report."""
    rows: list[str] = []
    with postgres(settings=NO_WAITING if names == ["model"] else "") as url:
        for name in names:
            started = time.monotonic()
            found = await searched(name, url, budget / len(names))
            for each in found.wrong[:MOST_SHOWN]:
                say(f"{name}: WRONG {each}")
            rate = "—" if found.wrong else bound(found.trials)
            say(f"{name}: {found.told}; {len(found.wrong)} wrong; the rate is {rate} (95 %)")
            minutes = (time.monotonic() - started) / 60
            rows.append(f"| {name} | {minutes:.0f} | {found.trials} | {len(found.wrong)} | {rate} | {found.told} |")
    return rows


HEAD = """| search | minutes | trials | wrong | rate of failure, 95 % | what was tried |
|---|--:|--:|--:|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--budget", type=seconds, default="10m", help="how long, such as 90s, 10m or 2h")
    parser.add_argument("--only", choices=sorted(SOAKS), action="append", help="run these of them")
    parser.add_argument("--report", type=Path, default=Path("build/soak.md"), help="where the table goes")
    arguments = parser.parse_args()
    rows = asyncio.run(run(arguments.only or sorted(SOAKS), arguments.budget))
    table = HEAD + "".join(f"{row}\n" for row in rows)
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text(table)
    say(f"\n{table}")
    return 0 if all(row.split(" | ")[3] == "0" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
