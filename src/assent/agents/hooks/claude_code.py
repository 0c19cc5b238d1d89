"""Claude Code's command hook: asks about a tool call, waits or defers, and lets each approval be used only once."""

import select
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assent.contracts.breakpoints import Breakpoint, BreakpointSummary
from assent.core.canonical import strict_loads
from assent.core.claude_code import (
    Event,
    Hook,
    again,
    deferred,
    left_to_prompt,
    read_hook,
    same_question,
    spoken,
    tool_call,
)
from assent.core.tool_calls import ToolCall
from assent.sdk.calls import Calls, receipt_if_any
from assent.sdk.claude_code import judged, question
from assent.sdk.errors import InvalidReceipt, ReceiptExpired, ReceiptUsed
from assent.sdk.protocol import Flow, creating
from assent.sdk.real_paths import real_paths
from assent.sdk.receipts import Keys, content_digest
from assent.sdk.tool_calls import Terms, refused

BLOCKED = 2
"""The exit code that blocks the call. After other errors, the client continues unless it is configured otherwise."""
NEWEST = 50
"""How many of a session's most recent questions about a tool are checked for the same call."""
WAITING_PATIENCE = 30.0
"""Seconds to retry an unreachable server after the question has been asked."""
ATTEMPTS = 10
"""How many times to ask about a call if identical calls have used its approvals."""


class ClientGone(Exception):  # not an error: the question stays pending for when the session is resumed
    """The client has exited, so nothing reads the hook's output."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tool call passed to the hook, and the terms for asking about it."""

    hook: Hook
    terms: Terms
    call: ToolCall
    defer: bool = False

    @property
    def body(self) -> dict[str, Any]:
        return question(self.hook, self.call, self.terms)


def wanted(told: bytes, terms: Terms, *, editable: Sequence[str] = (), defer: bool = False) -> Wanted:
    """Parse what the client writes to the hook's standard input."""
    hook = read_hook(strict_loads(told))
    hook = replace(hook, real_paths=real_paths(hook.arguments, hook.directory))
    call = tool_call(hook, editable=editable, nonce=uuid.uuid4().hex)
    return Wanted(hook, terms, call, defer and hook.may_defer)


@dataclass(slots=True)
class Asked:
    """The current question about a call, which is cancelled if the hook is stopped."""

    wanted: Wanted
    id: str | None = None
    """None until the server has returned the ID."""
    used: bool = False
    """Whether an approval for the same call was found that had already been used or was too old."""


def settled(
    calls: Calls, asked: Asked, *, still_there: Callable[[], bool], keys: Keys | None = None
) -> Flow[dict[str, Any]]:
    """Ask, and return the hook's output; each approval is used by at most one call.

    With pinned keys, an approval counts only with a receipt that one of them signed.
    """
    hook = asked.wanted.hook
    # A server that is down must not delay the call, but a question that has been asked survives a restart.
    patient = replace(calls, patience=max(calls.patience, WAITING_PATIENCE), checks_receipts=False)
    if (yield from _prompted(calls, asked)):
        return {}
    for _ in range(ATTEMPTS):
        found = yield from _found(calls, asked)
        # Set before waiting, so that a hook that is stopped knows which breakpoint to cancel.
        asked.id = found.id
        if found.status == "waiting" and asked.wanted.defer:
            return deferred(hook, breakpoint_id=found.id)
        verdict = judged(hook, asked.wanted.call, (yield from patient.wait(found.id)))
        if not verdict.approved:
            return spoken(hook, verdict)
        # A client that is gone cannot run the call, so keep the approval for the resumed session.
        if not still_there():
            raise ClientGone
        if (yield from _used(patient, asked, found, keys)):
            return spoken(hook, verdict)
        asked.used = True
        asked.wanted = replace(asked.wanted, call=again(asked.wanted.call, found.id))
    return spoken(hook, refused("The approvals have already been used or are too old. Check this machine's clock."))


def _prompted(calls: Calls, asked: Asked) -> Flow[bool]:
    """Return whether the permission prompt, which Claude Code runs alongside the hook, asks about the same dialog."""
    hook, body = asked.wanted.hook, asked.wanted.body
    if hook.event is not Event.PERMISSION_REQUEST:
        return False
    page = yield from calls.list(
        status=["waiting"], run_id=body["runId"], gate=body["payload"]["breakpointId"], limit=NEWEST
    )
    for each in page.items:
        if left_to_prompt(hook, (yield from calls.get(each.id)).payload):
            return True
    return False


def _is_own(found: Breakpoint, call: ToolCall) -> bool:
    return found.payload.get("callId") == call.call_id


def _found(calls: Calls, asked: Asked) -> Flow[Breakpoint]:
    """Return this session's question about the same call, or create one."""
    body = asked.wanted.body
    page = yield from calls.list(
        status=["waiting", "released"],
        run_id=body["runId"],
        agent_id=body["agentId"],
        gate=body["payload"]["breakpointId"],
        limit=NEWEST,
    )
    for each in _likely(page.items, asked, body):
        whole = yield from calls.get(each.id)
        if _shows(whole, body):
            return whole
    return (yield from raised(calls, asked.wanted))


def _shows(found: Breakpoint, body: Mapping[str, Any]) -> bool:
    tags: Sequence[str] = body.get("tags") or ()
    same = found.title == body["title"] and found.tags == list(dict.fromkeys(tags))
    return same and same_question(found.payload, body["payload"])


def _likely(items: Sequence[BreakpointSummary], asked: Asked, body: Mapping[str, Any]) -> Iterator[BreakpointSummary]:
    """Yield summaries of questions that may be the same: pending ones first, then approved ones."""
    same = [each for each in items if each.question == body["payload"]["question"]]
    yield from (each for each in same if each.status == "waiting")
    if not asked.used:
        # If the newest approval has been used, ignore older ones: they have been used too, or are outdated.
        yield from (each for each in same if each.decision == "approved")


def raised(calls: Calls, wanted: Wanted) -> Flow[Breakpoint]:
    """Create the breakpoint for a call; repeating this for the same call returns the same breakpoint."""
    return creating(wanted.body, (), key=wanted.call.key, pace=calls.pace, patience=calls.patience)


def _used(calls: Calls, asked: Asked, found: Breakpoint, keys: Keys | None) -> Flow[bool]:
    """Consume an approval; return False if it has been used before or is too old."""
    body = asked.wanted.body
    # The question may have been created for an earlier call, whose ID is part of the digest.
    shown = {**body, "payload": {**body["payload"], "callId": found.payload.get("callId")}}
    try:
        receipt = yield from receipt_if_any(calls, found.id)
        if receipt is None and keys is not None:
            msg = "A receipt key is pinned, but the server does not issue receipts, so the approval cannot be verified."
            raise InvalidReceipt(msg)
        if receipt is None:
            # Without proof that the approval is unused, only the call that it was created for may use it.
            return _is_own(found, asked.wanted.call)
        digest = content_digest(shown, project=receipt.approval.project)
        yield from calls.consume_receipt(receipt, keys=keys, gate=asked.wanted.call.gate, digest=digest)
    except (ReceiptUsed, ReceiptExpired):
        return False
    return True


def left(descriptor: int, *, within: float | None) -> bool:
    """Return whether the process that reads our output has exited, waiting up to `within` seconds (None: no limit).

    The client starts each hook in its own session, so a hook survives a client that was killed.
    """
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    # Without requested events, poll still reports that the other end of the pipe was closed.
    watch.register(descriptor, 0)
    return bool(watch.poll(None if within is None else within * 1000))
