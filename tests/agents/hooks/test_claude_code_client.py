"""The real Claude Code with Assent's hook: dialogs and the model's questions, which tests/doors does not cover."""

import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultDeny, ToolPermissionContext

from assent.agents.hooks.claude_settings import Gate, installed, write
from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.doors.claude_code_agent import ASSENT, environment
from tests.support.claude import CLAUDE
from tests.support.messages_api import Asked, Turn, has_tool, heard, messages_api
from tests.support.nodes import prepared, server

QUESTION = {
    "question": "Which region?",
    "header": "Region",
    "options": [{"label": "eu", "description": "Frankfurt"}, {"label": "us", "description": "Ohio"}],
    "multiSelect": False,
}
TOUCH = ("Bash", {"command": "touch ran", "description": "Leave a trace"})


@dataclass
class Model:
    """A scripted model that makes its calls once and records their results."""

    calls: Sequence[tuple[str, dict[str, Any]]]
    told: list[str] = field(default_factory=list[str])

    def __call__(self, asked: Asked) -> Turn:
        found = heard(asked)
        self.told += found
        return Turn("Done.") if found or not has_tool(asked, "Bash") else Turn(calls=self.calls)


@dataclass
class Session:
    """A Claude Code session in its own folder, and a reviewer for its questions."""

    folder: Path
    env: dict[str, str]
    model: Model
    reviewer: Assent

    def settings(self, events: Sequence[str], **permissions: Any) -> Path:
        path = self.folder / "settings.json"
        whole = installed({"permissions": permissions}, Gate(program=str(ASSENT), ttl=600))
        hooks = {event: groups for event, groups in whole["hooks"].items() if event in events}
        write(path, whole | {"hooks": hooks})
        return path

    def run(self, *events: str, **permissions: Any) -> "subprocess.Popen[str]":
        command = [str(CLAUDE), "-p", "--settings", str(self.settings(events, **permissions)), "Leave a trace."]
        return subprocess.Popen(
            command, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )

    def deferred(self, *more: str) -> str:
        command = [str(CLAUDE), "-p", "--settings", "settings.json", "--output-format", "json", *more]
        return subprocess.run(
            command,
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def asked(self) -> Breakpoint:
        while not (waiting := self.reviewer.list(status="waiting").items):
            pass
        (found,) = waiting
        return self.reviewer.get(found.id)

    def answer(self, **answer: Any) -> Breakpoint:
        asked = self.asked()
        self.reviewer.feedback(asked.id, {"digest": asked.digest, **answer})
        return asked

    @property
    def ran(self) -> bool:
        return (self.folder / "ran").exists()


@pytest.fixture
def session(sqlite_settings: Settings, tmp_path: Path) -> Iterator[Session]:
    agent, reviewer = prepared(sqlite_settings, "agent", "admin")
    folder = tmp_path / "work"
    folder.mkdir()
    model = Model([TOUCH])
    with ExitStack() as stack:
        process = stack.enter_context(server(sqlite_settings))
        api = stack.enter_context(messages_api(model))
        client = stack.enter_context(Assent(process.url, reviewer))
        env = environment(folder, api) | {"ASSENT_URL": process.url, "ASSENT_TOKEN": agent}
        yield Session(folder, env, model, client)


@pytest.mark.parametrize("events", [["PermissionRequest"], ["PreToolUse", "PermissionRequest"]])
def test_a_dialog_is_answered_in_the_inbox_without_a_second_question(session: Session, events: list[str]) -> None:
    with session.run(*events) as client:
        session.answer(approved=True)
        client.communicate(timeout=240)
    assert session.ran, session.model.told
    assert len(session.reviewer.list().items) == 1


def test_a_rejected_dialog_gives_the_model_the_reason(session: Session) -> None:
    with session.run("PermissionRequest") as client:
        session.answer(approved=False, comment="Not on a Friday.")
        client.communicate(timeout=240)
    assert not session.ran
    assert "Not on a Friday." in " ".join(session.model.told)


def test_stopping_the_client_cancels_its_question(session: Session) -> None:
    with session.run("PreToolUse") as client:
        asked = session.asked()
        client.terminate()
        client.communicate(timeout=240)
    while (status := session.reviewer.get(asked.id).status) == "waiting":
        pass
    assert (status, session.ran) == ("cancelled", False)


def test_an_ask_rule_creates_a_second_question(session: Session) -> None:
    with session.run("PreToolUse", "PermissionRequest", ask=["Bash"]) as client:
        asked = [session.answer(approved=True), session.answer(approved=True)]
        client.communicate(timeout=240)
    assert session.ran
    assert len({each.id for each in asked}) == 2


def test_only_one_of_two_simultaneously_deferred_calls_runs(session: Session) -> None:
    session.model.calls = [TOUCH, ("Bash", {"command": "touch other"})]
    gate = Gate(program=str(ASSENT), ttl=600, defer=True)
    write(session.folder / "settings.json", installed({"permissions": {"allow": ["Bash"]}}, gate))
    name = str(uuid.uuid4())
    begun = session.deferred("--session-id", name, "Leave two traces.")
    assert json.loads(begun)["stop_reason"] == "tool_deferred"
    waiting = session.reviewer.list(status="waiting").items
    for each in waiting:
        session.reviewer.approve(each.id)
    assert json.loads(session.deferred("--resume", name))["stop_reason"] == "end_turn"
    assert len(waiting) == 2
    assert [session.ran, (session.folder / "other").exists()].count(True) == 1


async def test_a_question_from_the_model_can_be_answered_in_the_inbox(session: Session) -> None:
    session.model.calls = [("AskUserQuestion", {"questions": [QUESTION]})]

    async def nobody(tool: str, given: dict[str, Any], context: ToolPermissionContext) -> PermissionResultDeny:
        del given, context
        return PermissionResultDeny(message=f"Nobody sits here who could answer {tool}.")

    options = ClaudeAgentOptions(
        settings=str(session.settings(["PreToolUse"])), env=session.env, cwd=session.folder, can_use_tool=nobody
    )
    answering = threading.Thread(target=session.answer, kwargs={"approved": True, "option": "us"})
    answering.start()
    async with ClaudeSDKClient(options) as client:
        await client.query("Where to?")
        async for _ in client.receive_response():
            pass
    answering.join(240)
    assert any('"Which region?"="us"' in each for each in session.model.told), session.model.told
