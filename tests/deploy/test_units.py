"""The systemd units are valid and sandboxed, and start existing commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from tests.cli.commands import here
from tests.deploy.files import DEPLOY, UNITS, unit
from tests.support.programs import program

INSTALLED = "/opt/assent/bin/assent"
EXPOSURE = 20
"""Maximum exposure level in tenths; systemd rates up to 50 of 100 as OK."""


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze", package="systemd"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture(params=UNITS)
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An installed unit, with the path of this environment's program."""
    command = Path(sys.executable).with_name("assent")
    text = (DEPLOY / request.param).read_text()
    assert text.count(INSTALLED) == 1
    target = tmp_path / str(request.param).replace("@.", "@1.")
    target.write_text(text.replace(INSTALLED, str(command)))
    return target


def test_systemd_reports_no_problems_in_a_unit(placed: Path) -> None:
    done = analyze("verify", "--man=no", str(placed))
    # systemd-analyze also reports problems in other units of this machine, which are ignored.
    assert (done.returncode, [line for line in done.stderr.splitlines() if placed.name in line]) == (0, [])


def test_a_unit_meets_the_sandboxing_threshold(placed: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", str(placed))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_an_existing_command(name: str) -> None:
    (line,) = unit(name)["Service"]["ExecStart"]
    path, command = line.split()
    assert path == INSTALLED
    assert here(command, "--help").exit_code == 0


@pytest.mark.parametrize("name", UNITS)
def test_the_stop_timeout_of_a_unit_exceeds_the_drain_time(name: str) -> None:
    service = unit(name)["Service"]
    assert float(service["TimeoutStopSec"][0]) > 2 * Settings().drain_seconds
    assert service["KillMode"] == ["mixed"]


def test_the_example_environment_file_names_only_existing_settings() -> None:
    named = re.findall(r"^#?ASSENT_(\w+)=", (DEPLOY / "assent.env.example").read_text(), re.MULTILINE)
    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)
