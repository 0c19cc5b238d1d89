"""The report on slow and hanging tests."""

import pytest

from tests.support.durations import Durations


def test_an_overdue_run_lists_running_tests_and_slow_files() -> None:
    durations = Durations()
    for name in ("tests/a.py::ended", "tests/b.py::stuck"):
        durations.pytest_runtest_logstart(name)
    location = ("tests/a.py", 1, "ended")
    durations.pytest_runtest_logreport(
        pytest.TestReport("tests/a.py::ended", location, {}, "passed", None, "call", duration=2.0)
    )
    durations.pytest_runtest_logfinish("tests/a.py::ended")

    running, slowest = durations.overdue().split("Slowest files:")
    assert "tests/b.py::stuck" in running
    assert "tests/a.py::ended" not in running
    assert slowest.split() == ["2.0", "s", "1", "tests", "tests/a.py"]
