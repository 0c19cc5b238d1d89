"""Test lanes: every test file is in one, and every exception names existing tests."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.lanes import BOTH_DATABASES, FULL, Shard

ROOT = Path(__file__).parents[2]
SMALL = "tests/mutation"
"""A folder with tests from both lanes that pytest collects quickly."""
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", SMALL, *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:]
    return {line for line in found.stdout.splitlines() if "::" in line}


@cache
def declared() -> dict[str, set[str]]:
    """Return the names of the test functions in each file under tests."""
    return {
        path.relative_to(ROOT).as_posix(): set(_TEST.findall(path.read_text("utf-8")))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }


def test_pytest_collects_every_test_file() -> None:
    outside = [name for name, tests in declared().items() if not tests]
    assert outside == []
    assert {each.partition("::")[0] for each in collected()} == {
        name for name in declared() if name.startswith(f"{SMALL}/")
    }


@pytest.mark.parametrize("prefix", [*FULL, *BOTH_DATABASES])
def test_every_exception_names_tests_that_exist(prefix: str) -> None:
    file, _, test = prefix.partition("::")
    function = test.partition("[")[0]
    assert any(
        name.startswith(file) and any(each.startswith(function) for each in tests) for name, tests in declared().items()
    )


def test_shards_are_disjoint_and_complete() -> None:
    names = [f"tests/test_{number}.py::test" for number in range(200)]
    shards = [Shard.parse(f"{number}/7") for number in range(7)]
    assert all(sum(shard.holds(name) for shard in shards) == 1 for name in names)
    assert all(any(map(shard.holds, names)) for shard in shards)


def test_a_commit_count_selects_a_shard() -> None:
    assert Shard.parse("1234/12") == Shard(10, 12)


def test_the_test_lane_skips_the_slow_tests_outside_the_full_shard() -> None:
    everything, test = collected(), collected("--lane", "test")
    assert everything - test == {each for each in everything if each.startswith(tuple(FULL))} != set()
    assert collected("--lane", "test", "--full-shard", "0/1") == everything


@pytest.mark.parametrize("text", ["1", "1/0", "a/2", "-1/3", ""])
def test_an_invalid_shard_is_rejected(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="--shard takes"):
        Shard.parse(text)
