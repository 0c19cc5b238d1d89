"""Claude Code's command hook: asks about a tool call, waits or defers, and lets an approval be used once."""

import select
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assent.domain.canonical import strict_loads
from assent.domain.claude_code import (
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
from assent.domain.tool_calls import ToolCall
from assent.sdk.calls import Calls, receipt_if_any
from assent.sdk.claude_code import judged, question
from assent.sdk.errors import InvalidReceipt, ReceiptExpired, ReceiptUsed
from assent.sdk.protocol import Flow, creating
from assent.sdk.real_paths import real_paths
from assent.sdk.receipts import Keys, content_digest
from assent.sdk.tool_calls import Terms, refused
from assent.sdk.values import Breakpoint, Summary

BLOCKED = 2
"""The exit code that blocks; with any other but 0 the client goes on, unless it was told otherwise."""
NEWEST = 50
"""How many questions of a session about one tool are looked through for the one to be taken up."""
WAITING_PATIENCE = 30.0
"""Seconds for which the server may be out of reach once the question was asked."""
ATTEMPTS = 10
"""How often people are asked anew about a call whose approval was used by another one like it."""


class ClientGone(Exception):  # no error: what it asked stays, for whoever resumes the session
    """Nobody reads what the hook would say."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A hook's call, and how people are asked about it."""

    hook: Hook
    terms: Terms
    call: ToolCall
    defer: bool = False

    @property
    def body(self) -> dict[str, Any]:
        return question(self.hook, self.call, self.terms)


def wanted(told: bytes, terms: Terms, *, editable: Sequence[str] = (), defer: bool = False) -> Wanted:
    """Read what the client writes to a hook's standard input."""
    hook = read_hook(strict_loads(told))
    hook = replace(hook, real_paths=real_paths(hook.arguments, hook.directory))
    call = tool_call(hook, editable=editable, nonce=uuid.uuid4().hex)
    return Wanted(hook, terms, call, defer and hook.may_defer)


@dataclass(slots=True)
class Asked:
    """The question that stands for a call at this moment: what is taken back when the hook is stopped."""

    wanted: Wanted
    id: str | None = None
    """None until the server has said it."""
    used: bool = False
    """Whether an approval of the same call was found that was acted on before, or is too old for it."""


def settled(
    calls: Calls, asked: Asked, *, still_there: Callable[[], bool], keys: Keys | None = None
) -> Flow[dict[str, Any]]:
    """Ask, and return what the client is to be told; an approval is used by no more than one call.

    With pinned keys, an approval counts only with a receipt that one of them signed.
    """
    hook = asked.wanted.hook
    # Nobody is kept waiting by a server that is down; a question that was asked outlives its restart.
    patient = replace(calls, patience=max(calls.patience, WAITING_PATIENCE), checks_receipts=False)
    if (yield from _prompted(calls, asked)):
        return {}
    for _ in range(ATTEMPTS):
        found = yield from _found(calls, asked)
        asked.id = found.id
        if found.status == "waiting" and asked.wanted.defer:
            return deferred(hook, breakpoint_id=found.id)
        verdict = judged(hook, asked.wanted.call, (yield from patient.wait(found.id)))
        if not verdict.approved:
            return spoken(hook, verdict)
        if not still_there():
            raise ClientGone
        if (yield from _used(patient, asked, found, keys)):
            return spoken(hook, verdict)
        asked.used = True
        asked.wanted = replace(asked.wanted, call=again(asked.wanted.call, found.id))
    return spoken(hook, refused("The approvals have already been used or are too old. Check this machine's clock."))


def _prompted(calls: Calls, asked: Asked) -> Flow[bool]:
    """Return whether the permission prompt is asking about the same dialog: Claude Code runs it beside the hook."""
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
    """Take up the question that this session has asked about the same call, or raise one."""
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


def _likely(items: Sequence[Summary], asked: Asked, body: Mapping[str, Any]) -> Iterator[Summary]:
    """What may be the same question, without having read it whole: those that wait, then those that were approved."""
    same = [each for each in items if each.question == body["payload"]["question"]]
    yield from (each for each in same if each.status == "waiting")
    if not asked.used:
        # Once the newest approval turns out to be used, so are those before it, or nobody remembers them.
        yield from (each for each in same if each.decision == "approved")


def raised(calls: Calls, wanted: Wanted) -> Flow[Breakpoint]:
    """Raise the question of a call; the same call gets the one that it has raised before."""
    return creating(wanted.body, (), key=wanted.call.key, pace=calls.pace, patience=calls.patience)


def _used(calls: Calls, asked: Asked, found: Breakpoint, keys: Keys | None) -> Flow[bool]:
    """Use an approval up; False when it was used before, or is too old to act on."""
    body = asked.wanted.body
    shown = {**body, "payload": {**body["payload"], "callId": found.payload.get("callId")}}
    try:
        receipt = yield from receipt_if_any(calls, found.id)
        if receipt is None and keys is not None:
            msg = "A receipt key is pinned, but the server does not issue receipts, so the approval cannot be verified."
            raise InvalidReceipt(msg)
        if receipt is None:
            # No proof that nobody else has acted on it: only the call that it was raised for may.
            return _is_own(found, asked.wanted.call)
        digest = content_digest(shown, project=receipt.approval.project)
        yield from calls.consume_receipt(receipt, keys=keys, gate=asked.wanted.call.gate, digest=digest)
    except (ReceiptUsed, ReceiptExpired):
        return False
    return True


def left(descriptor: int, *, within: float | None) -> bool:
    """Whether whoever reads what we write is gone; waits for that as many seconds, for ever with None.

    The client starts each hook in a session of its own, so a hook outlives a client that was killed.
    """
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    watch.register(descriptor, 0)
    return bool(watch.poll(None if within is None else within * 1000))
