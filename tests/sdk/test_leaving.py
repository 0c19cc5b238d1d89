"""A program that exits while waiting cancels its question on the server, whichever call or thread is waiting."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from assent.sdk.leaving import Questions
from tests.cli.commands import Desk
from tests.support.nodes import prepared, server

PROGRAM = Path(__file__).with_name("leaving_program.py")
PLAIN = ["breakpoint", "breakpoint-loop", "require_approval", "Assent.require_approval", "Assent.create+wait",
         "@approve", "@approve(client)"]  # fmt: skip
ASYNC = ["abreakpoint", "AsyncAssent.require_approval", "AsyncAssent.create+wait", "@approve async"]
SIGNALS = [signal.SIGTERM, signal.SIGHUP]
PATIENCE = 120


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("leaving") / "data")
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process:
        yield Desk(process.url, settings.data_dir, agent, reviewer)


def started(desk: Desk, agent: str, entry: str, place: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), agent, entry, place],
        env=desk.as_agent() | {"PYTHONPATH": str(PROGRAM.parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def waiting(desk: Desk, agent: str, program: subprocess.Popen[str]) -> str:
    """Return the ID of the agent's question once it is on the server and the program is waiting for the answer."""
    with desk.reviewer() as reviewer:
        while not (found := reviewer.list(agent_id=agent).items):
            assert program.poll() is None, program.communicate()[1]
    if "create+wait" in agent:
        assert program.stdout is not None
        assert program.stdout.readline() == "waiting\n"
    return found[0].id


def statuses(desk: Desk, agent: str) -> list[str]:
    with desk.reviewer() as reviewer:
        return [each.status for each in reviewer.list(agent_id=agent).items]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize(
    ("entry", "place"),
    [(entry, place) for entry in PLAIN + ASYNC for place in ("main", "thread", "daemon")],
)
def test_a_terminating_signal_cancels_the_awaited_breakpoint(
    desk: Desk, entry: str, place: str, number: signal.Signals
) -> None:
    agent = f"{entry}-{place}-{number.name}"
    program = started(desk, agent, entry, place)
    waiting(desk, agent, program)
    program.send_signal(number)
    program.wait(timeout=PATIENCE)
    out, errors = program.communicate()
    assert (program.returncode, out, errors) == (-number, "", "")
    assert statuses(desk, agent) == ["cancelled"]


def test_a_program_that_survives_the_signal_exits_after_cancelling(desk: Desk) -> None:
    program = started(desk, "unkillable", "breakpoint", "main-unkillable")
    waiting(desk, "unkillable", program)
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=PATIENCE)
    assert program.returncode == 128 + signal.SIGTERM
    assert statuses(desk, "unkillable") == ["cancelled"]


def test_a_question_is_registered_until_its_last_wait_ends() -> None:
    waits, seconds_left = Questions(), list[float]()
    for _ in range(2):
        waits.enter("bp_1", seconds_left.append)
    waits.leave("bp_1")
    waits.cancel_all()
    assert len(seconds_left) == 1


def test_an_interrupted_wait_is_cancelled_at_exit_unless_the_program_waits_again() -> None:
    for again, expected in ((False, 1), (True, 0)):
        waits, seconds_left = Questions(), list[float]()
        waits.enter("bp_1", seconds_left.append)
        waits.leave("bp_1", keep=True)
        if again:
            waits.enter("bp_1", seconds_left.append)
            waits.leave("bp_1")
        waits.cancel_all()
        assert len(seconds_left) == expected


@pytest.mark.parametrize("entry", PLAIN + ASYNC)
def test_exiting_cancels_the_breakpoints_awaited_by_daemon_threads(desk: Desk, entry: str) -> None:
    agent = f"{entry}-exit"
    program = started(desk, agent, entry, "daemon")
    waiting(desk, agent, program)
    out, errors = program.communicate("\n", timeout=PATIENCE)
    assert (program.returncode, out, errors) == (0, "", "")
    assert statuses(desk, agent) == ["cancelled"]


@pytest.mark.parametrize("place", ["main-handler-exits", "daemon-handler-exits"])
@pytest.mark.parametrize("entry", ["breakpoint", "Assent.require_approval", "Assent.create+wait"])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_custom_handler_can_exit_the_program_which_cancels_the_question(
    desk: Desk, entry: str, place: str, number: signal.Signals
) -> None:
    agent = f"{entry}-{place}-{number.name}"
    program = started(desk, agent, entry, place)
    waiting(desk, agent, program)
    program.send_signal(number)
    program.wait(timeout=PATIENCE)
    out, _ = program.communicate()
    assert (program.returncode, out.splitlines()[0]) == (3, "mine")
    assert statuses(desk, agent) == ["cancelled"]


@pytest.mark.parametrize("place", ["main-handler", "daemon-handler"])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_question_stays_open_if_a_custom_handler_does_not_exit_the_program(
    desk: Desk, place: str, number: signal.Signals
) -> None:
    agent = f"{place}-{number.name}"
    program = started(desk, agent, "@approve", place)
    asked = waiting(desk, agent, program)
    program.send_signal(number)
    assert program.stdout is not None
    assert program.stdout.readline() == "mine\n"
    with desk.reviewer() as reviewer:
        reviewer.approve(asked)
    assert program.stdout.readline() == "deployed\n"
    program.communicate("\n", timeout=PATIENCE)
    assert program.returncode == 0


FORKS = """
import os, signal, sys, threading
import assent
threading.Thread(target=lambda: assent.breakpoint("Deploy?", agent_id=sys.argv[1]), daemon=True).start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    sys.stdin.readline()
    os._exit(0)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
sys.stdin.readline()
"""


def test_a_signal_to_a_forked_child_does_not_cancel_the_parents_question(desk: Desk) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", FORKS, "forks"],
        env=desk.as_agent(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    waiting(desk, "forks", program)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    assert program.stdout.readline() == f"{-signal.SIGTERM}\n"
    assert statuses(desk, "forks") == ["waiting"]
    program.communicate("\n", timeout=PATIENCE)
    assert statuses(desk, "forks") == ["cancelled"]


WAITS_WITH_KEY = """
import os, sys
import assent
client = assent.Assent()
print(asked := client.create("Deploy?", agent_id="keyed", idempotency_key="deploy-1").id, flush=True)
client.wait(asked)
"""


def test_a_question_with_an_explicit_key_stays_open_for_the_next_start(desk: Desk) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", WAITS_WITH_KEY], env=desk.as_agent(), stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    asked = program.stdout.readline().strip()
    program.terminate()
    program.communicate(timeout=PATIENCE)
    assert desk.found(asked).status == "waiting"


def test_signal_handlers_are_restored_after_the_last_wait(desk: Desk) -> None:
    code = "import assent, os; assent.breakpoint('Go?', agent_id='after'); print('on', flush=True); input()"
    program = subprocess.Popen(
        [sys.executable, "-c", code], env=desk.as_agent(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    asked = waiting(desk, "after", program)
    with desk.reviewer() as reviewer:
        reviewer.reject(asked)
    assert program.stdout is not None
    assert program.stdout.readline() == "on\n"
    caught = Path(f"/proc/{program.pid}/status")
    if caught.exists():
        mask = int(next(line.split()[1] for line in caught.read_text().splitlines() if line.startswith("SigCgt")), 16)
        assert [number for number in SIGNALS if mask & (1 << (number - 1))] == []
    os.kill(program.pid, signal.SIGTERM)
    program.communicate(timeout=PATIENCE)
    assert program.returncode == -signal.SIGTERM
