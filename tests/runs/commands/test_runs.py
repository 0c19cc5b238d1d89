"""`assent process` and `assent run` with a real server."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Desk, run, start

SOURCE = '''
from assent import process


def greet(name):
    return f"Hello {name}"


@process(name="greeting")
async def greeting(inputs, ctx):
    """Greets, if it may."""
    said = await ctx.task(greet, inputs["name"])
    ctx.log("will greet", {"as": said})
    await ctx.save_file("greeting.txt", said)
    answer = await ctx.breakpoint(
        "Say it?", title="Star Repository", breakpoint_id="confirm.star-repo", tags=["routine"]
    )
    if not answer.approved:
        raise ValueError(f"not allowed: {answer.feedback}")
    return said
'''


@pytest.fixture(scope="module", autouse=True)
def processes(desk: Desk) -> None:
    folder = desk.data / "processes"
    folder.mkdir(exist_ok=True)
    (folder / "greeting.py").write_text(textwrap.dedent(SOURCE))
    (folder / "broken.py").write_text("raise RuntimeError('on purpose')\n")


def answered(desk: Desk, run_id: str, **answer: Any) -> None:
    """Wait for the run's breakpoint and answer it."""
    with desk.agent() as agent, desk.reviewer() as reviewer:
        while not (asked := [step for step in agent.run(run_id).steps if step.state == "waiting"]):
            pass
        assert asked[0].breakpoint_id is not None
        (reviewer.approve if answer.pop("approved", True) else reviewer.reject)(asked[0].breakpoint_id, **answer)


def test_the_process_list_shows_invalid_processes_with_their_errors(desk: Desk) -> None:
    shown = run("process", "list", env=desk.as_agent())
    assert shown.returncode == 0, shown.stderr
    assert "greeting" in shown.stdout
    assert "on purpose" in shown.stdout
    listed = json.loads(run("process", "list", "--json", env=desk.as_agent()).stdout)["items"]
    assert {each["name"]: each.get("problem") for each in listed} == {
        "greeting": None,
        "broken": "RuntimeError: on purpose",
    }


def test_a_run_can_be_started_awaited_and_exported(desk: Desk, tmp_path: Path) -> None:
    waiting = start("run", "start", "greeting", "--input", "name=Ann", "--wait", env=desk.as_agent())
    assert waiting.stderr is not None
    run_id = waiting.stderr.readline().split()[1].rstrip(".")
    answered(desk, run_id)
    out, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0
    assert out.endswith('done\n"Hello Ann"\n')

    shown = run("run", "show", run_id, env=desk.as_agent()).stdout
    assert "confirm.star-repo" in shown
    assert "greeting.txt" in shown
    logged = run("run", "logs", run_id, env=desk.as_agent()).stdout
    assert 'will greet {"data": {"as": "Hello Ann"}}' in logged
    lines = [json.loads(line) for line in run("run", "logs", run_id, "--json", env=desk.as_agent()).stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert run_id in run("run", "list", "--process", "greeting", "--state", "done", env=desk.as_agent()).stdout

    exported = run("run", "export", run_id, "-o", str(tmp_path / "out"), env=desk.as_agent())
    assert exported.returncode == 0, exported.stderr
    task = json.loads((tmp_path / "out" / "tasks" / "4-confirm.star-repo" / "task.json").read_text())
    assert (task["kind"], task["title"], task["metadata"]["breakpointId"], task["metadata"]["tags"]) == (
        "breakpoint",
        "Star Repository",
        "confirm.star-repo",
        ["routine"],
    )
    assert task["autoApproval"] == {
        "recommended": False,
        "reason": task["autoApproval"]["reason"],
        "consecutiveApprovals": task["autoApproval"]["consecutiveApprovals"],
    }
    assert (tmp_path / "out" / "files" / "greeting.txt").read_text() == "Hello Ann"
    again = run("run", "export", run_id, "-o", str(tmp_path / "out"), env=desk.as_agent())
    assert again.returncode == 2
    assert "empty" in again.stderr


def test_a_failed_run_results_in_exit_code_1_and_can_be_retried(desk: Desk) -> None:
    waiting = start("run", "start", "greeting", "--inputs", '{"name": "Bob"}', "--wait", env=desk.as_agent())
    assert waiting.stderr is not None
    run_id = waiting.stderr.readline().split()[1].rstrip(".")
    answered(desk, run_id, approved=False, comment="Not him.")
    out, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 1
    assert "ValueError: not allowed: Not him." in out
    retried = run("run", "retry", run_id, env=desk.as_agent())
    assert retried.returncode == 0, retried.stderr
    assert "A worker will resume it shortly." in retried.stdout


def test_a_run_can_be_cancelled_only_once(desk: Desk) -> None:
    given = ("--input", "name=1.10", "--input", "count=3", "--input", "tags=[1]")
    started = json.loads(run("run", "start", "greeting", *given, "--json", env=desk.as_agent()).stdout)
    assert started["inputs"] == {"name": "1.10", "count": 3, "tags": [1]}
    run_id = started["id"]
    cancelled = run("run", "cancel", run_id, "--json", env=desk.as_agent())
    assert json.loads(cancelled.stdout)["state"] == "cancelled"
    again = run("run", "cancel", run_id, env=desk.as_agent())
    assert again.returncode == 1
    assert "already cancelled" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["start", "nothing"], "Process 'nothing' not found"),
        (["start", "greeting", "--input", "name"], "is not in the form NAME=VALUE"),
        (["start", "greeting", "--inputs", "{"], "cannot be read as JSON"),
        (["show", "run_none"], "Run run_none not found"),
        (["show", "other"], "is not a run ID"),
    ],
)
def test_errors_are_reported_without_a_traceback(desk: Desk, arguments: list[str], said: str) -> None:
    done = run("run", *arguments, env=desk.as_agent())
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
