"""Claude Code's permission prompt, which asks reviewers as the hook does and lets them answer the model's questions."""

import uuid
from collections.abc import Mapping
from typing import Any

from assent.agents.mcp.callers import Caller
from assent.core.canonical import Json
from assent.core.claude_code import ASKED_BY, PROMPT, TTL_SECONDS, Event, Hook, spoken, tool_call
from assent.core.errors import InvalidRequest
from assent.core.tool_calls import ToolCall, Verdict
from assent.sdk.aio import AsyncAssent
from assent.sdk.calls import Calls
from assent.sdk.claude_code import judged, question
from assent.sdk.errors import AssentError
from assent.sdk.protocol import Flow, creating
from assent.sdk.real_paths import real_paths
from assent.sdk.receipts import Keys, content_digest, pinned
from assent.sdk.tool_calls import Terms, refused, unasked

LONG_PATIENCE = 120.0
"""Seconds to retry an unreachable server while Claude Code waits for a permission."""
MOST_EDITABLE = 100


async def permission(
    caller: Caller, tool: str, arguments: Mapping[str, Json], tool_use_id: str | None, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Ask reviewers about a call, and return the response that Claude Code expects."""
    hook = _hook(caller, tool, arguments, environment)
    verdict = await _verdict(caller, hook, tool_use_id, environment)
    decision: dict[str, Any] = spoken(hook, verdict)["hookSpecificOutput"]["decision"]
    return decision | ({"updatedInput": dict(verdict.arguments)} if verdict.approved else {})


def _hook(caller: Caller, tool: str, arguments: Mapping[str, Json], environment: Mapping[str, str]) -> Hook:
    """Return the permission request. Only a server that Claude Code itself started knows the session and the folder.

    The folder is the project's, because Claude Code does not report whether the session has moved to another folder.
    """
    folder = environment.get("CLAUDE_PROJECT_DIR", "")
    return Hook(
        event=Event.PERMISSION_REQUEST,
        session=environment.get("CLAUDE_CODE_SESSION_ID") or caller.agent_id,
        tool=tool,
        arguments=arguments,
        directory=folder,
        real_paths=real_paths(arguments, folder) if folder else {},
    )


async def _verdict(caller: Caller, hook: Hook, tool_use_id: str | None, environment: Mapping[str, str]) -> Verdict:
    try:
        # Some models restart their call IDs in every session, so an earlier answer must not match this call.
        nonce = f"{tool_use_id or 'call'}.{uuid.uuid4().hex}"
        call = tool_call(hook, editable=tuple(hook.arguments)[:MOST_EDITABLE], nonce=nonce)
        terms = Terms(agent_id=caller.agent_id, ttl_seconds=caller.ttl_seconds or TTL_SECONDS)
        body = question(hook, call, terms)
        body["payload"][ASKED_BY] = PROMPT
        keys = pinned(environment)
        async with AsyncAssent(caller.url, caller.token, patience=LONG_PATIENCE) as assent:
            return await assent.perform(_asked(assent.calls, hook, call, body, keys))
    except InvalidRequest as error:
        return refused(error.message)
    except AssentError as error:
        return unasked(error)


def _asked(calls: Calls, hook: Hook, call: ToolCall, body: dict[str, Any], keys: Keys | None) -> Flow[Verdict]:
    raised = yield from creating(body, (), key=call.key, pace=calls.pace, patience=calls.patience)
    verdict = judged(hook, call, (yield from calls.wait(raised.id)))
    if verdict.approved and keys is not None:
        receipt = yield from calls.receipt(raised.id)
        digest = content_digest(body, project=receipt.approval.project)
        yield from calls.consume_receipt(receipt, keys=keys, gate=call.gate, digest=digest)
    return verdict
