"""Pydantic AI: asks about tool calls that need approval, after a run or during it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

try:
    from pydantic_ai.capabilities import HandleDeferredToolCalls
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied
except ImportError as missing:
    raise ImportError("Pydantic AI is not installed. Run: pip install 'assent[pydantic-ai]'") from missing

from assent.core.canonical import canonical
from assent.core.tool_calls import ToolCall, Verdict
from assent.sdk.aio import AsyncAssent
from assent.sdk.arguments import described
from assent.sdk.calls import Calls
from assent.sdk.client import Assent
from assent.sdk.errors import AssentError, InvalidRequest
from assent.sdk.keywords import refuse_unknown, strict_class
from assent.sdk.protocol import Asking, Flow
from assent.sdk.tool_calls import Terms, asking, plain_arguments, shown_arguments, unasked, verdict, waited

__all__ = ["Approvals"]

DOOR = "pydantic-ai"
Keep = Callable[[Sequence[ModelMessage]], object]


@strict_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """How to ask about the tool calls of one conversation."""

    thread: str
    """The conversation's permanent name, which is used to find its questions again."""
    terms: Terms = field(default_factory=Terms)
    editable: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The arguments that the reviewer can change, by tool name."""
    timeout: float | None = None
    """Seconds to wait before StillWaiting is raised; the questions stay pending."""

    def __post_init__(self) -> None:
        refuse_unknown("terms", self.terms, Terms.__annotations__)

    async def results(
        self, client: AsyncAssent, requests: DeferredToolRequests, messages: Sequence[ModelMessage]
    ) -> DeferredToolResults:
        """Ask about every call that needs approval, wait for all answers, and return the input for the next run.

        `messages` are the messages from which the next run continues. Calls that are executed elsewhere are left to the
        caller. If a question cannot be asked, AssentError is raised and no call runs.
        """
        return await client.perform(self._decided(client.calls, requests, messages))

    def results_sync(
        self, client: Assent, requests: DeferredToolRequests, messages: Sequence[ModelMessage]
    ) -> DeferredToolResults:
        """Do the same as `results`, for agents that run with run_sync."""
        return client.perform(self._decided(client.calls, requests, messages))

    def inline(self, client: AsyncAssent, *, keep: Keep | None = None) -> HandleDeferredToolCalls[Any]:
        """Return a capability that makes an agent wait for reviewers during a run.

        If a question cannot be asked, the call is denied and the model is given the reason. `keep` receives the
        messages before the questions are asked: a run that starts from them finds the same questions again.
        """

        async def handler(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults | None:
            if not requests.approvals:
                return None
            if keep is not None:
                keep(ctx.messages)
            try:
                return await self.results(client, requests, ctx.messages)
            except AssentError as error:
                denied = _result(unasked(error), None)
                return DeferredToolResults(approvals={each.tool_call_id: denied for each in requests.approvals})

        return HandleDeferredToolCalls(handler)

    def _decided(
        self, calls: Calls, requests: DeferredToolRequests, messages: Sequence[ModelMessage]
    ) -> Flow[DeferredToolResults]:
        # Validate every call before asking about the first one, so that an error leaves no questions behind.
        asked = [self._call(each, messages) for each in requests.approvals]
        raised: list[str] = []
        for part, call in zip(requests.approvals, asked, strict=True):
            said = _asking(call, self.terms, metadata=requests.metadata.get(part.tool_call_id))
            raised.append((yield from calls.create(call.question, idempotency_key=call.key, **said)).id)
        # Ask all questions before waiting, so that reviewers see them at the same time.
        ended = yield from waited(calls, raised, timeout=self.timeout)
        verdicts = [(call, verdict(call, status)) for call, status in zip(asked, ended, strict=True)]
        results = [_result(given, call) for call, given in verdicts]
        ids = [each.tool_call_id for each in requests.approvals]
        return DeferredToolResults(approvals=dict(zip(ids, results, strict=True)))

    def _call(self, part: ToolCallPart, messages: Sequence[ModelMessage]) -> ToolCall:
        plain = plain_arguments(part.args)
        if not _made(part, messages):
            raise InvalidRequest(f"The messages do not end with this call to {part.tool_name}. Nothing was run.")
        return ToolCall(
            door=DOOR,
            tool=part.tool_name,
            arguments=shown_arguments(part.args),
            thread=self.thread,
            call_id=_call_id(part.tool_call_id, messages),
            editable=[name for name in self.editable.get(part.tool_name, ()) if plain is not None and name in plain],
        )


def _asking(call: ToolCall, terms: Terms, *, metadata: Mapping[str, Any] | None) -> Asking:
    said = asking(call, terms)
    if metadata:
        said["payload"] = {**call.payload, "metadata": described(metadata)}
    return said


def _made(part: ToolCallPart, messages: Sequence[ModelMessage]) -> bool:
    """Return whether the last response contains exactly this call, because the next run executes that response."""
    responses = [each for each in messages if isinstance(each, ModelResponse)]
    return bool(responses) and _named(part) in [_named(each) for each in responses[-1].tool_calls]


def _named(part: ToolCallPart) -> tuple[str, str, str]:
    # Compare as text, because True equals 1 in Python.
    return part.tool_call_id, part.tool_name, part.args_as_json_str()


def _call_id(call_id: str, messages: Sequence[ModelMessage]) -> str:
    """Return an ID for a call that is unique in the conversation."""
    # A model that reuses call IDs would otherwise get the answer to an earlier call. Earlier messages may have been
    # removed since, so counting is not enough; the time of a response does not change.
    responses = [each for each in messages if isinstance(each, ModelResponse)]
    times = sum(call.tool_call_id == call_id for each in responses for call in each.tool_calls)
    return f"{call_id}.{times}.{responses[-1].timestamp.isoformat()}"


def _result(given: Verdict, call: ToolCall | None) -> ToolApproved | ToolDenied:
    if not given.approved or call is None:
        return ToolDenied(given.reason)
    changed = canonical(dict(given.arguments)) != canonical(dict(call.arguments))
    return ToolApproved(override_args=dict(given.arguments) if changed else None)
