"""Asks reviewers about tool calls, once per call even if an agent repeats it, and converts answers to verdicts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from assent.contracts.breakpoints import Breakpoint, Status
from assent.core.canonical import Json, is_object, strict_loads
from assent.core.tool_calls import ToolCall, Verdict, edited, ended, misfits, refused
from assent.sdk.arguments import agreed, described
from assent.sdk.breakpoints import agent_name
from assent.sdk.calls import Calls
from assent.sdk.errors import AssentError, MalformedJson, NotApproved
from assent.sdk.keywords import refuse_unknown
from assent.sdk.protocol import Asking, Flow

__all__ = [
    "Terms",
    "ToolCall",
    "Verdict",
    "asking",
    "decided",
    "plain_arguments",
    "raising",
    "refused",
    "shown_arguments",
    "unasked",
    "verdict",
    "waited",
]


class Terms(TypedDict, total=False):
    """How to ask about an agent's tool calls."""

    agent_id: str
    tags: Sequence[str]
    expert: str | Sequence[str]
    strategy: str
    risk: str
    ttl_seconds: int
    on_timeout: str
    priority: str
    hard_stop: bool
    auto_approve_after_n: int


def asking(call: ToolCall, terms: Terms) -> Asking:
    """Return the arguments that create the breakpoint for a call."""
    refuse_unknown("terms", terms, Terms.__annotations__)
    return cast(
        "Asking",
        {
            **terms,
            "agent_id": terms.get("agent_id") or agent_name(),
            "run_id": call.run_id,
            "title": call.title,
            "breakpoint_id": call.gate,
            "editable": list(call.editable) or None,
            "payload": call.payload,
        },
    )


def plain_arguments(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Json] | None:
    """Return a model's arguments if they are an object in strict JSON, which is unambiguous; otherwise None."""
    try:
        # Serialize parsed arguments too, so that both forms pass the same strict parser.
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        found = strict_loads((text or "{}").encode())
    except (MalformedJson, TypeError, ValueError):
        return None
    return found if is_object(found) else None


def shown_arguments(arguments: str | Mapping[str, Any] | None) -> Mapping[str, Json]:
    """Return a model's arguments as shown to reviewers; if they are not strict JSON, show them as text."""
    plain = plain_arguments(arguments)
    return {"text": described(arguments)} if plain is None else plain


def raising(calls: Calls, call: ToolCall, terms: Terms) -> Flow[Breakpoint]:
    """Create the breakpoint for a call; repeating this for the same call returns the same breakpoint."""
    return calls.create(call.question, idempotency_key=call.key, **asking(call, terms))


def decided(calls: Calls, call: ToolCall, terms: Terms, *, timeout: float | None = None) -> Flow[Verdict]:
    """Ask about a call, wait for the answer, and return what may be done."""
    raised = yield from raising(calls, call, terms)
    status = yield from calls.wait(raised.id, timeout=timeout)
    return verdict(call, status)


def waited(calls: Calls, breakpoint_ids: Sequence[str], *, timeout: float | None = None) -> Flow[list[Status]]:
    """Return all statuses once every breakpoint has ended; raise StillWaiting after `timeout` seconds in total."""
    ends = None if timeout is None else calls.pace.now() + timeout
    found: list[Status] = []
    # Waiting for one after another takes no longer than waiting for all at once: the server keeps the answers.
    for each in breakpoint_ids:
        left = None if ends is None else max(0.0, ends - calls.pace.now())
        found.append((yield from calls.wait(each, timeout=left)))
    return found


def verdict(call: ToolCall, status: Status) -> Verdict:
    """Return what may be done after a breakpoint has ended; only an explicit approval lets the call run."""
    result = status.result
    if not status.approved or result is None:
        by, said = (result.responded_by, result.feedback) if result is not None else (None, None)
        return refused(ended(status.status, by=by, said=said))
    try:
        edits = agreed(result)
    except NotApproved as error:
        return refused(error.message)
    if wrong := misfits(call.arguments, edits):
        return refused(f"The reviewer changed the type of {', '.join(wrong)}.")
    arguments = edited(call, edits)
    if arguments is None:
        return refused("The reviewer changed an argument that is not editable.")
    return Verdict(approved=True, reason=result.feedback or "Approved.", arguments=arguments)


def unasked(error: AssentError) -> Verdict:
    """Return the verdict on a call if no reviewer could be asked."""
    return refused(f"Could not ask a reviewer: {error.message}")
