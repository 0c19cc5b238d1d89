"""systemd accepts the units, they shut in what they start, and what they start exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from assent.settings import Settings
from tests.cli.commands import here
from tests.deploy.files import DEPLOY, UNITS, unit
from tests.support.programs import program

INSTALLED = "/opt/assent/bin/assent"
EXPOSURE = 20
"""Tenths, of 100: what systemd calls OK ends at 50."""


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze", package="systemd"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture(params=UNITS)
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit as it is installed, with the program where it is here."""
    command = Path(sys.executable).with_name("assent")
    text = (DEPLOY / request.param).read_text()
    assert text.count(INSTALLED) == 1
    target = tmp_path / str(request.param).replace("@.", "@1.")
    target.write_text(text.replace(INSTALLED, str(command)))
    return target


def test_systemd_finds_nothing_wrong_with_a_unit(placed: Path) -> None:
    done = analyze("verify", "--man=no", str(placed))
    # Other units of the machine are looked at as well, and are not our business.
    assert (done.returncode, [line for line in done.stderr.splitlines() if placed.name in line]) == (0, [])


def test_a_unit_is_shut_in(placed: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", str(placed))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_exists(name: str) -> None:
    (line,) = unit(name)["Service"]["ExecStart"]
    path, command = line.split()
    assert path == INSTALLED
    assert here(command, "--help").exit_code == 0


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_waits_longer_than_the_drain_before_it_kills(name: str) -> None:
    service = unit(name)["Service"]
    assert float(service["TimeoutStopSec"][0]) > 2 * Settings().drain_seconds
    assert service["KillMode"] == ["mixed"]


def test_the_example_of_the_environment_names_settings_that_exist() -> None:
    named = re.findall(r"^#?ASSENT_(\w+)=", (DEPLOY / "assent.env.example").read_text(), re.MULTILINE)
    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)
