"""An installed hook can be started, and runs the Assent installation that installed it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import assent
from assent.agents.hooks.claude_settings import read
from tests.cli.commands import environment

SCRIPT = "from assent.cli.main import run\nrun()\n"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another copy of Assent that Python finds only through PYTHONPATH."""
    folder = tmp_path / "elsewhere"
    shutil.copytree(Path(assent.__file__).parent, folder / "assent", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def install(settings: Path, *start: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = ("hook", "claude", "install", "--settings", str(settings), "--no-pin-key")
    return subprocess.run(
        [*start, *given],
        env=environment(**env),
        cwd=settings.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def started_by(settings: Path) -> list[str]:
    (hook,) = read(settings)["hooks"]["PreToolUse"][0]["hooks"]
    words = [hook["command"], *hook["args"]]
    return words[: words.index("hook")]


def test_the_hook_command_ignores_python_environment_variables(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    done = install(settings, sys.executable, "-m", "assent", PATH="/nowhere")

    assert (done.returncode, done.stderr) == (0, "")
    assert started_by(settings) == [sys.executable, "-I", "-m", "assent"]


def test_a_hook_that_could_not_start_is_not_installed(tmp_path: Path, elsewhere: Path) -> None:
    settings = tmp_path / "settings.json"
    done = install(settings, sys.executable, "-m", "assent", PYTHONPATH=str(elsewhere))

    assert done.returncode == 1
    assert "the hook could not start. Install Assent, or use --program to specify the program" in done.stderr
    assert not settings.exists()


def test_a_script_that_needs_environment_variables_is_installed_with_a_warning(tmp_path: Path, elsewhere: Path) -> None:
    settings, script = tmp_path / "settings.json", tmp_path / "assent"
    script.write_text(f"#!{sys.executable}\n{SCRIPT}")
    script.chmod(0o755)
    done = install(settings, str(script), PYTHONPATH=str(elsewhere))

    assert done.returncode == 0, done.stderr
    assert "anyone who can set PYTHONPATH for the hook can make it load other code" in done.stderr
    assert started_by(settings) == [str(script)]
    assert os.access(started_by(settings)[0], os.X_OK)
