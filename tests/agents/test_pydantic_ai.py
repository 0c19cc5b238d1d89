"""Pydantic AI tool calls that need approval: the questions, the reviewer's edits, and what the model receives."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext, ToolApproved, ToolDenied

from assent.agents.pydantic_ai import Approvals
from assent.sdk.aio import AsyncAssent
from assent.sdk.client import Assent
from assent.sdk.errors import InvalidRequest, StillWaiting, Unreachable
from tests.agents.desk import Desk, open_desk, said_without
from tests.support.nodes import free_port

EDITABLE = {"deploy": ("target", "copies")}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("pydantic"), sqlite_template) as opened:
        yield opened


@pytest.fixture
def approvals() -> Approvals:
    return Approvals(thread=f"thread-{uuid.uuid4().hex}", editable=EDITABLE)


@dataclass
class Work:
    """An agent whose model makes scripted calls, with the calls that ran and the results that the model received."""

    turns: list[Sequence[ToolCallPart]]
    done: list[Any] = field(default_factory=list[Any])
    told: list[str] = field(default_factory=list[str])

    def agent(self, **options: Any) -> Agent[None, Any]:
        tools = [
            Tool(self.deploy, requires_approval=True),
            Tool(self.remove),
            Tool(self.elsewhere),
        ]
        return Agent(FunctionModel(self._answer), tools=tools, **options)

    def deferring(self) -> Agent[None, Any]:
        return self.agent(output_type=[str, DeferredToolRequests])

    def deploy(self, target: str, copies: int = 1) -> str:
        self.done.append((target, copies))
        return f"{target} is done."

    def remove(self, ctx: RunContext[None], path: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"why": "The breakpoint is not a temporary file.", "size": 12})
        self.done.append(path)
        return "removed"

    def elsewhere(self, job: str) -> str:
        raise CallDeferred(metadata={"job": job})

    def _answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        self.told += [
            each.model_response_str() if isinstance(each, ToolReturnPart) else each.model_response()
            for each in last.parts
            if isinstance(each, ToolReturnPart | RetryPromptPart)
        ]
        return ModelResponse(self.turns.pop(0)) if self.turns else ModelResponse([TextPart("Done.")])


def deploying(call_id: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart("deploy", {"target": "production", **arguments}, call_id)


async def test_calls_in_one_turn_are_asked_about_together_and_decided_separately(
    desk: Desk, approvals: Approvals
) -> None:
    work = Work([[deploying("c1"), deploying("c2", target="staging")]])
    agent = work.deferring()
    stopped = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        first, second = await desk.asked(2)
        await desk.answer(second, approved=True)
        await desk.answer(first, approved=False, comment="Not production.")
        results = await running
    ended = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)

    assert (first.gate, first.run_id) == ("tool.deploy", approvals.thread)
    assert work.done == [("staging", 1)]
    assert "Not production." in work.told[0]
    assert work.told[1] == "staging is done."
    assert ended.output == "Done."


async def test_a_tool_runs_with_the_reviewers_edits(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("c1", copies=3)]])
    agent = work.deferring()
    stopped = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True, edits={"copies": 2})
        results = await running
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)

    assert asked.payload["editable"] == ["target", "copies"]
    assert work.done == [("production", 2)]


async def test_an_edit_that_the_tool_does_not_accept_runs_nothing(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("c1", copies=3)]])
    agent = work.deferring()
    stopped = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True, edits={"copies": "many"})
        results = await running
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)

    assert work.done == []
    assert "changed the type of" in work.told[0]


async def test_only_arguments_in_the_call_are_editable(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("c1"), ToolCallPart("remove", {"path": "a"}, "c2")]])
    stopped = await work.deferring().run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        questions = await desk.asked(2)
        for asked in questions:
            await desk.answer(asked, approved=False)
        await running

    offered = {each.payload["tool"]: each.payload.get("editable") for each in questions}
    assert offered == {"deploy": ["target"], "remove": None}


async def test_metadata_from_the_tool_is_shown_to_the_reviewer(desk: Desk, approvals: Approvals) -> None:
    work = Work([[ToolCallPart("remove", {"path": "a"}, "c1")]])
    agent = work.deferring()
    stopped = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True)
        results = await running
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)

    assert asked.payload["metadata"] == {"why": "The breakpoint is not a temporary file.", "size": 12}
    assert work.done == ["a"]


async def test_externally_executed_calls_are_left_to_the_caller(desk: Desk, approvals: Approvals) -> None:
    work = Work([[ToolCallPart("elsewhere", {"job": "build"}, "c1"), deploying("c2")]])
    agent = work.deferring()
    stopped = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True)
        results = await running
    assert results.calls == {}
    results.calls["c1"] = "built"
    await agent.run(message_history=stopped.all_messages(), deferred_tool_results=results)

    assert sorted(work.told) == ["built", "production is done."]


async def test_calls_with_the_same_id_are_asked_about_separately(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("same")], [deploying("same")]])
    agent = work.deferring()
    result = await agent.run("Go.")
    seen = []
    async with desk.client() as client:
        for approved in (True, False):
            messages = result.all_messages()
            running = asyncio.create_task(approvals.results(client, result.output, messages))
            (asked,) = await desk.asked()
            seen.append(asked.id)
            await desk.answer(asked, approved=approved)
            result = await agent.run(message_history=messages, deferred_tool_results=await running)

    assert len(set(seen)) == 2
    assert work.done == [("production", 1)]


async def test_an_approval_is_not_reused_after_earlier_messages_are_dropped(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("same")], [deploying("same")]])
    agent = work.deferring()
    first = await agent.run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, first.output, first.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True)
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=await running)
        running = asyncio.create_task(approvals.results(client, second.output, second.all_messages()[-1:]))
        (again,) = await desk.asked()
        await desk.answer(again, approved=False)
        results = await running

    assert again.id != asked.id
    assert isinstance(results.approvals["same"], ToolDenied)


async def test_repeating_the_same_call_finds_its_question(desk: Desk, approvals: Approvals) -> None:
    stopped = await Work([[deploying("c1")]]).deferring().run("Go.")
    impatient = Approvals(thread=approvals.thread, editable=EDITABLE, timeout=0)
    async with desk.client() as client:
        for _ in range(2):
            with pytest.raises(StillWaiting):
                await impatient.results(client, stopped.output, stopped.all_messages())
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True)
        results = await approvals.results(client, stopped.output, stopped.all_messages())

    assert results.approvals == {"c1": ToolApproved()}


async def test_messages_with_a_different_call_are_rejected(desk: Desk, approvals: Approvals) -> None:
    shown = await Work([[deploying("c1", target="staging")]]).deferring().run("Go.")
    meant = await Work([[deploying("c1")]]).deferring().run("Go.")
    async with desk.client() as client:
        for messages in (meant.all_messages(), []):
            with pytest.raises(InvalidRequest):
                await approvals.results(client, shown.output, messages)

    assert await desk.asked(0) == []


async def test_true_is_not_equal_to_the_number_one(desk: Desk, approvals: Approvals) -> None:
    shown = await Work([[deploying("c1", copies=1)]]).deferring().run("Go.")
    meant = ModelResponse([deploying("c1", copies=True)])
    async with desk.client() as client:
        with pytest.raises(InvalidRequest):
            await approvals.results(client, shown.output, [meant])
        running = asyncio.create_task(approvals.results(client, shown.output, shown.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=True, edits={"copies": True})
        results = await running

    assert isinstance(results.approvals["c1"], ToolDenied)


@pytest.mark.parametrize("text", ['{"target": "a", "target": "b"}', '{"target": "a", "copies": 9007199254740993}'])
async def test_ambiguous_json_arguments_are_shown_as_text(desk: Desk, approvals: Approvals, text: str) -> None:
    stopped = await Work([[ToolCallPart("deploy", text, "c1")]]).deferring().run("Go.")
    async with desk.client() as client:
        running = asyncio.create_task(approvals.results(client, stopped.output, stopped.all_messages()))
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=False)
        await running

    assert asked.payload["arguments"] == {"text": text}
    assert "editable" not in asked.payload


async def test_the_blocking_client_returns_the_same_results(desk: Desk, approvals: Approvals) -> None:
    stopped = await Work([[deploying("c1")]]).deferring().run("Go.")
    with Assent(desk.url, desk.token) as client:
        asking = asyncio.to_thread(approvals.results_sync, client, stopped.output, stopped.all_messages())
        running = asyncio.create_task(asking)
        (asked,) = await desk.asked()
        await desk.answer(asked, approved=False, comment="No.")
        results = await running

    denied = results.approvals["c1"]
    assert isinstance(denied, ToolDenied)
    assert "No." in denied.message


async def test_an_unreachable_server_raises_before_any_tool_runs(approvals: Approvals) -> None:
    work = Work([[deploying("c1")]])
    stopped = await work.deferring().run("Go.")
    async with AsyncAssent(f"http://127.0.0.1:{free_port()}", "asta_x", patience=0) as client:
        with pytest.raises(Unreachable):
            await approvals.results(client, stopped.output, stopped.all_messages())
    assert work.done == []


async def test_an_inline_run_continues_with_each_answer(desk: Desk, approvals: Approvals) -> None:
    work = Work([[deploying("c1"), deploying("c2", target="staging")]])
    async with desk.client() as client:
        agent = work.agent(capabilities=[approvals.inline(client)])
        running = asyncio.create_task(agent.run("Go."))
        first, second = await desk.asked(2)
        await desk.answer(first, approved=True, edits={"target": "canary"})
        await desk.answer(second, approved=False, comment="Not yet.")
        result = await running

    assert work.done == [("canary", 1)]
    assert any("Not yet." in each for each in work.told)
    assert result.output == "Done."


async def test_an_inline_run_reports_an_unreachable_server_to_the_model(approvals: Approvals) -> None:
    work = Work([[deploying("c1"), deploying("c2")]])
    async with AsyncAssent(f"http://127.0.0.1:{free_port()}", "asta_x", patience=0) as client:
        result = await work.agent(capabilities=[approvals.inline(client)]).run("Go.")

    assert work.done == []
    assert [each.startswith("Could not ask a reviewer") for each in work.told] == [True, True]
    assert result.output == "Done."


async def test_an_inline_run_leaves_external_calls_to_the_caller(approvals: Approvals) -> None:
    work = Work([[ToolCallPart("elsewhere", {"job": "build"}, "c1")]])
    async with AsyncAssent(f"http://127.0.0.1:{free_port()}", "asta_x", patience=0) as client:
        options: dict[str, Any] = {"output_type": [str, DeferredToolRequests]}
        result = await work.agent(capabilities=[approvals.inline(client)], **options).run("Go.")

    assert isinstance(result.output, DeferredToolRequests)
    assert [each.tool_call_id for each in result.output.calls] == ["c1"]


def test_a_missing_package_error_names_the_package_to_install() -> None:
    assert "pip install 'assent[pydantic-ai]'" in said_without("pydantic_ai", "pydantic_ai")
