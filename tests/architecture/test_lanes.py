"""Test lanes: every test file is in one, and every exception names tests that exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lanes import BOTH_DATABASES, FULL, Shard

ROOT = Path(__file__).parents[2]


def collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:]
    return {line for line in found.stdout.splitlines() if "::" in line}


def test_every_test_file_is_in_a_lane() -> None:
    everything, test = collected(), collected("--lane", "test")
    assert test < everything
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    assert {each.partition("::")[0] for each in everything} == files
    for prefix in (*FULL, *BOTH_DATABASES):
        assert any(each.startswith(prefix) for each in everything), f"no test id begins with {prefix}"
    for left_out in FULL:
        assert not any(each.startswith(left_out) for each in test)


def test_shards_are_disjoint_and_complete() -> None:
    names = [f"tests/test_{number}.py::test" for number in range(200)]
    shards = [Shard.parse(f"{number}/7") for number in range(7)]
    assert all(sum(shard.holds(name) for shard in shards) == 1 for name in names)
    assert all(any(map(shard.holds, names)) for shard in shards)


def test_a_commit_count_chooses_a_shard() -> None:
    assert Shard.parse("1234/12") == Shard(10, 12)


def test_the_test_lane_runs_one_shard_in_full() -> None:
    everything, test = collected("tests/faults"), collected("tests/faults", "--lane", "test")
    both = collected("tests/faults", "--lane", "test", "--full-shard", "0/2")
    assert test < both < everything
    assert both == test | set(filter(Shard.parse("0/2").holds, everything))


@pytest.mark.parametrize("text", ["1", "1/0", "a/2", "-1/3", ""])
def test_a_bad_shard_is_refused(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="--shard takes"):
        Shard.parse(text)
