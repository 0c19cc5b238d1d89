"""Asking with no server: in a real terminal, of a real process."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, Desk, environment, run, start
from tests.cli.terminal import CTRL_C, CTRL_D, Seat
from tests.support.nodes import free_port


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(ASSENT_LOCAL_DIR=str(tmp_path / "local"))


def journal(env: dict[str, str]) -> list[str]:
    path = Path(env["ASSENT_LOCAL_DIR"]) / "journal.jsonl"
    return [json.loads(line)["type"] for line in path.read_text().splitlines()]


def ask(*more: str) -> list[str]:
    return [*COMMAND, "ask", "Shall I?", *more]


def test_a_yes_in_the_terminal_is_exit_code_0(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("Go on.", after="Comment?")
        code = seat.ended()
    assert code == 0
    assert "No server is set (ASSENT_URL, ASSENT_TOKEN): asking in this terminal" in seat.shown
    assert seat.shown.splitlines()[-2:] == ["\x1b[32mapproved\x1b[0m", "Go on."]
    assert journal(env) == ["created", "responded", "released"]


def test_the_answer_goes_to_standard_output_and_the_talk_does_not(env: dict[str, str]) -> None:
    with Seat(ask("--option", "red", "--option", "blue", "--json"), env=env, piped=True) as seat:
        seat.types("yes", after="Approve?")
        seat.types("2", after="Number")
        seat.types("", after="Comment?")
        code = seat.ended()
        assert seat.process.stdout is not None
        answer = json.loads(seat.process.stdout.read())
    assert (code, answer["decision"], answer["result"]["option"]) == (0, "approved", "blue")


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D, "\n", "sure\n", "no\n"])
def test_anything_but_a_yes_is_exit_code_10(env: dict[str, str], key: str) -> None:
    with Seat(ask(), env=env) as seat:
        seat.presses(key, after="Approve?")
        if key.endswith("\n"):
            seat.types("", after="Why not?")
        assert seat.ended() == 10
    assert journal(env) == ["created", "responded", "released"]


def test_ctrl_c_after_the_yes_still_rejects(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.presses(CTRL_C, after="Comment?")
        assert seat.ended() == 10


def test_what_was_typed_before_the_question_is_no_answer(env: dict[str, str]) -> None:
    # The shell waits at a pipe until the answer has been typed.
    script = f"echo ready; cat {env['ASSENT_LOCAL_DIR']}.go; exec {sys.executable} -m assent ask 'Shall I?'"
    go = Path(f"{env['ASSENT_LOCAL_DIR']}.go")
    subprocess.run(["mkfifo", str(go)], check=True)
    with Seat(["sh", "-c", script], env=env) as seat:
        seat.types("yes\n", after="ready")
        go.write_text("went\n")
        seat.presses(CTRL_D, after="Approve?")
        assert seat.ended() == 10


def test_kill_9_between_question_and_answer_leaves_a_question_without_an_answer(env: dict[str, str]) -> None:
    with Seat(ask("--gate", "a.gate"), env=env) as seat:
        seat.until("Approve?")
        seat.kill()
    assert journal(env) == ["created"]
    with Seat(ask("--gate", "a.gate"), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment?")
        assert seat.ended() == 0
    assert journal(env) == ["created", "created", "responded", "released"]


def test_a_terminal_that_is_taken_away_is_no_approval(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.until("Approve?")
        seat.process.send_signal(signal.SIGHUP)
        assert seat.ended() != 0
    assert journal(env)[:1] == ["created"]


def test_a_deadline_ends_the_question_in_the_terminal(env: dict[str, str]) -> None:
    with Seat(ask("--ttl", "1"), env=env) as seat:
        assert seat.ended() == 11
    assert journal(env) == ["created", "expired"]


def test_without_a_terminal_it_is_rejected(env: dict[str, str]) -> None:
    done = run("ask", "Shall I?", "--local", env=env)
    assert done.returncode == 10
    assert done.stdout.startswith("rejected\nNobody was asked: there is no terminal here")


def test_without_a_terminal_and_without_a_server_it_says_what_is_missing(env: dict[str, str]) -> None:
    done = run("ask", "Shall I?", env=env)
    assert done.returncode == 2
    assert "ASSENT_URL and ASSENT_TOKEN" in done.stderr


@pytest.mark.parametrize("streams", ["< /dev/null", "2> /dev/null > /dev/null"])
def test_half_a_terminal_is_none(env: dict[str, str], streams: str) -> None:
    with Seat(["sh", "-c", f"{sys.executable} -m assent ask 'Shall I?' --local {streams}"], env=env) as seat:
        assert seat.ended() == 10


def test_in_the_background_nobody_is_asked(env: dict[str, str]) -> None:
    script = f"set -m; {sys.executable} -m assent ask 'Shall I?' --local < /dev/tty & wait $!"
    with Seat(["bash", "-c", script], env=env) as seat:
        assert seat.ended() == 10


def test_local_wins_over_a_server_that_is_set(env: dict[str, str], desk: Desk) -> None:
    with Seat(ask("--local"), env=desk.as_agent() | env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment?")
        assert seat.ended() == 0
    assert "--local: asking in this terminal" in seat.shown


def test_only_a_server_answers_later(env: dict[str, str]) -> None:
    assert run("ask", "Shall I?", "--no-wait", env=env).returncode == 2


def test_a_rule_answers_where_there_is_no_terminal(env: dict[str, str]) -> None:
    folder = Path(env["ASSENT_LOCAL_DIR"])
    folder.mkdir()
    rule = {"pattern": "nightly.*", "action": "auto-approve"}
    (folder / "rules.json").write_text(json.dumps({"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [rule]}))
    done = run("ask", "Shall I?", "--gate", "nightly.backup", env=env)
    assert (done.returncode, done.stdout) == (0, "approved\n")
    assert "Matched auto-approve rule" in done.stderr
    (folder / "rules.json").write_text("{")
    broken = run("ask", "Shall I?", "--gate", "nightly.backup", "--local", env=env)
    assert broken.returncode == 10
    assert "rules.json is not followed" in broken.stderr


# ── in a program ──

SCRIPT = """
from assent import breakpoint
result = breakpoint("Deploy?", title="Deploy", context={"files": [{"path": "plan.md", "format": "markdown"}]},
                    tags=["prod"], attempt=2, previous_feedback="Test first.", risk="low")
print("went on" if result.approved else f"stopped: {result.feedback}")
"""
ASYNC = """
import anyio
from assent import NotApproved, abreakpoint
async def main():
    ticks = 0
    async with anyio.create_task_group() as group:
        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await anyio.sleep(0.001)
        group.start_soon(tick)
        try:
            await abreakpoint("Deploy?", breakpoint_id="deploy", require=True)
            print("went on", ticks > 1)
        except NotApproved as error:
            print(f"stopped: {error.message}")
        group.cancel_scope.cancel()
anyio.run(main)
"""
CANCELLED = """
import anyio
from assent import abreakpoint
async def main():
    with anyio.move_on_after(0.5):
        await abreakpoint("Deploy?")
    print("moved on")
anyio.run(main)
"""


@pytest.mark.parametrize(("word", "said"), [("yes", "went on"), ("no", "stopped: Not now.")])
def test_a_program_asks_in_the_terminal(env: dict[str, str], tmp_path: Path, word: str, said: str) -> None:
    (tmp_path / "plan.md").write_text("# The plan")
    with Seat([sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path) as seat:
        seat.types(word, after="Approve?")
        seat.types("Not now." if word == "no" else "", after="(empty")
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == said
    for text in ("Deploy", "The plan", "Test first.", "prod"):
        assert text in seat.shown


@pytest.mark.parametrize(("word", "said"), [("yes", "went on True"), ("no", "stopped: This was rejected.")])
def test_an_async_program_goes_on_while_it_asks(env: dict[str, str], word: str, said: str) -> None:
    with Seat([sys.executable, "-c", ASYNC], env=env) as seat:
        seat.types(word, after="Approve?")
        seat.types("", after="(empty")
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == said


def test_an_async_program_that_gives_up_asks_no_more(env: dict[str, str]) -> None:
    with Seat([sys.executable, "-c", CANCELLED], env=env) as seat:
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == "moved on"


def test_a_program_without_a_terminal_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# The plan")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.startswith("stopped: Nobody was asked: there is no terminal here")


def test_the_same_program_asks_a_server_when_one_is_set(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# The plan")
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=desk.as_agent() | {"ASSENT_AGENT_ID": "same-program"}, cwd=tmp_path,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    asked = asked_by(desk, "same-program", program)
    with desk.reviewer() as reviewer:
        shown = reviewer.get(asked)
        reviewer.approve(asked)
    assert program.communicate(timeout=60)[0] == "went on\n"
    assert (shown.title, shown.attempt, shown.tags) == ("Deploy", 2, ["prod"])
    assert shown.payload["context"]["files"][0]["path"] == "plan.md"


# ── in a program, with a server ──

WAITS = """
import sys
from assent import breakpoint
breakpoint("Deploy?", agent_id=sys.argv[1])
"""
AWAITS = """
import sys, anyio
from assent import abreakpoint
async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: abreakpoint("Deploy?", agent_id=sys.argv[1]))
        await anyio.to_thread.run_sync(sys.stdin.readline)
        group.cancel_scope.cancel()
    print("moved on")
anyio.run(main)
"""


def asked_by(desk: Desk, agent: str, program: subprocess.Popen[str]) -> str:
    """Wait until the agent's question is there."""
    with desk.reviewer() as reviewer:
        while not (found := reviewer.list(agent_id=agent).items):
            assert program.poll() is None
    return found[0].id


def started(desk: Desk, program: str, agent: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, agent], env=desk.as_agent(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_program_that_is_interrupted_takes_its_question_back(desk: Desk) -> None:
    program = started(desk, WAITS, "interrupted")
    asked = asked_by(desk, "interrupted", program)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=60)
    assert program.returncode not in {0, None}
    assert desk.found(asked).status == "cancelled"


def test_an_async_program_that_gives_up_takes_its_question_back(desk: Desk) -> None:
    program = started(desk, AWAITS, "gave-up")
    asked = asked_by(desk, "gave-up", program)
    out, err = program.communicate("\n", timeout=60)
    assert out == "moved on\n", err
    assert desk.found(asked).status == "cancelled"


def test_who_is_stopped_while_asking_a_server_that_is_not_there_is_told_so() -> None:
    env = environment(ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t")
    asking = start("ask", "Shall I?", env=env)
    assert asking.stderr is not None
    assert asking.stderr.readline().startswith("Trying again")
    asking.send_signal(signal.SIGINT)
    _, err = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert "whether it was asked cannot be told" in err
