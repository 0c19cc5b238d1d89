"""A run that takes too long says what it waits for and ends by itself, before it is ended without a word."""

import collections
import os
import signal
import sys
import threading
import time

import pytest

LIMIT = 75 * 60.0
"""Seconds for everything; CI waits for 90 minutes."""
SHOWN = 20


class Overdue:
    """Knows which tests run at the moment, and what the others took."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._files = collections.Counter[str]()
        self._timer = threading.Timer(LIMIT, self._end)
        self._timer.daemon = True

    def pytest_sessionstart(self) -> None:
        self._timer.start()

    def pytest_sessionfinish(self) -> None:
        self._timer.cancel()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._began.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._files[report.nodeid.partition("::")[0]] += int(1000 * report.duration)

    def said(self) -> str:
        """What runs now, the oldest first, and the files that took longest."""
        now = time.monotonic()
        running = [f"{now - began:7.0f} s  {nodeid}" for nodeid, began in list(self._began.items())]
        longest = [f"{spent / 1000:7.0f} s  {name}" for name, spent in self._files.most_common(SHOWN)]
        return "\n".join([f"Not done after {LIMIT / 60:.0f} minutes. Running:", *running, "Longest files:", *longest])

    def _end(self) -> None:
        sys.stderr.write(f"\n{self.said()}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGINT)
