"""The examples in the how-to guides for the shell work with a real make, git, sh and terminal."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import environment
from tests.cli.terminal import Seat
from tests.docs.pages import DOCS
from tests.support.nodes import prepared, server

GATE = DOCS / "how-to" / "gate-a-command.md"
LOCAL = DOCS / "how-to" / "ask-without-a-server.md"
_EXAMPLE = re.compile(r"<!-- example: (?P<name>[a-z]+) -->\n```\w*\n(?P<code>.*?)```\n", re.DOTALL)


def example(page: Path, name: str) -> str:
    (code,) = (found["code"] for found in _EXAMPLE.finditer(page.read_text()) if found["name"] == name)
    return code


@dataclass
class Place:
    """A folder with a program, and a server with a reviewer who answers one question."""

    folder: Path
    env: dict[str, str]
    reviewer: Assent

    def run(self, *command: str, approved: bool, env: dict[str, str] | None = None) -> tuple[int, str, Breakpoint]:
        """Start a command without a terminal, answer its question, and return its result."""
        started = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.env if env is None else env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            while not (waiting := self.reviewer.list(status="waiting").items):
                assert started.poll() is None, started.communicate()[0]
            shown = self.reviewer.get(waiting[0].id)
            self.reviewer.feedback(shown.id, {"release": True, "approved": approved, "digest": shown.digest})
            said = started.communicate(timeout=60)[0]
        finally:
            started.kill()
            started.wait()
        return started.returncode, said, shown

    @property
    def ran(self) -> bool:
        return (self.folder / "ran").exists()


@pytest.fixture
def place(sqlite_settings: Settings, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "CHANGES.md").write_text("- faster start\n")
    for name in ("deploy.sh", "cleanup.sh"):
        (folder / name).write_text("#!/bin/sh\ntouch ran\necho done\n")
        (folder / name).chmod(0o755)
    agent, reviewer = prepared(sqlite_settings, "agent", "reviewer")
    with server(sqlite_settings) as process, Assent(process.url, reviewer) as client:
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        env = environment(ASSENT_URL=process.url, ASSENT_TOKEN=agent, PATH=path)
        yield Place(folder, env, client)


@pytest.mark.parametrize("approved", [True, False])
def test_the_makefile_deploys_only_after_an_approval(place: Place, approved: bool) -> None:  # noqa: FBT001
    (place.folder / "Makefile").write_text(example(GATE, "make"))
    code, said, shown = place.run("make", "deploy", approved=approved)
    assert (code == 0, place.ran) == (approved, approved), said
    assert shown.payload["command"] == ["./deploy.sh"]
    assert (shown.title, shown.tags) == ("Deploy", ["production"])


@pytest.mark.parametrize("approved", [True, False])
def test_the_hook_allows_a_push_to_main_only_after_an_approval(
    place: Place,
    approved: bool,  # noqa: FBT001
) -> None:
    def git(*arguments: str) -> str:
        mail = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        return subprocess.run(
            ["git", *mail, *arguments], cwd=place.folder, env=place.env, capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q", "-b", "main", ".")
    git("init", "-q", "--bare", str(place.folder.parent / "remote.git"))
    git("add", "CHANGES.md")
    git("commit", "-q", "-m", "first")
    git("remote", "add", "origin", str(place.folder.parent / "remote.git"))
    hook = place.folder / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(example(GATE, "hook"))
    hook.chmod(0o755)

    git("push", "-q", "origin", "main:topic")
    code, said, shown = place.run("git", "push", "origin", "main", approved=approved)

    assert (code == 0) == approved, said
    assert (shown.question, shown.gate) == (f"Push {git('rev-parse', 'HEAD').strip()} to main?", "git.push.main")
    assert ("refs/heads/main" in git("ls-remote", "origin")) == approved


@pytest.mark.parametrize("approved", [True, False])
def test_the_cron_job_runs_only_after_an_approval(place: Place, approved: bool) -> None:  # noqa: FBT001
    *settings, line = example(GATE, "cron").splitlines()
    assert [each.partition("=")[0] for each in settings] == ["ASSENT_URL", "ASSENT_TOKEN"]
    command = (
        line.split(maxsplit=5)[5].replace("/srv/app", str(place.folder)).replace("/opt/assent/bin/assent", "assent")
    )
    # Cron provides a similarly minimal environment.
    env = {name: place.env[name] for name in ("ASSENT_URL", "ASSENT_TOKEN", "PATH")} | {"HOME": str(place.folder)}
    code, said, shown = place.run("/bin/sh", "-c", command, approved=approved, env=env)
    assert (code, place.ran) == ((0, True) if approved else (10, False)), said
    assert (shown.gate, shown.ttl_seconds) == ("nightly.cleanup", 7200)


@pytest.mark.parametrize("approved", [True, False])
def test_the_ci_step_runs_only_after_an_approval(place: Place, approved: bool) -> None:  # noqa: FBT001
    (step,) = yaml.safe_load(example(GATE, "ci"))
    assert set(step["env"]) == {"ASSENT_URL", "ASSENT_TOKEN"}
    code, said, shown = place.run(
        "sh", "-e", "-c", step["run"], approved=approved, env=place.env | {"GITHUB_SHA": "abc123", "CI": "true"}
    )
    assert (code, place.ran) == ((0, True) if approved else (10, False)), said
    assert shown.title == "Deploy abc123"
    assert shown.payload["context"]["files"][0]["path"] == "CHANGES.md"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([("yes", "Approve?"), ("2", "Number"), ("", "Comment (optional)")], "Deleting logs and caches."),
        ([("no", "Approve?"), ("Not today.", "Reason (optional)")], "Nothing was deleted: Not today."),
    ],
)
def test_the_program_asks_in_the_terminal(tmp_path: Path, lines: list[tuple[str, str]], said: str) -> None:
    (tmp_path / "plan.md").write_text("# Plan\n")
    (tmp_path / "clean.py").write_text(example(LOCAL, "program"))
    env = environment(ASSENT_LOCAL_DIR=str(tmp_path / "local"))
    with Seat([sys.executable, "clean.py"], env=env, cwd=tmp_path) as seat:
        for text, prompt in lines:
            seat.types(text, after=prompt)
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == said


def test_every_example_on_the_pages_is_run() -> None:
    named = {found["name"] for page in (GATE, LOCAL) for found in _EXAMPLE.finditer(page.read_text())}
    assert named == {"make", "hook", "cron", "ci", "program"}
