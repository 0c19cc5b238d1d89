"""Asking without a server: real processes prompt in a real terminal."""

import base64
import json
import signal
import socket
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


def test_answering_yes_in_the_terminal_exits_with_0(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("Go on.", after="Comment (optional)")
        code = seat.ended()
    assert code == 0
    assert "Asking in this terminal because no server is configured (ASSENT_URL, ASSENT_TOKEN)." in seat.shown
    assert seat.shown.splitlines()[-2:] == ["\x1b[32mapproved\x1b[0m", "Go on."]
    assert journal(env) == ["created", "responded", "released"]


def test_only_the_answer_is_written_to_standard_output(env: dict[str, str]) -> None:
    with Seat(ask("--option", "red", "--option", "blue", "--json"), env=env, piped=True) as seat:
        seat.types("yes", after="Approve?")
        seat.types("2", after="Number")
        seat.types("", after="Comment (optional)")
        code = seat.ended()
        assert seat.process.stdout is not None
        answer = json.loads(seat.process.stdout.read())
    assert (code, answer["decision"], answer["result"]["option"]) == (0, "approved", "blue")


@pytest.mark.parametrize("key", [CTRL_D, "\n", "sure\n", "no\n"])
def test_any_answer_other_than_yes_exits_with_10(env: dict[str, str], key: str) -> None:
    with Seat(ask(), env=env) as seat:
        seat.presses(key, after="Approve?")
        if key.endswith("\n"):
            seat.types("", after="Reason (optional)")
        assert seat.ended() == 10
    assert journal(env) == ["created", "responded", "released"]


def test_ctrl_c_after_yes_cancels_the_breakpoint(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.presses(CTRL_C, after="Comment (optional)")
        assert seat.ended() == 130
    assert journal(env) == ["created", "cancelled"]


PROMPTS = """
import assent
try:
    print(assent.breakpoint("Deploy?"))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_at_a_programs_prompt_raises_keyboard_interrupt(env: dict[str, str]) -> None:
    with Seat([sys.executable, "-c", PROMPTS], env=env) as seat:
        seat.presses(CTRL_C, after="Approve?")
        assert seat.ended() == 0
    assert "interrupted" in seat.shown
    assert journal(env) == ["created", "cancelled"]


LOOP = """
import assent
attempt = 0
while True:
    attempt += 1
    if assent.breakpoint("Deploy?", attempt=attempt).approved:
        break
"""


def test_a_retry_loop_without_a_terminal_stops_after_one_attempt(env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOP], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert "CannotAsk" in done.stderr
    assert journal(env).count("created") == 1


def test_a_gate_without_a_terminal_exits_with_13(env: dict[str, str]) -> None:
    assert run("gate", "--local", "--", "true", env=env).returncode == 13
    assert run("gate", "--", "true", env=env).returncode == 13


def test_input_typed_before_the_question_is_not_its_answer(env: dict[str, str]) -> None:
    # The shell waits on a pipe, so that the text is typed before the question is printed.
    script = f"echo ready; cat {env['ASSENT_LOCAL_DIR']}.go; exec {sys.executable} -m assent ask 'Shall I?'"
    go = Path(f"{env['ASSENT_LOCAL_DIR']}.go")
    subprocess.run(["mkfifo", str(go)], check=True)
    with Seat(["sh", "-c", script], env=env) as seat:
        seat.types("yes\n", after="ready")
        go.write_text("went\n")
        seat.presses(CTRL_D, after="Approve?")
        assert seat.ended() == 10


def test_kill_9_before_the_answer_records_only_the_question(env: dict[str, str]) -> None:
    with Seat(ask("--gate", "a.gate"), env=env) as seat:
        seat.until("Approve?")
        seat.kill()
    assert journal(env) == ["created"]
    with Seat(ask("--gate", "a.gate"), env=env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment (optional)")
        assert seat.ended() == 0
    assert journal(env) == ["created", "created", "responded", "released"]


def test_closing_the_terminal_does_not_approve(env: dict[str, str]) -> None:
    with Seat(ask(), env=env) as seat:
        seat.until("Approve?")
        seat.process.send_signal(signal.SIGHUP)
        assert seat.ended() != 0
    assert journal(env)[:1] == ["created"]


def test_the_terminal_prompt_ends_at_the_deadline(env: dict[str, str]) -> None:
    with Seat(ask("--ttl", "1"), env=env) as seat:
        assert seat.ended() == 11
    assert journal(env) == ["created", "expired"]


def test_the_local_option_without_a_terminal_exits_with_13(env: dict[str, str]) -> None:
    done = run("ask", "Shall I?", "--local", env=env)
    assert done.returncode == 13
    assert done.stdout == ""
    assert "there is no terminal, and ASSENT_URL and ASSENT_TOKEN are not set" in done.stderr


def test_ask_without_a_terminal_or_server_names_the_missing_settings(env: dict[str, str]) -> None:
    done = run("ask", "Shall I?", env=env)
    assert done.returncode == 13
    assert "ASSENT_URL and ASSENT_TOKEN" in done.stderr


@pytest.mark.parametrize("streams", ["< /dev/null", "2> /dev/null > /dev/null"])
def test_ask_requires_a_terminal_for_both_input_and_output(env: dict[str, str], streams: str) -> None:
    with Seat(["sh", "-c", f"{sys.executable} -m assent ask 'Shall I?' --local {streams}"], env=env) as seat:
        assert seat.ended() == 13


def test_a_background_process_does_not_prompt(env: dict[str, str]) -> None:
    script = f"set -m; {sys.executable} -m assent ask 'Shall I?' --local < /dev/tty & wait $!"
    with Seat(["bash", "-c", script], env=env) as seat:
        assert seat.ended() == 13


def test_the_local_option_overrides_a_configured_server(env: dict[str, str], desk: Desk) -> None:
    with Seat(ask("--local"), env=desk.as_agent() | env) as seat:
        seat.types("yes", after="Approve?")
        seat.types("", after="Comment (optional)")
        assert seat.ended() == 0
    assert "Asking in this terminal because --local is set." in seat.shown


def test_the_no_wait_option_requires_a_server(env: dict[str, str]) -> None:
    assert run("ask", "Shall I?", "--no-wait", env=env).returncode == 2


def test_an_auto_approve_rule_applies_without_a_terminal(env: dict[str, str]) -> None:
    folder = Path(env["ASSENT_LOCAL_DIR"])
    folder.mkdir()
    rule = {"pattern": "nightly.*", "action": "auto-approve"}
    (folder / "rules.json").write_text(json.dumps({"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [rule]}))
    done = run("ask", "Shall I?", "--gate", "nightly.backup", env=env)
    assert (done.returncode, done.stdout) == (0, "approved\n")
    assert "Matched auto-approve rule" in done.stderr
    (folder / "rules.json").write_text("{")
    broken = run("ask", "Shall I?", "--gate", "nightly.backup", "--local", env=env)
    assert broken.returncode == 13
    assert "rules.json is ignored" in broken.stderr


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
def test_a_program_prompts_in_the_terminal(env: dict[str, str], tmp_path: Path, word: str, said: str) -> None:
    (tmp_path / "plan.md").write_text("# The plan")
    with Seat([sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path) as seat:
        seat.types(word, after="Approve?")
        seat.types("Not now." if word == "no" else "", after="(optional)")
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == said
    for text in ("Deploy", "The plan", "Test first.", "prod"):
        assert text in seat.shown


@pytest.mark.parametrize(("word", "said"), [("yes", "went on True"), ("no", "stopped: Rejected.")])
def test_an_async_program_runs_other_tasks_while_it_prompts(env: dict[str, str], word: str, said: str) -> None:
    with Seat([sys.executable, "-c", ASYNC], env=env) as seat:
        seat.types(word, after="Approve?")
        seat.types("", after="(optional)")
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == said


def test_cancelling_an_async_call_ends_its_terminal_prompt(env: dict[str, str]) -> None:
    with Seat([sys.executable, "-c", CANCELLED], env=env) as seat:
        assert seat.ended() == 0
    assert seat.shown.rstrip().splitlines()[-1] == "moved on"


def test_a_program_without_a_terminal_or_server_fails(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# The plan")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "CannotAsk: No reviewer could be asked: there is no terminal, and ASSENT_URL and ASSENT_TOKEN are not set"
        in done.stderr
    )


def test_the_same_program_uses_a_configured_server(desk: Desk, tmp_path: Path) -> None:
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


WAITS = """
import sys
from assent import breakpoint
breakpoint("Deploy?", agent_id=sys.argv[1])
"""
RUNS = """
import sys, asyncio
from assent import abreakpoint
asyncio.run(abreakpoint("Deploy?", agent_id=sys.argv[1]))
"""
APPROVES = """
import sys
from assent import approve
@approve(agent_id=sys.argv[1])
def deploy(): pass
deploy()
"""
APPROVES_ASYNC = """
import sys, asyncio
from assent import approve
@approve(agent_id=sys.argv[1])
async def deploy(): pass
asyncio.run(deploy())
"""
TWO = """
import sys, asyncio
from assent import abreakpoint
async def first():
    await abreakpoint("First?", title="first", agent_id=sys.argv[1])
    print("answered", flush=True)
async def main():
    await asyncio.gather(first(), abreakpoint("Second?", title="second", agent_id=sys.argv[1]))
asyncio.run(main())
"""
BUSY = """
import os, signal, sys, asyncio
from assent import abreakpoint
def said(comment):
    os.kill(os.getpid(), signal.SIGTERM)  # it arrives while the waiting task runs
asyncio.run(abreakpoint("Deploy?", agent_id=sys.argv[1], on_comment=said))
"""
RAISES = """
import sys, asyncio
from assent import abreakpoint, breakpoint
def said(comment):
    raise LookupError("on_comment")
if sys.argv[1].endswith("async"):
    asyncio.run(abreakpoint("Deploy?", agent_id=sys.argv[1], on_comment=said))
else:
    breakpoint("Deploy?", agent_id=sys.argv[1], on_comment=said)
"""
HANDLES = """
import signal, sys
from assent import breakpoint
class Leaving(Exception): pass
def handler(number, frame):
    print("mine", flush=True)
    raise Leaving
signal.signal(signal.SIGTERM, handler)
breakpoint("Deploy?", agent_id=sys.argv[1])
"""
BOUNDED = """
import assent
try:
    assent.breakpoint("Deploy?", timeout=1)
except assent.AssentError as error:
    print(f"{type(error).__name__}: {error.message}")
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
    """Wait until the agent has created its breakpoint, and return the id."""
    with desk.reviewer() as reviewer:
        while not (found := reviewer.list(agent_id=agent).items):
            assert program.poll() is None
    return found[0].id


def started(desk: Desk, program: str, agent: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, agent], env=desk.as_agent(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("way", ["plain", "async", "approve", "approve-async"])
def test_stopping_a_program_cancels_its_breakpoint(desk: Desk, number: signal.Signals, way: str) -> None:
    agent = f"stopped-{way}-{number}"
    programs = {"plain": WAITS, "async": RUNS, "approve": APPROVES, "approve-async": APPROVES_ASYNC}
    program = started(desk, programs[way], agent)
    asked = asked_by(desk, agent, program)
    program.send_signal(number)
    program.communicate(timeout=60)
    assert program.returncode not in {0, None}
    assert desk.found(asked).status == "cancelled"


@pytest.mark.parametrize(
    ("source", "agent"),
    [(BUSY, "busy"), (RAISES, "raises"), (RAISES, "raises-async")],
    ids=["signal", "error", "async-error"],
)
def test_a_program_that_exits_in_its_comment_callback_cancels_its_breakpoint(
    desk: Desk, source: str, agent: str
) -> None:
    program = started(desk, source, agent)
    asked = asked_by(desk, agent, program)
    with desk.reviewer() as reviewer:
        reviewer.comment(asked, "Which version?")
    program.communicate(timeout=60)
    assert program.returncode not in {0, None}
    assert desk.found(asked).status == "cancelled"


def test_answering_one_question_keeps_the_signal_handler_for_the_other(desk: Desk) -> None:
    program = started(desk, TWO, "two")
    with desk.reviewer() as reviewer:
        while len(found := reviewer.list(agent_id="two").items) < 2:
            assert program.poll() is None
        asked = {each.title: each.id for each in found}
        reviewer.approve(asked["first"])
    assert program.stdout is not None
    assert program.stdout.readline() == "answered\n"
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=60)
    assert desk.found(asked["second"]).status == "cancelled"


def test_a_programs_own_sigterm_handler_still_runs(desk: Desk) -> None:
    program = started(desk, HANDLES, "handles")
    asked = asked_by(desk, "handles", program)
    program.send_signal(signal.SIGTERM)
    out, _ = program.communicate(timeout=60)
    assert out == "mine\n"
    assert desk.found(asked).status == "cancelled"


def test_the_timeout_applies_if_the_server_never_responds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = environment(ASSENT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}", ASSENT_TOKEN="t")
        done = subprocess.run(
            [sys.executable, "-c", BOUNDED],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.stdout.startswith("Unreachable")
    assert "gave up after 1 second" in done.stdout


@pytest.mark.parametrize(("more", "quiet"), [({}, False), ({"ASSENT_QUIET": "1"}, True)])
def test_retries_are_reported_on_standard_error_unless_quiet(
    tmp_path: Path, more: dict[str, str], *, quiet: bool
) -> None:
    env = environment(ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t", **more)
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("Unreachable")
    notices = [line for line in done.stderr.splitlines() if line.startswith("assent: waiting for the server")]
    assert len(notices) == (0 if quiet else 1)


def test_cancelling_an_async_call_cancels_its_breakpoint(desk: Desk) -> None:
    program = started(desk, AWAITS, "gave-up")
    asked = asked_by(desk, "gave-up", program)
    out, err = program.communicate("\n", timeout=60)
    assert out == "moved on\n", err
    assert desk.found(asked).status == "cancelled"


def test_interrupting_ask_warns_that_the_breakpoint_may_exist() -> None:
    env = environment(ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t")
    asking = start("ask", "Shall I?", env=env)
    assert asking.stderr is not None
    assert asking.stderr.readline().startswith("Retrying")
    asking.send_signal(signal.SIGINT)
    _, err = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert "The breakpoint may or may not have been created" in err


def test_a_gate_with_a_pinned_receipt_key_runs_nothing_without_a_server(env: dict[str, str], tmp_path: Path) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    done = subprocess.run(
        [*COMMAND, "gate", "--", "touch", str(tmp_path / "ran")],
        env=env | {"ASSENT_RECEIPT_KEY": key},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "do not have receipts" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", [("ask", "--timeout", "1", "Shall I?"), ("gate", "--timeout", "1", "--", "true")])
def test_the_timeout_applies_if_the_server_is_unreachable(command: tuple[str, ...]) -> None:
    done = run(*command, env=environment(ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="asta_x"))
    assert done.returncode == 13
    assert "gave up after" in done.stderr
