"""The MCP tools, which let an agent ask, read, wait, comment and cancel, but not decide."""

import json
import os
from typing import Annotated, Any, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import InputRequiredResult
from pydantic import Field

from assent.agents.mcp import tool_results as told
from assent.agents.mcp.callers import Call, Caller, Callers
from assent.agents.mcp.elicitation import can_elicit, first_round, in_one_call, in_rounds, second_round, settled
from assent.agents.mcp.forms import NOTHING, Filled, form
from assent.agents.mcp.permission import permission
from assent.agents.mcp.waits import reached, waited
from assent.contracts.breakpoints import Breakpoint
from assent.core.canonical import sha256
from assent.core.fields import BY_NAME
from assent.sdk.aio import AsyncAssent
from assent.sdk.calls import check_pinned
from assent.sdk.errors import AssentError
from assent.sdk.protocol import Asking
from assent.sdk.tool_calls import plain_arguments, refused

LONGEST_WAIT = 50
"""Seconds; many clients abort a call after 60."""

Id = Annotated[str, Field(description="breakpointId of one of your breakpoints; starts with bp_")]
Question = Annotated[str, Field(description=BY_NAME["question"].help)]
Title = Annotated[str | None, Field(description=BY_NAME["title"].help)]
Gate = Annotated[str | None, Field(description=BY_NAME["breakpoint_id"].help)]
Tags = Annotated[list[str] | None, Field(description=BY_NAME["tags"].help)]
Options = Annotated[list[str] | None, Field(description=BY_NAME["options"].help)]
Experts = Annotated[list[str] | None, Field(description=BY_NAME["expert"].help)]
Strategy = Annotated[
    Literal["single", "first-response-wins", "collect-all", "quorum"] | None,
    Field(description=BY_NAME["strategy"].help),
]
Risk = Annotated[Literal["low", "medium", "high"] | None, Field(description=BY_NAME["risk"].help)]
HardStop = Annotated[bool | None, Field(description=BY_NAME["hard_stop"].help)]
Ttl = Annotated[int | None, Field(ge=1, description=BY_NAME["ttl_seconds"].help)]
OnTimeout = Annotated[Literal["expire", "reject"] | None, Field(description=BY_NAME["on_timeout"].help)]
Editable = Annotated[list[str] | None, Field(description=BY_NAME["editable"].help)]
RunId = Annotated[str | None, Field(description=BY_NAME["run_id"].help)]
Payload = Annotated[
    dict[str, Any] | None,
    Field(description="Everything that reviewers need in order to decide, such as the command, arguments or diff"),
]
Key = Annotated[
    str | None,
    Field(description="Idempotency key of your choice; the same key returns the same breakpoint, even after a restart"),
]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="Maximum number of seconds to wait in this call")]


class Tools:
    """The tools for agents; each returns one block of JSON."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def create_breakpoint(  # noqa: PLR0913  # the arguments of a question
        self,
        call: Call,
        *,
        question: Question,
        title: Title = None,
        gate: Gate = None,
        tags: Tags = None,
        options: Options = None,
        expert: Experts = None,
        strategy: Strategy = None,
        risk: Risk = None,
        hard_stop: HardStop = None,
        ttl_seconds: Ttl = None,
        on_timeout: OnTimeout = None,
        editable: Editable = None,
        payload: Payload = None,
        run_id: RunId = None,
        key: Key = None,
    ) -> str:
        """Request human approval for an action, and return immediately with a breakpointId.

        This does not approve anything. Call wait_for_breakpoint with the breakpointId until status is no longer
        "waiting", and continue only if approved is true.
        """
        caller = self._callers(call)
        asking = Asking(
            agent_id=caller.agent_id,
            title=title,
            breakpoint_id=gate,
            tags=tags,
            options=options,
            expert=expert,
            strategy=strategy,
            risk=risk,
            hard_stop=hard_stop,
            ttl_seconds=ttl_seconds or caller.ttl_seconds,
            on_timeout=on_timeout,
            editable=editable,
            payload=payload,
            run_id=run_id,
        )
        async with reached(caller) as assent:
            asked = await assent.create(question, idempotency_key=_once(key), **asking)
            await assent.perform(check_pinned(assent.calls, asked.id, told.standing(asked)))
        warnings = asked.warnings or None
        return told.text({**told.outcome(asked.id, told.standing(asked)), "gate": asked.gate, "warnings": warnings})

    async def get_breakpoint(self, call: Call, breakpoint_id: Id) -> str:
        """Return one of your breakpoints in full: the question, the comments and the current status."""
        async with reached(self._callers(call)) as assent:
            found = await assent.get(breakpoint_id)
            await assent.perform(check_pinned(assent.calls, found.id, told.standing(found)))
            return told.text(told.whole(found))

    async def wait_for_breakpoint(
        self,
        call: Call,
        breakpoint_id: Id,
        max_seconds: Seconds = LONGEST_WAIT,
        comments_seen: Annotated[
            int | None,
            Field(
                ge=0,
                description="Number of comments that you have already read; a new comment ends the call early",
            ),
        ] = None,
    ) -> str:
        """Wait up to 50 seconds for the decision on a breakpoint.

        While status is "waiting", no decision has been made: call this tool again. Continue only if approved is true.
        Messages from people are in comments; reply with the comment tool.
        """
        async with reached(self._callers(call)) as assent:
            status = await waited(assent, breakpoint_id, seconds=max_seconds, seen=comments_seen)
        return told.text(told.outcome(breakpoint_id, status))

    async def comment(self, call: Call, breakpoint_id: Id, text: str) -> str:
        """Add a comment for the reviewers of one of your breakpoints. A comment does not approve or reject anything."""
        async with reached(self._callers(call)) as assent:
            found = await assent.comment(breakpoint_id, text)
        return told.text(told.outcome(found.id, told.standing(found), remark="Comment added."))

    async def cancel_breakpoint(self, call: Call, breakpoint_id: Id) -> str:
        """Cancel a breakpoint that no longer needs an answer. A cancelled breakpoint is not approved."""
        async with reached(self._callers(call)) as assent:
            found = await assent.cancel(breakpoint_id)
        return told.text(told.outcome(found.id, told.standing(found)))

    async def ask_human(  # noqa: PLR0913  # the arguments of a question
        self,
        call: Call,
        *,
        question: Question,
        title: Title = None,
        gate: Gate = None,
        tags: Tags = None,
        options: Options = None,
        risk: Risk = None,
        hard_stop: HardStop = None,
        ttl_seconds: Ttl = None,
        payload: Payload = None,
        key: Key = None,
        max_seconds: Seconds = LONGEST_WAIT,
    ) -> str | InputRequiredResult:
        """Request human approval for an action and wait for the decision.

        If the returned status is "waiting", call wait_for_breakpoint with the breakpointId. Continue only if approved
        is true. The MCP client may also show the question to its user.
        """
        caller = self._callers(call)
        async with reached(caller) as assent:
            # The client repeats the call with the answer, and the state identifies the breakpoint.
            if call.request_state is not None:
                asked = await assent.get(call.request_state)
                # Ignore an answer to a breakpoint for which no form may be shown.
                answer = second_round(call) if form(asked) is not None else NOTHING
                return await _closing(assent, caller, asked, answer, seconds=max_seconds)
            asked = await assent.create(
                question,
                idempotency_key=_once(key),
                agent_id=caller.agent_id,
                title=title,
                breakpoint_id=gate,
                tags=tags,
                options=options,
                risk=risk,
                hard_stop=hard_stop,
                ttl_seconds=ttl_seconds or caller.ttl_seconds,
                payload=payload,
            )
            shown = form(asked) if asked.status == "waiting" and can_elicit(call) else None
            if shown is not None and in_rounds(call):
                return first_round(shown, asked)
            answer = await in_one_call(call, assent, shown, asked) if shown is not None else NOTHING
            return await _closing(assent, caller, asked, answer, seconds=max_seconds)

    async def permission_prompt(
        self,
        call: Call,
        tool_name: str,
        input: dict[str, Any],  # noqa: A002  # Claude Code's name for it
        tool_use_id: str | None = None,
    ) -> str:
        """Ask whether Claude Code may run a tool. Only for --permission-prompt-tool; do not call it yourself."""
        caller, arguments = self._callers(call), plain_arguments(input)
        if arguments is None:
            why = refused("The arguments cannot be shown to reviewers.").reason
            return json.dumps({"behavior": "deny", "message": why})
        return json.dumps(await permission(caller, tool_name, arguments, tool_use_id, os.environ))


async def _closing(assent: AsyncAssent, caller: Caller, asked: Breakpoint, answer: Filled, *, seconds: float) -> str:
    """Submit the answer, then wait for the breakpoint. The result is based on the breakpoint's status on the server."""
    try:
        remark = await settled(assent, caller, asked, answer)
        status = await waited(assent, asked.id, seconds=seconds)
    except AssentError as error:
        msg = f"{told.sentence(error)} The breakpointId is {asked.id}."
        raise ToolError(msg) from error
    return told.text(told.outcome(asked.id, status, remark=remark))


def _once(key: str | None) -> str | None:
    """Return a hash of the agent's key as the idempotency key, so that any text fits in the header."""
    return f"mcp-{sha256(key.encode('utf-8', 'surrogatepass'))}" if key else None
