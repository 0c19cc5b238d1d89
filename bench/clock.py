"""Single deadlines on a machine whose clock is repeatedly set forward and back by an hour."""

import argparse
import asyncio

from assent.kernel.settings import Settings
from bench.report import Report
from tests.faults.clocks import TTL, deadlines
from tests.support.clocks import off_by
from tests.support.nodes import prepared

TRIES = 60


def clock(settings: Settings, report: Report, _: argparse.Namespace) -> None:
    (agent,) = prepared(settings, "agent")
    dialect = "postgresql" if settings.database_url else "sqlite"
    with off_by(settings, -3600) as process:
        off = [each - TTL for each in asyncio.run(deadlines(process, agent, tries=TRIES))]
    for what, seconds in (("earliest", min(off)), ("latest", max(off))):
        label = f"{what} of {len(off)} deadlines while the clock is repeatedly changed by an hour"
        report.fact("clock", dialect, label, f"{seconds * 1000:+.0f} ms", "within 1 s", met=abs(seconds) < 1)
