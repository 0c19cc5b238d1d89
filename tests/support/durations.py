"""Durations of test files: a table at the end of every run, and a report when a run exceeds its time limit."""

import collections
import os
import signal
import sys
import threading
import time

import pytest

LIMIT_SECONDS = 75 * 60.0
"""CI ends a run after 90 minutes without saying which test hangs."""
FILES_SHOWN = 30


class Durations:
    """Tracks which tests are running, and how long finished tests took, by file."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._milliseconds = collections.Counter[str]()
        self._tests = collections.Counter[str]()
        self._timer = threading.Timer(LIMIT_SECONDS, self._interrupt)
        self._timer.daemon = True

    def pytest_sessionstart(self) -> None:
        self._timer.start()

    def pytest_sessionfinish(self) -> None:
        self._timer.cancel()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._started.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("::")[0]
        self._milliseconds[name] += int(1000 * report.duration)
        self._tests[name] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._milliseconds) > 1:
            terminalreporter.section(f"{FILES_SHOWN} slowest files of {len(self._milliseconds)}")
            terminalreporter.write_line("\n".join(self.slowest()))

    def slowest(self) -> list[str]:
        return [
            f"{spent / 1000:7.1f} s {self._tests[name]:5} tests  {name}"
            for name, spent in self._milliseconds.most_common(FILES_SHOWN)
        ]

    def overdue(self) -> str:
        """Describe the tests that are still running, oldest first, and the slowest files."""
        now = time.monotonic()
        running = [f"{now - started:7.0f} s  {nodeid}" for nodeid, started in list(self._started.items())]
        head = f"Not finished after {LIMIT_SECONDS / 60:.0f} minutes. Running:"
        return "\n".join([head, *running, "Slowest files:", *self.slowest()])

    def _interrupt(self) -> None:
        sys.stderr.write(f"\n{self.overdue()}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGINT)
