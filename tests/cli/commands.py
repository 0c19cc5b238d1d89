"""Helpers that run commands: as separate processes, or in this process if only the data matters."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from assent.cli.main import app
from assent.contracts.breakpoints import Breakpoint
from assent.sdk.client import Assent

COMMAND = [sys.executable, "-m", "assent"]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
    return kept | changes


@dataclass(frozen=True)
class Desk:
    """A running server with an agent and a reviewer."""

    url: str
    data: Path
    agent_token: str
    reviewer_token: str

    def as_agent(self) -> dict[str, str]:
        return environment(ASSENT_URL=self.url, ASSENT_TOKEN=self.agent_token)

    def as_reviewer(self) -> dict[str, str]:
        return environment(ASSENT_URL=self.url, ASSENT_TOKEN=self.reviewer_token)

    def agent(self) -> Assent:
        return Assent(self.url, self.agent_token)

    def reviewer(self) -> Assent:
        return Assent(self.url, self.reviewer_token)

    def asked(self, question: str = "Shall I?", **asking: Any) -> Breakpoint:
        with self.agent() as agent:
            return agent.create(question, **({"agent_id": "tester"} | asking))

    def found(self, breakpoint_id: str) -> Breakpoint:
        with self.reviewer() as reviewer:
            return reviewer.get(breakpoint_id)


def run(*arguments: str, env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a separate process without a terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def start(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def asked_as(process: subprocess.Popen[str]) -> str:
    """Wait until `ask` prints the ID of its question, and return it."""
    assert process.stderr is not None
    return process.stderr.readline().split()[2]


def here(*arguments: str, stdin: str | None = None, **env: str) -> Result:
    """Run a command in this process, so that many commands import the server only once."""
    variables: dict[str, str | None] = {name: None for name in os.environ if name.startswith("ASSENT_")}
    return CliRunner(env=variables | env).invoke(app, list(arguments), input=stdin)


def here_json(*arguments: str, **env: str) -> Any:
    done = here(*arguments, "--json", **env)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
