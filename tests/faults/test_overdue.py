"""A run of the tests that takes too long says what it waits for."""

import pytest

from tests.support.overdue import Overdue


def test_what_runs_and_what_took_long_is_told() -> None:
    overdue = Overdue()
    for name in ("tests/a.py::ended", "tests/b.py::stuck"):
        overdue.pytest_runtest_logstart(name)
    location = ("tests/a.py", 1, "ended")
    overdue.pytest_runtest_logreport(
        pytest.TestReport("tests/a.py::ended", location, {}, "passed", None, "call", duration=2.0)
    )
    overdue.pytest_runtest_logfinish("tests/a.py::ended")

    running, longest = overdue.said().split("Longest files:")
    assert "tests/b.py::stuck" in running
    assert "tests/a.py::ended" not in running
    assert longest.split() == ["2", "s", "tests/a.py"]
