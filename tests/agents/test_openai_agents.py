"""OpenAI Agents SDK runs that are interrupted for approval: the questions, the saved state, and how a run resumes."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    HostedMCPTool,
    RunConfig,
    RunContextWrapper,
    ShellCommandRequest,
    ShellTool,
    Tool,
    function_tool,
)
from agents.items import TResponseOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseFunctionShellToolCall, ResponseFunctionToolCall
from openai.types.responses.response_function_shell_tool_call import Action
from openai.types.responses.response_output_item import McpApprovalRequest

from assent.agents.openai_agents import Approvals
from assent.core.canonical import sha256
from assent.sdk.aio import AsyncAssent
from assent.sdk.errors import (
    DigestMismatch,
    IdempotencyMismatch,
    InvalidRequest,
    ReceiptExpired,
    ReceiptUsed,
    StillWaiting,
    Unreachable,
)
from tests.agents.desk import Desk, open_desk, said_without
from tests.support.nodes import free_port
from tests.support.tampering import raw
from tests.support.until import until

QUIET = RunConfig(tracing_disabled=True)
SECRET = "s3cret-of-the-process"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("openai"), sqlite_template) as opened:
        yield opened


@pytest.fixture
def hasty_desk(tmp_path: Path, sqlite_template: Path) -> Iterator[Desk]:
    """A desk whose approvals expire after a second."""
    with open_desk(tmp_path, sqlite_template, receipt_seconds="1") as opened:
        yield opened


@pytest.fixture
def thread() -> str:
    return f"thread-{uuid.uuid4().hex}"


@dataclass
class Work:
    """Records the tool calls that actually ran."""

    done: list[Any] = field(default_factory=list[Any])

    def agent(self, *calls: Sequence[TResponseOutputItem]) -> Agent[Any]:
        """Return an agent whose model makes these calls, turn by turn, and then finishes."""

        @function_tool(needs_approval=True)
        def deploy(ctx: RunContextWrapper[Any], target: str) -> str:
            self.done.append((target, ctx.context))
            return f"{target} is done."

        @function_tool(needs_approval=True)
        def look(numbers: list[int]) -> str:
            self.done.append(numbers)
            return "looked"

        async def shell(request: ShellCommandRequest) -> str:
            self.done.append(request.data.action.commands)
            return "ran"

        hosted = HostedMCPTool(
            tool_config={
                "type": "mcp",
                "server_label": "tracker",
                "server_url": "https://tracker.example",
                "authorization": SECRET,
                "require_approval": "always",
            }
        )
        steps = [*calls, [assistant_message("Done.")]]
        tools: list[Tool] = [deploy, look, ShellTool(executor=shell, needs_approval=True), hosted]
        return Agent(name="worker", model=ScriptedModel(steps), tools=tools)


def heard(agent: Agent[Any]) -> list[str]:
    """Return the results that the model last received for its calls."""
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.last_call is not None
    return [each["output"] for each in agent.model.last_call.input if each.get("type") == "function_call_output"]


def deploying(target: str, call_id: str) -> TResponseOutputItem:
    return function_call("deploy", {"target": target}, call_id=call_id)


async def stopped(desk: Desk, agent: Agent[Any], thread: str, **options: Any) -> None:
    """Run an agent until its questions are asked, then stop waiting."""
    async with desk.client() as client:
        with pytest.raises(StillWaiting):
            await Approvals(client=client, timeout=0).run(
                agent, "Go.", thread=thread, run_config=QUIET, context=options.get("context")
            )


async def test_calls_in_one_turn_are_asked_about_together_and_decided_separately(desk: Desk, thread: str) -> None:
    work = Work()
    agent = work.agent([deploying("first", "c1"), deploying("second", "c2")])
    async with desk.client() as client:
        approvals = Approvals(client=client, terms={"tags": ["deploy"], "agent_id": "worker"})
        running = asyncio.create_task(approvals.run(agent, "Go.", thread=thread, run_config=QUIET))
        first, second = await desk.asked(2)
        await desk.answer(second, approved=True)
        await desk.answer(first, approved=False, comment="Not this one.")
        result = await running

    assert (first.payload["arguments"], second.payload["arguments"]) == ({"target": "first"}, {"target": "second"})
    assert (first.gate, first.tags, first.run_id, first.agent_id) == ("tool.deploy", ["deploy"], thread, "worker")
    assert work.done == [("second", None)]
    assert result.final_output == "Done."
    told_first, told_second = heard(agent)
    assert "Not this one." in told_first
    assert told_second == "second is done."


async def test_each_turn_creates_new_questions(desk: Desk, thread: str) -> None:
    work = Work()
    agent = work.agent([deploying("same", "c1")], [deploying("same", "c2")])
    async with desk.client() as client:
        running = asyncio.create_task(Approvals(client=client).run(agent, "Go.", thread=thread, run_config=QUIET))
        (first,) = await desk.asked()
        await desk.answer(first, approved=True)
        (second,) = await desk.asked()
        await desk.answer(second, approved=False)
        await running

    assert first.id != second.id
    assert len(work.done) == 1


async def test_a_run_can_resume_in_another_process_from_its_question(desk: Desk, thread: str) -> None:
    before, after = Work(), Work()
    await stopped(desk, before.agent([deploying("here", "c1"), deploying("there", "c2")]), thread)
    for asked in await desk.asked(2):
        await desk.answer(asked, approved=True)

    async with desk.client() as client:
        approvals = Approvals(client=client)
        found = await approvals.find(thread)
        assert found is not None
        result = await approvals.resume(after.agent(), found, run_config=QUIET)

    assert before.done == []
    assert after.done == [("here", None), ("there", None)]
    assert result.final_output == "Done."


async def test_find_returns_none_for_a_thread_without_questions(desk: Desk, thread: str) -> None:
    async with desk.client() as client:
        await client.create("Something else?", agent_id="other", run_id=thread)
        assert await Approvals(client=client).find(thread) is None
        for asked in await desk.asked():
            await client.cancel(asked.id)


async def test_an_approval_is_valid_for_one_run(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("once", "c1")]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)

    async with desk.client() as client:
        approvals = Approvals(client=client)
        await approvals.resume(work.agent(), asked.id, run_config=QUIET)
        with pytest.raises(ReceiptUsed):
            await approvals.resume(work.agent(), asked.id, run_config=QUIET)

    assert len(work.done) == 1


async def test_a_rejected_run_can_be_resumed_repeatedly(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("never", "c1")]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=False, comment="Never.")

    async with desk.client() as client:
        for _ in range(2):
            agent = work.agent()
            await Approvals(client=client).resume(agent, asked.id, run_config=QUIET)
            assert "Never." in heard(agent)[0]
    assert work.done == []


async def test_the_context_is_not_saved_but_can_be_passed_on_resume(desk: Desk, thread: str) -> None:
    work = Work()
    context = {"password": SECRET}
    await stopped(desk, work.agent([deploying("there", "c1")]), thread, context=context)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)

    async with desk.client() as client:
        state = await client.file(asked.id, 0)
        await Approvals(client=client).resume(work.agent(), asked.id, run_config=QUIET, context=context)

    assert SECRET not in state.decode()
    assert json.loads(state)["original_input"] == "Go."
    assert work.done == [("there", context)]


async def test_a_nested_agents_calls_need_approval_and_can_resume_in_another_process(desk: Desk, thread: str) -> None:
    work = Work()
    context = {"password": SECRET}

    def outer(*, fresh: bool) -> Agent[Any]:
        inner = work.agent(*([[deploying("inside", "i1")]] if fresh else []))
        steps = [[function_call("ask_inner", {"input": "Go on."}, call_id="o1")]] if fresh else []
        model = ScriptedModel([*steps, [assistant_message("All done.")]])
        return Agent(name="outer", model=model, tools=[inner.as_tool("ask_inner", "Asks the worker.")])

    await stopped(desk, outer(fresh=True), thread, context=context)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    async with desk.client() as client:
        state = await client.file(asked.id, 0)
        result = await Approvals(client=client).resume(outer(fresh=False), asked.id, run_config=QUIET, context=context)

    assert asked.payload["agent"] == "worker"
    assert SECRET not in state.decode()
    assert work.done == [("inside", context)]
    assert result.final_output == "All done."


async def test_shell_commands_are_shown_and_can_resume_in_another_process(desk: Desk, thread: str) -> None:
    work = Work()
    action = Action(commands=["make deploy"])
    call = ResponseFunctionShellToolCall(id="s", call_id="s1", type="shell_call", status="completed", action=action)
    await stopped(desk, work.agent([call]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    async with desk.client() as client:
        await Approvals(client=client).resume(work.agent(), asked.id, run_config=QUIET)

    assert asked.payload["tool"] == "shell"
    assert asked.payload["arguments"]["action"]["commands"] == ["make deploy"]
    assert work.done == [["make deploy"]]


async def test_a_hosted_servers_credentials_are_not_saved(desk: Desk, thread: str) -> None:
    work = Work()
    request = McpApprovalRequest(
        id="m1", name="drop", arguments='{"table": "users"}', server_label="tracker", type="mcp_approval_request"
    )
    await stopped(desk, work.agent([request]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    async with desk.client() as client:
        state = await client.file(asked.id, 0)
        agent = work.agent()
        await Approvals(client=client).resume(agent, asked.id, run_config=QUIET)

    assert (asked.payload["tool"], asked.payload["server"]) == ("drop", "tracker")
    assert asked.payload["arguments"] == {"table": "users"}
    assert SECRET not in state.decode()
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.last_call is not None
    (response,) = [each for each in agent.model.last_call.input if each.get("type") == "mcp_approval_response"]
    assert (response["approval_request_id"], response["approve"]) == ("m1", True)


@pytest.mark.parametrize(
    "text", ['{"numbers": [1], "numbers": [2]}', '{"numbers": [9007199254740993]}', "[1]", "not JSON"]
)
async def test_ambiguous_json_arguments_are_shown_as_text(desk: Desk, thread: str, text: str) -> None:
    work = Work()
    call = ResponseFunctionToolCall(name="look", arguments=text, call_id="c1", type="function_call")
    await stopped(desk, work.agent([call]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=False)

    assert asked.payload["arguments"] == {"text": text}


async def test_a_tampered_state_runs_nothing(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("staging", "c1")]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    digest = asked.payload["context"]["files"][0]["sha256"]
    async with desk.client() as client:
        state = (await client.file(asked.id, 0)).replace(b"staging", b"production")
        with raw(desk.settings) as data:
            data.run("UPDATE assent_files SET content = :content WHERE sha256 = :digest", content=state, digest=digest)
        with pytest.raises(DigestMismatch):
            await Approvals(client=client).resume(work.agent(), asked.id, run_config=QUIET)

    assert work.done == []


async def test_an_approval_does_not_apply_to_a_different_state(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("staging", "c1")]), thread)
    (asked,) = await desk.asked()
    async with desk.client() as client:
        state = (await client.file(asked.id, 0)).replace(b"staging", b"production")
        kept = await client.upload(state)
        files = [{"path": "run-state.json", "format": "json", "sha256": kept.sha256}]
        forged = await client.create(
            asked.question, agent_id="worker", payload=asked.payload | {"context": {"files": files}}
        )
        await client.cancel(asked.id)
        await desk.answer(forged, approved=True)
        with pytest.raises(DigestMismatch):
            await Approvals(client=client).resume(work.agent(), forged.id, run_config=QUIET)

    assert kept.sha256 == sha256(state)
    assert work.done == []


async def test_resuming_from_an_unrelated_question_is_rejected(desk: Desk) -> None:
    async with desk.client() as client:
        asked = await client.create("Something else?", agent_id="other")
        await client.cancel(asked.id)
        with pytest.raises(InvalidRequest):
            await Approvals(client=client).resume(Work().agent(), asked.id, run_config=QUIET)


async def test_resuming_with_different_terms_runs_nothing(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("there", "c1")]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    async with desk.client() as client:
        with pytest.raises(IdempotencyMismatch):
            await Approvals(client=client, terms={"tags": ["new"]}).resume(work.agent(), asked.id, run_config=QUIET)
    assert work.done == []


async def test_an_expired_approval_does_not_count(hasty_desk: Desk, thread: str) -> None:
    work = Work()
    agent = work.agent()
    await stopped(hasty_desk, work.agent([deploying("there", "c1")]), thread)
    (asked,) = await hasty_desk.asked()
    await hasty_desk.answer(asked, approved=True)
    async with hasty_desk.client() as client:

        async def is_too_old() -> bool:
            try:
                await client.receipt(asked.id)
            except ReceiptExpired:
                return True
            return False

        await until(is_too_old, bool)
        await Approvals(client=client).resume(agent, asked.id, run_config=QUIET)

    assert work.done == []
    assert heard(agent) == ["The approval is too old to act on. The tool was not run."]


async def test_an_unreachable_server_raises_before_any_tool_runs(thread: str) -> None:
    work = Work()
    agent = work.agent([deploying("there", "c1")])
    async with AsyncAssent(f"http://127.0.0.1:{free_port()}", "asta_x", patience=0) as client:
        with pytest.raises(Unreachable):
            await Approvals(client=client).run(agent, "Go.", thread=thread, run_config=QUIET)

    assert isinstance(agent.model, ScriptedModel)
    assert len(agent.model.calls) == 1
    assert work.done == []


async def test_an_approval_can_be_reused_if_the_once_option_is_disabled(desk: Desk, thread: str) -> None:
    work = Work()
    await stopped(desk, work.agent([deploying("again", "c1")]), thread)
    (asked,) = await desk.asked()
    await desk.answer(asked, approved=True)
    async with desk.client() as client:
        for _ in range(2):
            await Approvals(client=client, once=False).resume(work.agent(), asked.id, run_config=QUIET)
        receipt = await client.receipt(asked.id)

    assert len(work.done) == 2
    assert receipt.used is None


def test_a_missing_package_error_names_the_package_to_install() -> None:
    assert "pip install 'assent[openai-agents]'" in said_without("agents", "openai_agents")
