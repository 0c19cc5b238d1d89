"""OpenAI Agents SDK: asks about each tool call that needs approval, and stores the state of the run on the server.

The SDK does not sign the state, so anyone who can alter it could run anything. The state is therefore stored as a
context file of the questions. Their content hashes cover the state, which is verified before a run resumes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack, cast

try:
    from agents import Agent, Runner, RunResult, RunState, TResponseInputItem
    from agents.items import ToolApprovalItem
    from agents.run_config import RunOptions
except ImportError as missing:
    raise ImportError("The OpenAI Agents SDK is not installed. Run: pip install 'assent[openai-agents]'") from missing

from assent.contracts.breakpoints import Breakpoint
from assent.core.canonical import Json, is_array, is_object, sha256
from assent.core.tool_calls import ToolCall, Verdict, refused
from assent.sdk.aio import AsyncAssent
from assent.sdk.arguments import described
from assent.sdk.calls import Calls
from assent.sdk.errors import DigestMismatch, InvalidRequest, ReceiptExpired
from assent.sdk.files import ContextFile
from assent.sdk.keywords import refuse_unknown, strict_class
from assent.sdk.protocol import Asking, Flow, creation
from assent.sdk.tool_calls import Terms, asking, shown_arguments, verdict, waited

__all__ = ["Approvals"]

DOOR = "openai-agents"
STATE_FILE = "run-state.json"
_NEWEST = 50
Context = TypeVar("Context")


@strict_class
@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """Runs agents, and requests approval for the tool calls that need it before they run."""

    client: AsyncAssent
    terms: Terms = field(default_factory=Terms)
    timeout: float | None = None
    """Seconds to wait before StillWaiting is raised; the questions stay pending, and the run can be resumed."""
    once: bool = True
    """Whether to consume the receipt of each approval, so that resuming a run twice does not repeat a call."""

    def __post_init__(self) -> None:
        refuse_unknown("terms", self.terms, Terms.__annotations__)

    async def run(
        self,
        agent: Agent[Context],
        prompt: str | list[TResponseInputItem],
        *,
        thread: str,
        **options: Unpack[RunOptions[Context]],
    ) -> RunResult:
        """Run an agent to completion, asking reviewers as needed. The options are those of Runner.run.

        The thread is the permanent name of this run. If a question cannot be asked, AssentError is raised and no call
        runs.
        """
        result = await Runner.run(agent, prompt, **options)
        return await self._to_the_end(agent, result, thread, options)

    async def resume(
        self, agent: Agent[Context], breakpoint_id: str, **options: Unpack[RunOptions[Context]]
    ) -> RunResult:
        """Continue from a question, possibly asked by another process; the context has to be passed again."""
        kept = await self.client.perform(_fetched(self.client.calls, breakpoint_id))
        context = options.get("context")
        state = await RunState.from_string(agent, kept.state.decode(), context_deserializer=lambda _: context)
        questions = _questions(state, kept.state, kept.thread)
        if kept.call not in [(each.call.call_id, each.call.digest) for each in questions]:
            raise DigestMismatch(f"The saved state for {breakpoint_id} does not contain its call. Nothing was run.")
        result = await self._answered(agent, state, questions, options)
        return await self._to_the_end(agent, result, kept.thread, options)

    async def find(self, thread: str) -> str | None:
        """Return the ID of a thread's newest question, to resume from, or None if it has not asked any."""
        named = ToolCall(door=DOOR, tool="", arguments={}, thread=thread, call_id="")
        page = await self.client.list(run_id=named.run_id, limit=_NEWEST)
        for each in page.items:
            payload = (await self.client.get(each.id)).payload
            if (payload.get("door"), payload.get("thread")) == (DOOR, thread):
                return each.id
        return None

    async def _to_the_end(
        self, agent: Agent[Context], result: RunResult, thread: str, options: RunOptions[Context]
    ) -> RunResult:
        while result.interruptions:
            state = result.to_state()
            content = _content(state)
            # Upload before asking, because the questions refer to the state by its hash.
            await self.client.upload(content)
            result = await self._answered(agent, state, _questions(state, content, thread), options)
        return result

    async def _answered(
        self,
        agent: Agent[Context],
        state: RunState[Any, Agent[Any]],
        questions: Sequence["_Question"],
        options: RunOptions[Context],
    ) -> RunResult:
        flow = _decided(self.client.calls, questions, self.terms, timeout=self.timeout, once=self.once)
        for question, given in zip(questions, await self.client.perform(flow), strict=True):
            if given.approved:
                state.approve(question.item)
            else:
                state.reject(question.item, rejection_message=given.reason)
        # The state already carries the context of this run.
        more = cast("RunOptions[Any]", {name: value for name, value in options.items() if name != "context"})
        return await Runner.run(cast("Agent[Any]", agent), state, **more)


@dataclass(frozen=True, slots=True)
class _Question:
    """A call in a saved state that needs approval."""

    call: ToolCall
    item: ToolApprovalItem
    state: str
    """The SHA-256 of the state."""

    @property
    def key(self) -> str:
        # Includes the state, because a model that reuses call IDs would otherwise get the answer to an earlier call.
        return f"{self.call.key}-{self.state[:32]}"

    def asking(self, terms: Terms) -> Asking:
        raw = _raw(self.item)
        file = ContextFile(STATE_FILE, "json", b"").entry(sha256=self.state)
        more = {"thread": self.call.thread, "agent": self.item.agent.name, "context": {"files": [file]}}
        server = {"server": raw["server_label"]} if isinstance(raw.get("server_label"), str) else {}
        said = asking(self.call, terms)
        said["payload"] = {**self.call.payload, **more, **server}
        return said


@dataclass(frozen=True, slots=True)
class _Kept:
    thread: str
    call: tuple[Json, Json]
    state: bytes


def _questions(state: RunState[Any, Agent[Any]], content: bytes, thread: str) -> list[_Question]:
    digest = sha256(content)
    return [_Question(_call(item, thread), item, digest) for item in state.get_interruptions()]


def _call(item: ToolApprovalItem, thread: str) -> ToolCall:
    if not item.call_id or not item.name:
        raise InvalidRequest("The tool call is missing an ID or a name. Nothing was run.")
    return ToolCall(
        door=DOOR,
        tool=item.qualified_name or item.name,
        arguments=shown_arguments(item.arguments) if item.arguments is not None else _shown(item),
        thread=thread,
        call_id=item.call_id,
    )


def _shown(item: ToolApprovalItem) -> Mapping[str, Json]:
    """Return what a call without arguments would do, such as the commands of a shell or the operation of a patch."""
    return {name: described(value) for name, value in _raw(item).items() if name not in {"id", "call_id", "status"}}


def _raw(item: ToolApprovalItem) -> Mapping[str, Any]:
    """Return the call as JSON; it is an object in a run, and sometimes a dict in a saved state."""
    raw = item.raw_item
    fields: Json = raw if isinstance(raw, dict) else raw.model_dump(mode="json")
    said: Mapping[str, Any] = _said(fields)
    return said


def _said(value: Json) -> Json:
    """Return JSON without null fields, because the two forms of a call differ in them."""
    if is_object(value):
        return {name: _said(each) for name, each in value.items() if each is not None}
    return [_said(each) for each in value] if is_array(value) else value


def _content(state: RunState[Any, Agent[Any]]) -> bytes:
    return json.dumps(_bare(state.to_json(include_tracing_api_key=False))).encode()


def _bare(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without the parts that may contain secrets: the context, and the credentials for hosted servers.

    Neither is needed to resume: the caller passes both again, as an option and in the agent's tools.
    """
    nothing: dict[str, Any] = {}
    bare: dict[str, Any] = {**state, "context": {**state["context"], "context": nothing}}
    processed = state.get("last_processed_response")
    if is_object(processed):
        bare["last_processed_response"] = {
            **processed,
            "functions": [_bare_function(each) for each in processed.get("functions") or ()],
            "mcp_approval_requests": [_bare_request(each) for each in processed.get("mcp_approval_requests") or ()],
        }
    return bare


def _bare_function(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = entry.get("agent_run_state")
    return {**entry, "agent_run_state": _bare(nested)} if is_object(nested) else entry


def _bare_request(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    tool = {name: value for name, value in entry["mcp_tool"].items() if name != "tool_config"}
    return {**entry, "mcp_tool": tool}


def _fetched(calls: Calls, breakpoint_id: str) -> Flow[_Kept]:
    """Fetch the state saved with a question; raise unless it is the state that was reviewed."""
    payload = (yield from calls.get(breakpoint_id)).payload
    thread, digest = payload.get("thread"), _state_of(payload)
    if payload.get("door") != DOOR or not isinstance(thread, str) or digest is None:
        raise InvalidRequest(f"{breakpoint_id} was not created by the OpenAI Agents SDK, so it has no saved state.")
    content = yield from calls.file(breakpoint_id, 0)
    if sha256(content) != digest:
        raise DigestMismatch(f"The saved state for {breakpoint_id} differs from the state that was reviewed.")
    return _Kept(thread, (payload.get("callId"), payload.get("callDigest")), content)


def _state_of(payload: Mapping[str, Any]) -> str | None:
    context: Mapping[str, Any] = payload.get("context") or {}
    files: Sequence[Mapping[str, Any]] = context.get("files") or ()
    return files[0].get("sha256") if files and files[0].get("path") == STATE_FILE else None


def _decided(
    calls: Calls, questions: Sequence[_Question], terms: Terms, *, timeout: float | None, once: bool
) -> Flow[list[Verdict]]:
    """Ask all questions, then wait for all answers, because the run cannot continue with only some of them."""
    raised: list[Breakpoint] = []
    for each in questions:
        asked = yield from calls.create(each.call.question, idempotency_key=each.key, **each.asking(terms))
        raised.append(asked)
    ended = yield from waited(calls, [each.id for each in raised], timeout=timeout)
    verdicts = [verdict(each.call, status) for each, status in zip(questions, ended, strict=True)]
    # Consume receipts only after all decisions, so that a wait that times out leaves them usable.
    if once:
        for n, (each, asked) in enumerate(zip(questions, raised, strict=True)):
            verdicts[n] = yield from _used(calls, each, asked, terms, given=verdicts[n])
    return verdicts


def _used(calls: Calls, question: _Question, raised: Breakpoint, terms: Terms, *, given: Verdict) -> Flow[Verdict]:
    """Check the receipt of an approval against the call that is about to run, and consume it."""
    if not given.approved:
        return given
    from assent.sdk.receipts import content_digest  # noqa: PLC0415  # slow to import

    try:
        receipt = yield from calls.receipt(raised.id)
        body = creation(question.call.question, question.asking(terms))
        expected = content_digest(body, project=receipt.approval.project)
        yield from calls.consume_receipt(receipt, digest=expected, agent_id=body["agentId"], gate=question.call.gate)
    except ReceiptExpired:
        return refused("The approval is too old to act on.")
    return given
