"""A gated command runs only if it was approved, and exactly as it was shown."""

import base64
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from tests.cli.commands import COMMAND, Desk, asked_as, environment, here, run
from tests.cli.terminal import CTRL_C, Seat
from tests.support.nodes import free_port, prepared, server


class Gate:
    """A gated command that is waiting for its answer."""

    def __init__(self, desk: Desk, *arguments: str, cwd: Path, **env: str) -> None:
        self.desk = desk
        self.process = subprocess.Popen(
            [*COMMAND, "gate", *arguments],
            env=desk.as_agent() | env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.id = asked_as(self.process)

    def decide(self, *, approved: bool, **answer: Any) -> None:
        with self.desk.reviewer() as reviewer:
            reviewer.feedback(self.id, {"release": True, "approved": approved, **answer})

    def ended(self, stdin: str = "") -> tuple[int, str, str]:
        out, err = self.process.communicate(stdin, timeout=60)
        return self.process.returncode, out, err

    def found(self) -> Breakpoint:
        return self.desk.found(self.id)


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_approved_command_keeps_its_streams_and_exit_code(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--", "sh", "-c", "cat; echo aside >&2; exit 7", cwd=tmp_path)
    gate.decide(approved=True)
    code, out, err = gate.ended("through and through\n")
    assert (code, out) == (7, "through and through\n")
    assert err.endswith("approved\naside\n")
    assert "\x1b" not in err


def test_the_reviewer_sees_the_command_its_directory_and_its_user(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan")
    gate = Gate(
        desk,
        *("--title", "Clean up", "--tag", "disk", "--risk", "low", "--file", "plan.md", "--payload", '{"cost": 1}'),
        *("--", "rm", "-r", "old logs", "--", "-x"),
        cwd=tmp_path,
    )
    gate.decide(approved=False)
    assert gate.ended()[0] == 10
    found = gate.found()
    assert found.payload["command"] == ["rm", "-r", "old logs", "--", "-x"]
    assert found.payload["directory"] == str(tmp_path.resolve())
    assert found.payload["program"].endswith("/rm")
    assert len(found.payload["programSha256"]) == 64
    assert {"user", "host"} <= set(found.payload)
    assert (found.question, found.title) == ("rm -r 'old logs' -- -x", "Clean up")
    assert (found.tags, found.risk, found.payload["cost"]) == (["disk"], "low", 1)
    assert found.payload["context"]["files"][0]["path"] == "plan.md"


@pytest.mark.parametrize(("options", "seconds"), [((), 24 * 3600), (("--ttl", "60"), 60)])
def test_the_question_left_behind_by_a_killed_gate_has_a_deadline(
    desk: Desk, tmp_path: Path, options: tuple[str, ...], seconds: int
) -> None:
    gate = Gate(desk, *options, "--", "touch", "ran", cwd=tmp_path)
    gate.process.kill()
    gate.ended()
    found = gate.found()
    assert (found.status, found.ttl_seconds) == ("waiting", seconds)
    assert found.deadline is not None
    assert not (tmp_path / "ran").exists()


def test_the_output_links_to_the_question(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--", "touch", "ran", cwd=tmp_path)
    assert gate.process.stderr is not None
    assert gate.process.stderr.readline() == f"Answer it at {desk.url}/breakpoints/{gate.id}\n"
    gate.decide(approved=False)
    assert gate.ended()[0] == 10


def test_a_gate_without_a_token_asks_for_an_agent_token(tmp_path: Path) -> None:
    done = run("gate", "--", "touch", "ran", env=environment(ASSENT_URL="http://127.0.0.1:9"), cwd=tmp_path)
    assert done.returncode not in {0, 10}
    assert "assent token create --kind agent" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_each_command_line_has_its_own_gate(desk: Desk, tmp_path: Path) -> None:
    gates = []
    for words in (["true", "/"], ["true", "*"], ["true", "/"]):
        gate = Gate(desk, "--", *words, cwd=tmp_path)
        gate.decide(approved=False)
        gate.ended()
        gates.append(gate.found().gate)
    assert gates[0] == gates[2] != gates[1]
    assert gates[0].startswith("shell.true.")


def test_a_rejected_command_does_not_run(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--", "touch", "ran", cwd=tmp_path)
    gate.decide(approved=False, comment="Not today.")
    code, out, err = gate.ended()
    assert (code, out) == (10, "")
    assert err.endswith("rejected: Not today.\n")
    assert not (tmp_path / "ran").exists()


def test_an_expired_command_does_not_run(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--ttl", "1", "--", "touch", "ran", cwd=tmp_path)
    assert gate.ended()[0] == 11
    assert not (tmp_path / "ran").exists()


def test_a_cancelled_command_does_not_run(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--json", "--", "touch", "ran", cwd=tmp_path)
    with desk.agent() as agent:
        agent.cancel(gate.id)
    code, out, err = gate.ended()
    assert (code, out) == (12, "")
    assert json.loads(err.splitlines()[-1])["status"] == "cancelled"
    assert not (tmp_path / "ran").exists()


def test_an_unreachable_server_exits_with_code_13_and_runs_nothing(tmp_path: Path) -> None:
    env = environment(ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t")
    done = run("gate", "--patience", "0", "--", "touch", "ran", env=env, cwd=tmp_path)
    assert done.returncode == 13
    assert not (tmp_path / "ran").exists()


def test_a_timeout_cancels_the_question(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--timeout", "0.5", "--", "touch", "ran", cwd=tmp_path)
    code, _, err = gate.ended()
    assert code == 14
    assert "No decision within 0.5 seconds. The command was not run." in err
    assert "still pending" not in err.lower()
    assert "still waiting" not in err.lower()
    assert gate.found().status == "cancelled"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_waiting_cancels_the_breakpoint(desk: Desk, tmp_path: Path, number: int, code: int) -> None:
    gate = Gate(desk, "--", "touch", "ran", cwd=tmp_path)
    gate.process.send_signal(number)
    ended, out, err = gate.ended()
    assert (ended, out) == (code, "")
    assert f"{gate.id} was cancelled" in err
    assert gate.found().status == "cancelled"
    assert not (tmp_path / "ran").exists()


def test_ctrl_c_in_a_terminal_cancels_the_breakpoint(desk: Desk, tmp_path: Path) -> None:
    with Seat([*COMMAND, "gate", "--", "touch", "ran"], env=desk.as_agent(), cwd=tmp_path) as seat:
        seat.presses(CTRL_C, after="Waiting for an answer")
        assert seat.ended() == 130
    assert "was cancelled" in seat.shown
    assert not (tmp_path / "ran").exists()


def test_a_signal_ignored_by_the_parent_stays_ignored(desk: Desk, tmp_path: Path) -> None:
    command = f"trap '' HUP; exec {sys.executable} -m assent gate -- echo ran"
    process = subprocess.Popen(
        ["sh", "-c", command],
        env=desk.as_agent(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    asked = asked_as(process)
    process.send_signal(signal.SIGHUP)
    with desk.reviewer() as reviewer:
        reviewer.approve(asked)
    assert process.communicate(timeout=60)[0] == "ran\n"
    assert process.returncode == 0


def test_stopping_while_the_server_is_down_reports_that_the_question_was_not_cancelled(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process:
        gate = Gate(Desk(process.url, settings.data_dir, agent, reviewer), "--", "touch", "ran", cwd=tmp_path)
        process.kill()
        gate.process.send_signal(signal.SIGTERM)
        code, _, err = gate.ended()
    assert code == 143
    assert f"{gate.id} could not be cancelled" in err
    assert f"assent cancel {gate.id}" in err
    assert not (tmp_path / "ran").exists()


def test_signals_are_delivered_to_the_running_command(desk: Desk, tmp_path: Path) -> None:
    loop = "trap 'echo told; exit 5' TERM; echo up; while :; do read line; done"
    gate = Gate(desk, "--", "bash", "-c", loop, cwd=tmp_path)
    gate.decide(approved=True)
    assert gate.process.stdout is not None
    assert gate.process.stdout.readline() == "up\n"
    gate.process.send_signal(signal.SIGTERM)
    code, out, _ = gate.ended()
    assert (code, out) == (5, "told\n")


def test_a_command_that_cannot_be_executed_creates_no_question(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    for words, code in ((["no-such-command"], 127), (["./missing"], 127), (["./plain"], 126), (["/"], 126)):
        done = run("gate", "--agent-id", "never-asked", "--", *words, env=desk.as_agent(), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (code, ""), words
        assert "Traceback" not in done.stderr
    with desk.reviewer() as reviewer:
        assert reviewer.list(agent_id="never-asked").items == []


def test_a_command_that_cannot_be_displayed_does_not_run(desk: Desk, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "gate", "--", "echo", b"\xff\xfe"],
        env=desk.as_agent(),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (126, b"")


def test_a_program_replaced_during_the_review_does_not_run(desk: Desk, tmp_path: Path) -> None:
    program = script(tmp_path / "deploy", "echo good")
    gate = Gate(desk, "--", "./deploy", cwd=tmp_path)
    script(program, "echo evil")
    gate.decide(approved=True)
    code, out, err = gate.ended()
    assert (code, out) == (126, "")
    assert "has changed since it was reviewed" in err


def test_a_file_replaced_during_the_review_blocks_the_command(desk: Desk, tmp_path: Path) -> None:
    script(tmp_path / "deploy.sh", "echo good")
    gate = Gate(desk, "--file", "deploy.sh", "--", "sh", "deploy.sh", cwd=tmp_path)
    script(tmp_path / "deploy.sh", "echo evil")
    gate.decide(approved=True)
    code, out, _ = gate.ended()
    assert (code, out) == (126, "")


def test_a_script_without_a_shebang_cannot_be_started(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "bare").write_text("\x7fnothing")
    (tmp_path / "bare").chmod(0o755)
    gate = Gate(desk, "--", "./bare", cwd=tmp_path)
    gate.decide(approved=True)
    assert gate.ended()[0] == 126


def test_running_the_command_consumes_the_receipt(desk: Desk, tmp_path: Path) -> None:
    gate = Gate(desk, "--", "true", cwd=tmp_path)
    gate.decide(approved=True)
    assert gate.ended()[0] == 0
    with desk.agent() as agent:
        receipt = agent.receipt(gate.id)
        assert receipt.used is not None


def test_a_receipt_signed_with_another_key_blocks_the_command(desk: Desk, tmp_path: Path) -> None:
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    gate = Gate(desk, "--", "touch", "ran", cwd=tmp_path, ASSENT_RECEIPT_KEY=base64.b64encode(other).decode())
    gate.decide(approved=True)
    code, _, err = gate.ended()
    assert code == 1
    assert "key" in err.splitlines()[-1]
    assert not (tmp_path / "ran").exists()


def test_an_invalid_pinned_key_fails_before_a_question_is_created(desk: Desk, tmp_path: Path) -> None:
    env = desk.as_agent() | {"ASSENT_RECEIPT_KEY": "nonsense"}
    done = run("gate", "--agent-id", "no-key", "--", "touch", "ran", env=env, cwd=tmp_path)
    assert done.returncode == 1
    with desk.reviewer() as reviewer:
        assert reviewer.list(agent_id="no-key").items == []


@pytest.mark.parametrize("name", ["command", "program", "directory", "user", "host", "programSha256"])
def test_the_payload_cannot_override_the_displayed_command(name: str) -> None:
    done = here(
        "gate", "--payload", json.dumps({name: "x"}), "--", "true", ASSENT_URL="http://127.0.0.1:9", ASSENT_TOKEN="t"
    )
    assert done.exit_code == 2


def test_omitting_the_command_is_a_usage_error() -> None:
    assert here("gate", "--question", "Go?").exit_code == 2


def test_a_command_approved_in_the_terminal_takes_over_the_terminal(tmp_path: Path) -> None:
    env = environment(ASSENT_LOCAL_DIR=str(tmp_path / "local"))
    command = "read line; echo got $line; exit 3"
    with Seat([*COMMAND, "gate", "--", "sh", "-c", command], env=env, cwd=tmp_path) as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment (optional)")
        seat.types("tea", after="approved")
        assert seat.ended() == 3
    assert "got tea" in seat.shown


@pytest.mark.parametrize("word", ["no", "", "y e s"])
def test_a_command_rejected_in_the_terminal_does_not_run(tmp_path: Path, word: str) -> None:
    env = environment(ASSENT_LOCAL_DIR=str(tmp_path / "local"))
    with Seat([*COMMAND, "gate", "--", "touch", "ran"], env=env, cwd=tmp_path) as seat:
        seat.types(word, after="Approve?")
        seat.types("", after="Reason (optional)")
        assert seat.ended() == 10
    assert not (tmp_path / "ran").exists()


def test_nothing_runs_without_a_server_or_a_terminal(tmp_path: Path) -> None:
    env = environment(ASSENT_LOCAL_DIR=str(tmp_path / "local"))
    for more in ([], ["--local"]):
        done = run("gate", *more, "--", "touch", "ran", env=env, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (13, "")
    assert not (tmp_path / "ran").exists()
