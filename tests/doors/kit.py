"""Test kit for every integration: a live server, a reviewer, and an agent in its own process.

An agent is a program that tries to run `deploy` once with the arguments below, through its integration. It takes
`--state DIR`, where it saves what it needs to resume after it is killed, and `--ttl SECONDS`, the time
allowed for an answer. It prints `ran {…}` with the arguments when the tool actually runs, and `received …` with the
result for the model.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assent.contracts.breakpoints import Breakpoint
from assent.sdk.client import Assent
from tests.docs.pages import ROOT

ARGUMENTS = {"target": "production", "version": "1.4"}
PATIENCE = 240.0


@dataclass(frozen=True, kw_only=True)
class Door:
    """An integration and the features it supports; each unsupported feature has a reason."""

    name: str
    package: str
    """The package to install in addition to Assent; empty if none is required."""
    program: str
    """The agent's program, relative to the root of the project."""
    options: Sequence[str] = ()
    edits: bool = True
    """Whether the reviewer can change the arguments."""
    resumes: bool = True
    """Whether a restarted agent resumes the same question."""
    how: str
    """How the integration waits, in a few words."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """For each unsupported feature, the reason why it is not supported."""


@dataclass
class Agent:
    """A running agent whose output is read line by line."""

    popen: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list[str])
    _reader: threading.Thread | None = None

    def listen(self) -> "Agent":
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))

    def ended(self) -> int:
        """Wait until the agent and all processes that it started have ended, and return its exit code."""
        code = self.popen.wait(PATIENCE)
        assert self._reader is not None
        self._reader.join(PATIENCE)
        return code

    def kill(self) -> None:
        """Send SIGKILL to the agent and to all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, 9)
        self.ended()

    @property
    def ran(self) -> list[dict[str, Any]]:
        return [json.loads(line.removeprefix("ran ")) for line in self.lines if line.startswith("ran ")]

    @property
    def heard(self) -> str:
        return "\n".join(line.removeprefix("received ") for line in self.lines if line.startswith("received "))


@dataclass
class Desk:
    """A live server with a reviewer, and the agents that use it."""

    url: str
    token: str
    reviewer: Assent
    state: Path
    agent_id: str
    """The agent ID of this desk, because other tests use the same server."""

    @contextlib.contextmanager
    def agent(self, door: Door, *more: str, url: str | None = None) -> Iterator[Agent]:
        """Start an integration's agent; it resumes from the state that an earlier agent saved in the desk's folder."""
        environment = os.environ | {
            "ASSENT_URL": url or self.url,
            "ASSENT_TOKEN": self.token,
            "ASSENT_AGENT_ID": self.agent_id,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
        }
        started = subprocess.Popen(
            [sys.executable, str(ROOT / door.program), "--state", str(self.state), *door.options, *more],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=self.state,
        )
        agent = Agent(started).listen()
        try:
            yield agent
        finally:
            agent.kill()

    def asked(self, agent: Agent, *, number: int = 1) -> Breakpoint:
        """Wait until the agent has this many pending questions, and return the newest."""
        deadline = time.monotonic() + PATIENCE
        while len(waiting := self.reviewer.list(status="waiting", agent_id=self.agent_id).items) < number:
            assert agent.popen.poll() is None, f"It ended without asking: {agent.lines}"
            assert time.monotonic() < deadline, f"It has not asked: {agent.lines}"
            time.sleep(0.05)  # the list endpoint does not notify clients of changes
        assert len(waiting) == number, waiting
        return self.reviewer.get(waiting[0].id)

    def answer(self, asked: Breakpoint, **answer: Any) -> None:
        self.reviewer.feedback(asked.id, {"digest": asked.digest, **answer})

    def questions(self) -> int:
        return len(self.reviewer.list(agent_id=self.agent_id).items)
