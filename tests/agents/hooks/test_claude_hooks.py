"""Claude Code's HTTP hook: it waits for an answer, and no failure looks like an approval."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from assent.kernel.settings import Settings
from tests.api.streams import PATIENCE, parked
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until

PATH = "/api/hooks/claude"
CALL: dict[str, Any] = {
    "hook_event_name": "PreToolUse",
    "session_id": "a-session",
    "transcript_path": "/nowhere",
    "cwd": "/srv/shop",
    "tool_name": "Bash",
    "tool_input": {"command": "git push"},
    "tool_use_id": "toolu_1",
    "what_a_newer_client_says": {"is": ["passed over"]},
}
SECOND = CALL | {"tool_use_id": "toolu_2"}
DIALOG = {name: value for name, value in CALL.items() if name != "tool_use_id"} | {
    "hook_event_name": "PermissionRequest"
}


class Held:
    """A hook request to which the server has not responded yet."""

    def __init__(self, node: Node, call: Any, token: str, query: str = "") -> None:
        self.node = node
        self.task = asyncio.create_task(node.call("POST", PATH + query, token, json=call))

    async def answer(self) -> httpx2.Response:
        async with asyncio.timeout(PATIENCE):
            return await self.task

    async def told(self) -> dict[str, Any]:
        answer = await self.answer()
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()["hookSpecificOutput"]
        return told

    async def decision(self) -> str:
        return str((await self.told())["permissionDecision"])


async def held(node: Node, call: Any, query: str = "", *, waiters: int = 1) -> Held:
    hook = Held(node, call, await node.token("agent"), query)
    await parked(node, waiters=waiters)
    return hook


async def waiting(node: Node) -> list[dict[str, Any]]:
    listed = await node.call("GET", "/api/breakpoints?status=waiting", await node.token("admin"))
    items: list[dict[str, Any]] = listed.json()["items"]
    return items


async def decide(node: Node, *, approved: bool = True, **more: Any) -> str:
    (asked,) = await until(lambda: waiting(node), lambda found: len(found) == 1)
    answer = await node.feedback(asked["id"], await node.token("reviewer"), approved=approved, **more)
    assert answer.status_code == 200, answer.text
    return str(asked["id"])


async def questions(node: Node) -> int:
    listed = await node.call("GET", "/api/breakpoints", await node.token("admin"))
    return len(listed.json()["items"])


async def test_an_approved_call_runs_with_the_reviewers_edits(node: Node) -> None:
    hook = await held(node, CALL, "?ttl=60&editable=command&agentId=claude-of-olga&tag=git&risk=low")
    (asked,) = await waiting(node)
    assert (asked["agentId"], asked["runId"], asked["gate"]) == ("claude-of-olga", "a-session", "tool.bash")
    assert (asked["tags"], asked["risk"], asked["question"]) == (["git"], "low", "git push")
    await decide(node, edits={"command": "git push --dry-run"})
    assert await hook.told() == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "Approved.",
        "updatedInput": {"command": "git push --dry-run"},
    }
    assert node.assent.hub.waiters == 0


async def test_a_rejection_includes_its_reason(node: Node) -> None:
    hook = await held(node, DIALOG)
    await decide(node, approved=False, comment="Not on a Friday.")
    decision = (await hook.told())["decision"]
    assert decision["behavior"] == "deny"
    assert "Not on a Friday." in decision["message"]


async def test_a_call_is_denied_after_its_deadline(node: Node, clock: ManualClock) -> None:
    hook = await held(node, CALL, "?ttl=1")
    clock.advance(1)
    assert (await hook.told())["permissionDecisionReason"] == "No one answered in time. The tool was not run."


async def test_a_comment_does_not_end_the_wait(node: Node) -> None:
    hook = await held(node, CALL)
    (asked,) = await waiting(node)
    await node.feedback(asked["id"], await node.token("reviewer"), comment="Why?")
    await decide(node, approved=False)
    assert await hook.decision() == "deny"


async def test_an_approval_is_used_once(node: Node) -> None:
    for call in (CALL, CALL, SECOND) * 4:
        hook = await held(node, call)
        await decide(node)
        assert await hook.decision() == "allow"
    assert await questions(node) == 12


async def test_two_identical_simultaneous_calls_do_not_share_an_approval(node: Node) -> None:
    hooks = [await held(node, CALL), await held(node, SECOND, waiters=2)]
    await decide(node)
    await decide(node, approved=False)
    assert sorted([await each.decision() for each in hooks]) == ["allow", "deny"]


async def test_a_disconnected_clients_question_is_reused(node: Node) -> None:
    first = await held(node, CALL)
    first.task.cancel()
    await parked(node, waiters=0)
    asked = await decide(node)
    second = Held(node, SECOND, await node.token("agent"))
    assert await second.decision() == "allow"
    assert (await questions(node), [each["id"] for each in await waiting(node)], asked[:3]) == (1, [], "bp_")


async def test_a_question_asked_with_another_token_is_not_reused(node: Node) -> None:
    await held(node, CALL)
    Held(node, SECOND, await node.token("agent", name="another"))
    await parked(node, waiters=2)
    assert len(await waiting(node)) == 2


async def test_an_expired_approval_leads_to_a_new_question(node: Node, clock: ManualClock) -> None:
    first = Held(node, CALL, await node.token("agent"), "?defer=true")
    assert await first.decision() == "defer"
    await decide(node)
    clock.advance(node.assent.settings.receipt_seconds + 1)
    second = Held(node, CALL, await node.token("agent"), "?defer=true")
    assert await second.decision() == "defer"
    assert len(await waiting(node)) == 1


async def test_a_deferred_call_creates_one_question(node: Node) -> None:
    agent = await node.token("agent")
    assert [await Held(node, CALL, agent, "?defer=true").decision() for _ in range(2)] == ["defer", "defer"]
    await decide(node)
    assert await Held(node, CALL, agent, "?defer=true").decision() == "allow"
    assert await questions(node) == 1


async def test_a_rule_can_approve_a_call_without_a_person(node: Node) -> None:
    rule = {"pattern": "tool.bash(payload.arguments.command = 'git push')", "action": "auto-approve"}
    assert (await node.call("POST", "/api/rules", await node.token("admin"), json=rule)).status_code == 201
    assert await Held(node, CALL, await node.token("agent")).decision() == "allow"


async def test_a_node_that_is_stopping_responds_with_503(node: Node) -> None:
    hook = await held(node, CALL)
    node.assent.hub.drain()
    answer = await hook.answer()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert len(await waiting(node)) == 1


async def test_a_revoked_token_ends_the_wait_with_401(node: Node) -> None:
    hook = await held(node, CALL)
    (token,) = node.assent.hub.tokens()
    node.assent.hub.cut(token)
    assert (await hook.answer()).status_code == 401


@pytest.mark.parametrize(
    ("call", "query"),
    [
        (CALL | {"hook_event_name": "Stop"}, ""),
        (CALL | {"tool_input": "rm"}, ""),
        ({**CALL, "tool_use_id": None}, ""),
        ([], ""),
        (CALL, "?ttl=0"),
        (CALL, "?ttl=99999999"),
        (CALL, "?ttl=1.5"),
        (CALL, "?defer=yes"),
        (CALL, "?risk=none"),
        (CALL, "?risks=high"),
        (CALL, "?agentId="),
        (CALL | {"tool_name": "AskUserQuestion"}, ""),
    ],
)
async def test_an_invalid_request_never_gets_a_2xx_response(shared: Node, call: Any, query: str) -> None:
    answer = await shared.call("POST", PATH + query, await shared.token("agent"), json=call)
    assert answer.status_code == 422, answer.text
    assert await questions(shared) == 0


async def test_invalid_json_never_gets_a_2xx_response(shared: Node) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"", b"{", json.dumps(CALL).encode() + b"}", b'{"a": 1, "a": 2}'):
        answer = await shared.call("POST", PATH, await shared.token("agent"), content=content, headers=headers)
        assert answer.status_code in {400, 422}, answer.text


async def test_without_receipts_an_approval_applies_only_to_the_call_itself(postgres_settings: Settings) -> None:
    """Without a signing key, nothing proves that an approval has not been used before."""
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as node:
        first = await held(node, CALL)
        await decide(node)
        assert await first.decision() == "allow"
        second = await held(node, SECOND)
        assert await questions(node) == 2
        second.task.cancel()
        await parked(node, waiters=0)
        third = await held(node, CALL | {"tool_use_id": "toolu_3"})
        assert await questions(node) == 2
        asked = await decide(node)
        assert await decide(node, approved=False) != asked
        assert await third.decision() == "deny"


@pytest.mark.parametrize("call", [CALL, DIALOG])
async def test_without_receipts_two_identical_simultaneous_calls_do_not_share_an_approval(
    postgres_settings: Settings, call: dict[str, Any]
) -> None:
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as node:
        first, second = await held(node, call), await held(node, SECOND, waiters=2)
        await decide(node)
        assert (await first.answer()).status_code == 200
        await decide(node, approved=False)
        assert await second.decision() == "deny"


async def test_a_failure_to_issue_receipts_blocks_the_call(sqlite_settings: Settings) -> None:
    """A call allowed now without a receipt could be allowed again later with one."""
    async with running_node(sqlite_settings) as node:
        sqlite_settings.key_path.write_text("not a key")
        hook = await held(node, CALL)
        await decide(node)
        assert (await hook.answer()).status_code == 503
