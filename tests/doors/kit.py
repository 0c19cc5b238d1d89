"""What every front door is tried with: a live server, a reviewer, and an agent in a process of its own.

An agent is a program that wants to run `deploy` with the arguments below, once, behind its door. It takes `--state
DIR`, where it keeps what it needs to go on after it was killed, and `--ttl SECONDS` for how long people have. It prints
`ran {…}` with the arguments when the tool really runs, and `received …` with what the model is told of it.
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

from assent.sdk.client import Assent
from assent.sdk.values import Breakpoint
from tests.docs.pages import ROOT

ARGUMENTS = {"target": "production", "version": "1.4"}
PATIENCE = 240.0


@dataclass(frozen=True, kw_only=True)
class Door:
    """One way for an agent to ask, and what it can carry: a feature it lacks has a reason instead of a tick."""

    name: str
    package: str
    """What has to be installed beside Assent; empty for nothing."""
    program: str
    """The agent behind it, from the root of the project."""
    options: Sequence[str] = ()
    edits: bool = True
    """The reviewer may change the arguments."""
    resumes: bool = True
    """After a kill, the same question is taken up again."""
    how: str
    """How it waits, in a few words."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why it cannot carry what it cannot carry, by the name of the feature."""


@dataclass
class Agent:
    """A running agent, read line by line while it runs."""

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
        """Wait for its end, and that of everything it has started, and return its exit code."""
        code = self.popen.wait(PATIENCE)
        assert self._reader is not None
        self._reader.join(PATIENCE)
        return code

    def kill(self) -> None:
        """kill -9 of the agent and of everything it has started."""
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
    """A live server with a reviewer, and agents that are started at it."""

    url: str
    token: str
    reviewer: Assent
    state: Path
    agent_id: str
    """Of its agents alone: others use the same server."""

    @contextlib.contextmanager
    def agent(self, door: Door, *more: str, url: str | None = None) -> Iterator[Agent]:
        """Start the agent behind a door; it goes on from what an earlier one has left in the same desk's folder."""
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
        """Wait until the agent has asked this many questions that wait for an answer, and return the newest."""
        deadline = time.monotonic() + PATIENCE
        while len(waiting := self.reviewer.list(status="waiting", agent_id=self.agent_id).items) < number:
            assert agent.popen.poll() is None, f"It ended without asking: {agent.lines}"
            assert time.monotonic() < deadline, f"It has not asked: {agent.lines}"
            time.sleep(0.05)  # a list tells nobody that it has changed
        assert len(waiting) == number, waiting
        return self.reviewer.get(waiting[0].id)

    def answer(self, asked: Breakpoint, **answer: Any) -> None:
        self.reviewer.feedback(asked.id, {"digest": asked.digest, **answer})

    def questions(self) -> int:
        return len(self.reviewer.list(agent_id=self.agent_id).items)
