"""Asking the user of the agent's client, in old and new versions of the protocol, and submitting the answer."""

import contextlib

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from assent.agents.mcp.callers import Call, Caller
from assent.agents.mcp.forms import NOTHING, Filled, filled
from assent.contracts.breakpoints import Breakpoint
from assent.sdk.aio import AsyncAssent
from assent.sdk.errors import AlreadyEnded, AssentError

ROUNDS_SINCE = "2026-07-28"
"""Since this version, servers send no requests: a call ends with its questions and is repeated with the answers."""
FIELD = "answer"


def can_elicit(call: Call) -> bool:
    """Return whether the client declares that it can show a form."""
    declared = call.client_capabilities
    elicitation = declared.elicitation if declared else None
    shows = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return shows and (in_rounds(call) or call.session.can_send_request)


def in_rounds(call: Call) -> bool:
    return is_version_at_least(call.session.protocol_version, ROUNDS_SINCE)


def first_round(shown: ElicitRequestFormParams, asked: Breakpoint) -> InputRequiredResult:
    """End the call with the form; the state identifies the breakpoint and is sealed by the transport."""
    return InputRequiredResult(input_requests={FIELD: ElicitRequest(params=shown)}, request_state=asked.id)


def second_round(call: Call) -> Filled:
    """Return the answer that the client sends when it repeats the call."""
    result = (call.input_responses or {}).get(FIELD)
    return filled(result) if isinstance(result, ElicitResult) else NOTHING


async def in_one_call(call: Call, assent: AsyncAssent, shown: ElicitRequestFormParams, asked: Breakpoint) -> Filled:
    """Show the form during the call, and withdraw it if the breakpoint ends in the inbox first."""
    answers: list[Filled] = []
    async with anyio.create_task_group() as group:

        async def elicit() -> None:
            answers.append(await _elicited(call, shown))
            group.cancel_scope.cancel()

        group.start_soon(elicit)
        # If the server is unreachable, keep the form open, because its answer may still arrive.
        with contextlib.suppress(AssentError):
            await assent.wait(asked.id)
            group.cancel_scope.cancel()
    return answers[0] if answers else NOTHING


async def _elicited(call: Call, shown: ElicitRequestFormParams) -> Filled:
    try:
        result = await call.session.elicit_form(shown.message, shown.requested_schema, call.request_id)
    except (MCPError, ValidationError):
        # The client cannot show the form after all, or sent an invalid response. The breakpoint is still in the inbox.
        return NOTHING
    return filled(result)


async def settled(assent: AsyncAssent, caller: Caller, asked: Breakpoint, answer: Filled) -> str:
    """Submit an answer, and return a sentence about its effect.

    With a person's token, the answer is that person's decision. Without a token, it is a comment by an unknown author.
    """
    if answer.approved is None:
        return ""
    try:
        if caller.reviewer_token is None:
            await assent.comment(asked.id, f"Answered in the agent's client by an unidentified person: {answer.words}")
            return "The answer was added as a comment. A reviewer must still decide in the inbox."
        return await _decided(caller, asked, answer)
    except AlreadyEnded:
        return "The breakpoint had already ended."


async def _decided(caller: Caller, asked: Breakpoint, answer: Filled) -> str:
    body = {
        "release": True,
        "approved": answer.approved,
        # A rejection has no option, even if the form was submitted with one selected.
        "option": answer.option if answer.approved else None,
        "comment": answer.comment,
        "digest": asked.digest,
    }
    try:
        async with AsyncAssent(caller.url, caller.reviewer_token) as person:
            await person.feedback(asked.id, body)
    except AlreadyEnded:
        # The calling function reports that the breakpoint had already ended.
        raise
    except AssentError as error:
        return f"The answer was not counted: {error.message.rstrip('.')}."
    return ""
