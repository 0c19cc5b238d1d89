"""Claude Code's command hook, started the way the client starts it: only an unused approval lets a call run."""

import base64
import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assent.contracts.breakpoints import Breakpoint
from assent.core.claude_code import TTL_SECONDS, read_hook, tool_call
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import COMMAND, environment, here
from tests.support.nodes import free_port, prepared, server

CALL: dict[str, Any] = {
    "hook_event_name": "PreToolUse",
    "session_id": "a-session",
    "cwd": "/srv/shop",
    "tool_name": "Bash",
    "tool_input": {"command": "git push", "timeout": 5},
    "tool_use_id": "toolu_1",
}
DIALOG = {name: value for name, value in CALL.items() if name != "tool_use_id"} | {
    "hook_event_name": "PermissionRequest",
    "permission_suggestions": [],
}
BLOCKED = 2


@contextlib.contextmanager
def rogue() -> Iterator[tuple[str, list[str]]]:
    """Return the URL of a server that must not be contacted, and the requests that it received."""
    called: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            called.append(self.client_address[0])

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", called
        listening.shutdown()


class Hook:
    """A running hook, started the way the client starts it."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self.popen = popen

    def told(self) -> dict[str, Any]:
        """Return the hook's output after it has exited."""
        said, why = self.popen.communicate(timeout=240)
        assert self.popen.returncode == 0, why
        output: dict[str, Any] = json.loads(said)["hookSpecificOutput"]
        return output

    def blocked(self) -> str:
        said, why = self.popen.communicate(timeout=240)
        assert (self.popen.returncode, said) == (BLOCKED, b"")
        return why.decode()


@dataclass
class Place:
    """A server with a reviewer, and the hooks that use it."""

    env: dict[str, str]
    reviewer: Assent
    state: Path

    @contextlib.contextmanager
    def hook(self, call: Any, *options: str, **env: str) -> Iterator[Hook]:
        popen = subprocess.Popen(
            [*COMMAND, "hook", "claude", *options],
            env={"XDG_STATE_HOME": str(self.state)} | self.env | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert popen.stdin is not None
        popen.stdin.write(json.dumps(call).encode())
        popen.stdin.close()
        popen.stdin = None
        with popen:
            try:
                yield Hook(popen)
            finally:
                popen.kill()

    def asked(self, *, number: int = 1) -> list[Breakpoint]:
        while len(waiting := self.reviewer.list(status="waiting").items) < number:
            pass
        return [self.reviewer.get(each.id) for each in waiting]

    def answer(self, approved: bool = True, **more: Any) -> str:  # noqa: FBT001, FBT002  # the meaning is clear without a name
        (asked,) = self.asked()
        self.reviewer.feedback(asked.id, {"approved": approved, "digest": asked.digest, **more})
        return asked.id

    def questions(self) -> int:
        return len(self.reviewer.list().items)


@pytest.fixture
def place(sqlite_settings: Settings, tmp_path: Path) -> Iterator[Place]:
    agent, reviewer = prepared(sqlite_settings, "agent", "admin")
    with server(sqlite_settings) as process, Assent(process.url, reviewer) as client:
        yield Place(environment(ASSENT_URL=process.url, ASSENT_TOKEN=agent), client, tmp_path / "state")


@pytest.fixture
def without_receipts(postgres_settings: Settings, tmp_path: Path) -> Iterator[Place]:
    settings = postgres_settings.model_copy(update={"secret_keys": None})
    agent, reviewer = prepared(settings, "agent", "admin")
    # Without keys, the server never reports ready, but it still handles requests.
    with server(settings, until="/healthz") as process, Assent(process.url, reviewer) as client:
        yield Place(environment(ASSENT_URL=process.url, ASSENT_TOKEN=agent), client, tmp_path / "state")


@pytest.mark.parametrize("stdin", ["", "{", "[]", "null", json.dumps(CALL | {"hook_event_name": "Stop"}), "{}{}"])
def test_invalid_hook_input_blocks_the_call(stdin: str) -> None:
    done = here("hook", "claude", stdin=stdin)
    assert (done.exit_code, done.stdout) == (BLOCKED, "")
    assert "The tool was not run." in done.stderr


@pytest.mark.parametrize("options", [["--ttl", "0"], ["--ttl", "9999999"], ["--no-such-option"]])
def test_invalid_hook_options_block_the_call(options: list[str]) -> None:
    assert here("hook", "claude", *options, stdin=json.dumps(CALL)).exit_code == BLOCKED


def test_an_unreachable_server_and_an_unknown_token_block_the_call(place: Place) -> None:
    with place.hook(CALL, "--patience", "0", ASSENT_URL=f"http://127.0.0.1:{free_port()}") as hook:
        assert "The tool was not run." in hook.blocked()
    with place.hook(CALL, ASSENT_TOKEN=place.env["ASSENT_TOKEN"][:-4] + "0000") as hook:
        assert "The tool was not run." in hook.blocked()
    assert place.questions() == 0


def test_an_unreachable_server_is_not_retried_immediately(place: Place, tmp_path: Path) -> None:
    dead = {"ASSENT_URL": f"http://127.0.0.1:{free_port()}", "XDG_STATE_HOME": str(tmp_path)}
    with place.hook(CALL, "--patience", "0", **dead) as hook:
        assert "cannot connect to" in hook.blocked()
    with place.hook(CALL, **dead) as hook:
        assert "The hook will not retry for another" in hook.blocked()
    with place.hook(CALL, "--patience", "0", "--remember", "0", **dead) as hook:
        assert "cannot connect to" in hook.blocked()
    with place.hook(CALL, XDG_STATE_HOME=str(tmp_path)) as hook:
        place.answer()
        assert hook.told()["permissionDecision"] == "allow", "another server is another matter"


def test_environment_variables_cannot_redirect_a_hook_to_another_server(place: Place) -> None:
    with rogue() as (address, called):
        elsewhere = dict.fromkeys(("ASSENT_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"), address)
        with place.hook(CALL, "--url", place.env["ASSENT_URL"], **elsewhere) as hook:
            place.answer(False)
            assert hook.told()["permissionDecision"] == "deny"
        with place.hook(CALL | {"tool_use_id": "toolu_2"}, "--url", place.env["ASSENT_URL"], **elsewhere) as hook:
            (asked,) = place.asked()
            hook.popen.terminate()
            assert "was cancelled" in hook.blocked()
        assert place.reviewer.get(asked.id).status == "cancelled"
        assert called == []
        with place.hook(CALL | {"tool_use_id": "toolu_3"}, "--patience", "0", "--remember", "0", **elsewhere) as hook:
            hook.blocked()
        assert called, "a hook without an address of its own still follows the environment"


def test_the_token_is_read_from_the_configured_source(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(place.env["ASSENT_TOKEN"] + "\n")
    file.chmod(0o600)
    given = ["--url", place.env["ASSENT_URL"], "--token-file", str(file)]
    with place.hook(CALL, *given, ASSENT_TOKEN="asta_of_somebody_else") as hook:
        place.answer()
        assert hook.told()["permissionDecision"] == "allow"
    file.chmod(0o644)
    with place.hook(CALL, *given) as hook:
        assert "chmod 600" in hook.blocked()
    with place.hook(CALL, "--token-env", "NO_SUCH_VARIABLE") as hook:
        assert "NO_SUCH_VARIABLE" in hook.blocked()


def test_with_a_pinned_key_only_a_receipt_signed_with_it_lets_a_call_run(place: Place) -> None:
    (key,) = place.reviewer.receipt_keys().items
    other = base64.b64encode(bytes(range(32))).decode()
    given = ["--url", place.env["ASSENT_URL"], "--receipt-key"]
    with place.hook(CALL, *given, other, ASSENT_RECEIPT_KEY=key.public_key) as hook:
        place.answer()
        assert "The tool was not run." in hook.blocked()
    with place.hook(CALL | {"session_id": "another"}, *given, key.public_key, ASSENT_RECEIPT_KEY=other) as hook:
        place.answer()
        assert hook.told()["permissionDecision"] == "allow"
    with place.hook(CALL, *given, "no key") as hook:
        assert "not a public key" in hook.blocked()


@pytest.mark.parametrize("by", ["option", "variable"])
def test_with_a_pinned_key_a_server_without_receipts_approves_nothing(without_receipts: Place, by: str) -> None:
    place, key = without_receipts, base64.b64encode(bytes(range(32))).decode()
    options, env = (["--receipt-key", key], {}) if by == "option" else ([], {"ASSENT_RECEIPT_KEY": key})
    with place.hook(CALL, *options, **env) as hook:
        place.answer()
        assert "cannot be verified" in hook.blocked()


def test_an_approval_with_edits_is_returned_in_the_clients_format(place: Place) -> None:
    with place.hook(
        CALL, "--editable", "command", "--tag", "git", "--risk", "low", "--agent-id", "claude-of-olga"
    ) as hook:
        (asked,) = place.asked()
        place.answer(edits={"command": "git push --dry-run"})
        assert hook.told() == {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": "Approved.",
            "updatedInput": {"command": "git push --dry-run", "timeout": 5},
        }
    assert (asked.agent_id, asked.run_id, asked.tags, asked.risk) == ("claude-of-olga", "a-session", ["git"], "low")
    assert (asked.question, asked.payload["directory"]) == ("git push", "/srv/shop")


def test_an_approval_is_valid_for_a_single_call(place: Place) -> None:
    for number in range(5):
        with place.hook(CALL | {"tool_use_id": f"toolu_{number}"}) as hook:
            place.answer()
            assert hook.told()["permissionDecision"] == "allow"
    for call in (CALL, CALL | {"tool_use_id": "toolu_6"}):
        with place.hook(call) as hook:
            place.answer(False, comment="Once was enough.")
            assert hook.told() == {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": "Rejected by owner: Once was enough. The tool was not run.",
            }
    assert place.questions() == 7


def test_two_identical_simultaneous_calls_do_not_share_an_approval(place: Place) -> None:
    with place.hook(CALL) as first:
        place.asked()
        with place.hook(CALL | {"tool_use_id": "toolu_2"}) as second:
            place.answer()
            place.answer(False)
            decisions = [first.told()["permissionDecision"], second.told()["permissionDecision"]]
    assert sorted(decisions) == ["allow", "deny"]


def test_a_killed_hooks_question_is_reused_by_the_next_hook(place: Place) -> None:
    with place.hook(CALL) as hook:
        (asked,) = place.asked()
        hook.popen.kill()
    assert asked.ttl_seconds == TTL_SECONDS, "it does not wait for ever"
    with place.hook(CALL | {"tool_use_id": "toolu_2", "prompt_id": "p2"}) as hook:
        assert place.answer() == asked.id
        assert hook.told()["permissionDecision"] == "allow"
    assert place.questions() == 1


@pytest.mark.parametrize(
    "change", [{"session_id": "another"}, {"cwd": "/"}, {"tool_input": {"command": "git push -f"}}]
)
def test_a_different_call_creates_its_own_question(place: Place, change: dict[str, Any]) -> None:
    with place.hook(CALL) as first, place.hook(CALL | {"tool_use_id": "toolu_2"} | change) as second:
        assert len(place.asked(number=2)) == 2
        first.popen.kill()
        second.popen.kill()


def test_a_hook_whose_client_was_killed_exits_without_consuming_the_approval(place: Place) -> None:
    with place.hook(CALL) as hook:
        place.asked()
        assert hook.popen.stdout is not None
        hook.popen.stdout.close()
        assert hook.popen.wait(240) == BLOCKED
    place.answer()
    with place.hook(CALL | {"tool_use_id": "toolu_2"}) as hook:
        assert hook.told()["permissionDecision"] == "allow"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_a_hook_cancels_its_question(place: Place, number: signal.Signals) -> None:
    with place.hook(CALL) as hook:
        (asked,) = place.asked()
        hook.popen.send_signal(number)
        assert "was cancelled" in hook.blocked()
    assert place.reviewer.get(asked.id).status == "cancelled"


def test_a_permission_dialog_can_be_answered_in_the_inbox(place: Place) -> None:
    with place.hook(DIALOG, "--defer") as hook:
        place.answer(False, comment="Ask Olga.")
        denial = {"behavior": "deny", "message": "Rejected by owner: Ask Olga. The tool was not run."}
        assert hook.told() == {"hookEventName": "PermissionRequest", "decision": denial}
    with place.hook(DIALOG) as hook:
        place.answer()
        assert hook.told()["decision"] == {"behavior": "allow"}


def test_no_dialog_is_shown_when_the_permission_prompt_handles_the_call(place: Place) -> None:
    call = tool_call(read_hook(DIALOG), nonce="prompt")
    payload = call.payload | {"askedBy": "permission-prompt"}
    with Assent(place.env["ASSENT_URL"], place.env["ASSENT_TOKEN"]) as agent:
        agent.create("git push", agent_id="claude-code", run_id="a-session", breakpoint_id="tool.bash", payload=payload)
    with place.hook(DIALOG) as hook:
        said, why = hook.popen.communicate(timeout=240)
        assert (hook.popen.returncode, json.loads(said)) == (0, {}), why
    assert place.questions() == 1


def test_a_question_from_the_model_can_be_answered_in_the_inbox(place: Place) -> None:
    question = {"question": "Which region?", "header": "Region", "options": [{"label": "eu"}, {"label": "us"}]}
    call = CALL | {"tool_name": "AskUserQuestion", "tool_input": {"questions": [question]}}
    with place.hook(call) as hook:
        (asked,) = place.asked()
        place.answer(option="us")
        told = hook.told()
    assert (asked.question, asked.payload["options"]) == ("Which region?", ["eu", "us"])
    assert told["updatedInput"] == call["tool_input"] | {"answers": {"Which region?": "us"}}


def test_a_deferred_call_creates_one_question_and_gets_its_answer_later(place: Place) -> None:
    for _ in range(2):
        with place.hook(CALL, "--defer", CLAUDE_CODE_SESSION_ATTENDED="0") as hook:
            assert hook.told()["permissionDecision"] == "defer"
    place.answer()
    with place.hook(CALL, "--defer") as hook:
        assert hook.told()["permissionDecision"] == "allow"
    assert place.questions() == 1


def test_calls_in_an_attended_session_are_not_deferred(place: Place) -> None:
    with place.hook(CALL, "--defer", CLAUDE_CODE_SESSION_ATTENDED="1") as hook:
        place.answer()
        assert hook.told()["permissionDecision"] == "allow"


def test_without_receipts_an_approval_applies_only_to_its_own_call(without_receipts: Place) -> None:
    place = without_receipts
    with place.hook(CALL) as hook:
        asked = place.answer()
        assert hook.told()["permissionDecision"] == "allow"
    with place.hook(CALL | {"tool_use_id": "toolu_2"}) as hook:
        assert place.answer(False) != asked
        assert hook.told()["permissionDecision"] == "deny"


def test_without_receipts_two_identical_simultaneous_calls_do_not_share_an_approval(without_receipts: Place) -> None:
    place = without_receipts
    with place.hook(CALL) as first:
        place.asked()
        with place.hook(CALL | {"tool_use_id": "toolu_2"}) as second:
            place.answer()
            assert first.told()["permissionDecision"] == "allow"
            place.answer(False)
            assert second.told()["permissionDecision"] == "deny"
