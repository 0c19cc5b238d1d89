"""The commands that agents use to ask questions, and their exit codes."""

import json
import signal
from pathlib import Path

import pytest

from assent.breakpoints.commands.ask import exit_code
from assent.contracts.breakpoints import BreakpointResult, Status
from assent.sdk.protocol import INLINE_BYTES
from tests.cli.commands import COMMAND, Desk, asked_as, environment, here, run, start
from tests.cli.terminal import CTRL_C, Seat
from tests.support.nodes import free_port


def test_ask_prints_the_chosen_option_and_the_comment(desk: Desk) -> None:
    asking = start("ask", "Which colour?", "--option", "red", "--option", "blue", env=desk.as_agent())
    asked = asked_as(asking)

    with desk.reviewer() as reviewer:
        reviewer.approve(asked, option="blue", comment="Matches.\nReally.")
    out, _ = asking.communicate(timeout=300)

    assert out == "blue\nMatches.\nReally.\n"
    assert asking.returncode == 0


def test_a_rejection_exits_with_10_and_prints_the_reason(desk: Desk) -> None:
    asking = start("ask", "Delete it?", env=desk.as_agent())
    asked = asked_as(asking)

    with desk.reviewer() as reviewer:
        reviewer.reject(asked, comment="Not today.")
    out, _ = asking.communicate(timeout=300)

    assert out == "rejected\nNot today.\n"
    assert asking.returncode == 10


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_signal_during_ask_cancels_the_breakpoint(desk: Desk, number: int, code: int) -> None:
    asking = start("ask", "Shall I?", env=desk.as_agent())
    asked = asked_as(asking)

    asking.send_signal(number)
    out, err = asking.communicate(timeout=300)

    assert (asking.returncode, out) == (code, "")
    assert f"{asked} was cancelled" in err
    assert desk.found(asked).status == "cancelled"


def test_interrupting_wait_leaves_the_breakpoint_pending(desk: Desk) -> None:
    asked = desk.asked()
    with Seat([*COMMAND, "wait", asked.id], env=desk.as_agent()) as seat:
        seat.presses(CTRL_C, after="Waiting for an answer")
        code = seat.ended()

    assert code == 130
    assert f"assent wait {asked.id}" in seat.shown
    assert desk.found(asked.id).status == "waiting"


def test_every_option_of_ask_reaches_the_server(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("# Plan")
    (tmp_path / "big.log").write_bytes(b"x" * (INLINE_BYTES + 1))
    done = run(
        *("ask", "Go?", "--no-wait", "--json", "--title", "Go", "--tag", "a", "--tag", "b", "--agent-id", "bot"),
        *("--run-id", "run-7", "--gate", "confirm.go", "--expert", "owner", "--strategy", "single", "--risk", "high"),
        *("--ttl", "60", "--on-timeout", "reject", "--payload", '{"cost": 12}'),
        *("--file", "plan.md", "--file", "big.log:text"),
        env=desk.as_agent(),
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    found = desk.found(json.loads(done.stdout)["id"])
    assert (found.title, found.question, found.gate) == ("Go", "Go?", "confirm.go")
    assert (found.agent_id, found.run_id, found.tags) == ("bot", "run-7", ["a", "b"])
    assert (found.experts, found.strategy, found.risk) == (["owner"], "single", "high")
    assert (found.ttl_seconds, found.on_timeout, found.payload["cost"]) == (60, "reject", 12)
    assert [file["path"] for file in found.payload["context"]["files"]] == ["plan.md", "big.log"]
    assert all("sha256" in file for file in found.payload["context"]["files"])


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "missing.md"])
def test_a_missing_file_or_one_outside_the_directory_fails_before_contacting_the_server(path: str) -> None:
    done = here("ask", "Go?", "--file", path, ASSENT_URL="http://127.0.0.1:9", ASSENT_TOKEN="t")

    assert done.exit_code == 1
    assert "Error:" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("payload", ["{", "[]", "12"])
def test_a_payload_other_than_a_json_object_is_a_usage_error(payload: str) -> None:
    assert here("ask", "Go?", "--payload", payload, ASSENT_TOKEN="t").exit_code == 2


def test_wait_exits_with_11_for_an_expired_breakpoint(desk: Desk) -> None:
    asked = desk.asked(ttl_seconds=1)

    done = here("wait", asked.id, "--json", **_variables(desk))

    assert done.exit_code == 11
    assert json.loads(done.stdout)["result"]["approved"] is False


def test_wait_exits_with_12_for_a_cancelled_breakpoint(desk: Desk) -> None:
    asked = desk.asked()
    with desk.agent() as agent:
        agent.cancel(asked.id)

    done = here("wait", asked.id, **_variables(desk))

    assert (done.exit_code, done.stdout) == (12, "cancelled\n")


def test_wait_exits_with_14_if_it_times_out_before_the_answer(desk: Desk) -> None:
    asked = desk.asked()

    done = here("wait", asked.id, "--timeout", "0", **_variables(desk))

    assert done.exit_code == 14
    assert f"assent wait {asked.id}" in done.stderr


@pytest.mark.parametrize("command", [["ask", "Go?"], ["wait", "bp_1"]])
def test_an_unreachable_server_exits_with_13(command: list[str]) -> None:
    done = here(*command, "--patience", "0", ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t")

    assert done.exit_code == 13
    assert "Check that the server is running" in done.stderr


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status(status="released", updated_at="t", decision="approved"), 10),
        (Status(status="released", updated_at="t"), 10),
        (
            Status(
                status="expired",
                updated_at="t",
                result=BreakpointResult(approved=True, status="expired", auto=False),
            ),
            11,
        ),
    ],
)
def test_an_inconsistent_status_never_counts_as_an_approval(status: Status, code: int) -> None:
    assert exit_code(status) == code


def test_a_missing_token_error_explains_how_to_create_one() -> None:
    done = run("ask", "Go?", env=environment())

    assert (done.returncode, done.stdout) == (13, "")
    assert "assent token create" in done.stderr
    assert "Traceback" not in done.stderr


def _variables(desk: Desk) -> dict[str, str]:
    return {"ASSENT_URL": desk.url, "ASSENT_TOKEN": desk.agent_token}
