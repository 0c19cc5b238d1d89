"""Graphs and agents from the real packages with a live server: sync and async, in memory and in SQLite."""

import asyncio
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import UnknownInterruptError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, StateSnapshot
from pydantic import BaseModel

from assent.agents.langgraph import Graph, Progress, aask, approval, aresume, arun, ask, resume, run
from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from assent.sdk.aio import AsyncAssent
from assent.sdk.client import Assent
from assent.sdk.errors import InvalidRequest, NotApproved, Unreachable
from tests.agents.langgraph_graphs import ARGUMENTS, Build, State, asking, compiled, deploying, reviewed
from tests.support.nodes import free_port, prepared, server


@dataclass
class Desk:
    """A live server with a reviewer, and a single thread of a graph."""

    url: str
    token: str
    reviewer: Assent
    config: RunnableConfig = field(default_factory=lambda: RunnableConfig(configurable={"thread_id": uuid.uuid4().hex}))

    @property
    def thread(self) -> str:
        return str(self.config["configurable"]["thread_id"])

    def client(self) -> Assent:
        return Assent(self.url, self.token)

    def ask(self, graph: Graph, **terms: Any) -> list[Breakpoint]:
        with self.client() as client:
            return list(ask(graph, self.config, client=client, **terms))

    def resume(self, graph: Graph, **terms: Any) -> Progress:
        with self.client() as client:
            return resume(graph, self.config, client=client, **terms)

    def run(self, graph: Graph, given: Any, **terms: Any) -> Any:
        with self.client() as client:
            return run(graph, given, self.config, client=client, **terms)

    def approve(self, asked: Breakpoint, **answer: Any) -> None:
        self.reviewer.approve(asked.id, digest=asked.digest, **answer)

    def asked(self) -> int:
        return len(self.reviewer.list(run_id=self.thread).items)

    def started(self, build: Build, **terms: Any) -> tuple[Graph, list[Breakpoint]]:
        """Run a graph in memory until it is interrupted, and ask its questions."""
        graph = build(InMemorySaver())
        graph.invoke({"messages": [("user", "Go on.")], "said": ""}, self.config, context=None)
        return graph, self.ask(graph, **terms)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[tuple[str, str, Assent]]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("langgraph"))
    shutil.copy(sqlite_template, settings.sqlite_path)
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process, Assent(process.url, reviewer) as client:
        yield process.url, agent, client


@pytest.fixture
def desk(live: tuple[str, str, Assent]) -> Desk:
    return Desk(*live)


@dataclass
class Way:
    """One way to drive a graph; each step reopens the checkpointer, as a restarted program would."""

    desk: Desk
    file: Path | None
    memory: InMemorySaver = field(default_factory=InMemorySaver)

    def begin(self, build: Build) -> None:
        with self._saver() as saver:
            build(saver).invoke({"said": ""}, self.desk.config, context=None)

    def ask(self, build: Build) -> list[Breakpoint]:
        with self._saver() as saver:
            return self.desk.ask(build(saver))

    def resume(self, build: Build) -> Progress:
        with self._saver() as saver:
            return self.desk.resume(build(saver))

    def run(self, build: Build, given: Any) -> Any:
        with self._saver() as saver:
            return self.desk.run(build(saver), given)

    def _saver(self) -> Any:
        return _Held(self.memory) if self.file is None else SqliteSaver.from_conn_string(str(self.file))


@dataclass
class _Held:
    """A checkpointer that stays open across steps."""

    saver: InMemorySaver

    def __enter__(self) -> InMemorySaver:
        return self.saver

    def __exit__(self, *_: object) -> None:
        return None

    async def __aenter__(self) -> InMemorySaver:
        return self.saver

    async def __aexit__(self, *_: object) -> None:
        return None


class AsyncWay(Way):
    """The asynchronous counterpart of Way."""

    def begin(self, build: Build) -> None:
        async def begun() -> None:
            async with self._saver() as saver:
                await build(saver).ainvoke({"said": ""}, self.desk.config, context=None)

        asyncio.run(begun())

    def ask(self, build: Build) -> list[Breakpoint]:
        async def asked() -> list[Breakpoint]:
            async with self._saver() as saver, AsyncAssent(self.desk.url, self.desk.token) as client:
                return list(await aask(build(saver), self.desk.config, client=client))

        return asyncio.run(asked())

    def resume(self, build: Build) -> Progress:
        async def resumed() -> Progress:
            async with self._saver() as saver, AsyncAssent(self.desk.url, self.desk.token) as client:
                return await aresume(build(saver), self.desk.config, client=client)

        return asyncio.run(resumed())

    def run(self, build: Build, given: Any) -> Any:
        async def ended() -> Any:
            async with self._saver() as saver, AsyncAssent(self.desk.url, self.desk.token) as client:
                return await arun(build(saver), given, self.desk.config, client=client)

        return asyncio.run(ended())

    def _saver(self) -> Any:
        return _Held(self.memory) if self.file is None else AsyncSqliteSaver.from_conn_string(str(self.file))


@pytest.fixture(params=["sync-memory", "sync-sqlite", "async-memory", "async-sqlite"])
def way(request: pytest.FixtureRequest, desk: Desk, tmp_path: Path) -> Way:
    kind, _, kept = str(request.param).partition("-")
    made = AsyncWay if kind == "async" else Way
    return made(desk, tmp_path / "threads.db" if kept == "sqlite" else None)


def test_a_node_runs_with_the_approved_arguments_and_asks_only_once(way: Way) -> None:
    ran: list[Any] = []
    build = compiled({"deploy": deploying(ran)})
    way.begin(build)
    (asked,) = way.ask(build)
    (again,) = way.ask(build)
    assert asked.id == again.id
    assert asked.payload["arguments"] == ARGUMENTS
    assert asked.payload["editable"] == ["version"]
    assert way.resume(build) == Progress(ended=False, output={"said": ""}, waiting=[asked.id])

    way.desk.approve(asked, edits={"version": "1.5"}, comment="Better.")
    ended = way.run(build, {"said": "This is a new turn, and the old one is not over."})

    assert ran == [ARGUMENTS | {"version": "1.5"}]
    assert ended["said"] == "Better."
    assert way.desk.asked() == 1


def test_parallel_interrupts_are_all_asked_and_resume_together(way: Way) -> None:
    ran: list[Any] = []
    build = compiled({"east": deploying(ran, target="east"), "west": asking("West?", ran)})
    way.begin(build)
    east, west = way.ask(build)
    way.desk.approve(east)

    assert way.resume(build).waiting == [west.id]
    assert ran == []

    way.desk.reviewer.reject(west.id, comment="No.")
    progress = way.resume(build)

    assert progress.ended
    assert sorted(map(str, ran)) == sorted(map(str, [ARGUMENTS | {"target": "east"}, False]))


def test_a_node_that_asks_the_same_question_twice_gets_two_answers(way: Way) -> None:
    ran: list[Any] = []

    def node(_: State) -> State:
        first, second = approval("deploy", ARGUMENTS), approval("deploy", ARGUMENTS)
        ran.append((bool(first), bool(second)))
        return {"said": second.reason}

    build = compiled({"deploy": node})
    way.begin(build)
    (first,) = way.ask(build)
    way.desk.approve(first)
    (second,) = way.resume(build).waiting
    assert second != first.id
    way.desk.reviewer.reject(second, comment="Once is enough.")

    assert "Once is enough." in way.run(build, None)["said"]
    assert ran == [(True, False)]


MODES = pytest.mark.parametrize("mode", ["batched", "per_call"])


@MODES
def test_the_middleware_matches_each_answer_to_its_call(desk: Desk, mode: Any) -> None:
    agent = reviewed(["north", "east", "south", "west"], mode=mode)
    graph, asked = desk.started(agent)
    assert [each.payload["arguments"]["target"] for each in asked] == ["north", "east", "south", "west"]
    north, east, south, west = asked
    desk.approve(west, answers={"respond": "West is closed."})
    desk.reviewer.reject(south.id, comment="Too warm.")
    desk.approve(east, edits={"version": "1.5"})
    assert desk.resume(graph).waiting == [north.id]
    assert agent.ran == []
    desk.approve(north)

    assert desk.resume(graph).ended
    assert sorted(agent.ran, key=str) == [{"target": "east", "version": "1.5"}, {"target": "north", "version": "1.4"}]
    assert agent.heard["call-north"].text == "Version 1.4 is on north."
    assert "Version 1.5 is on east." in agent.heard["call-east"].text
    assert "Too warm." in agent.heard["call-south"].text
    assert agent.heard["call-south"].status == "error"
    assert agent.heard["call-west"].text == "West is closed."


@MODES
def test_decisions_that_the_middleware_does_not_allow_are_not_offered(desk: Desk, mode: Any) -> None:
    agent = reviewed(["north"], allowed=["approve", "reject"], mode=mode)
    _, (asked,) = desk.started(agent)

    assert "editable" not in asked.payload
    assert "form" not in asked.payload


@MODES
def test_a_rejection_that_the_middleware_does_not_allow_stops_the_agent(desk: Desk, mode: Any) -> None:
    agent = reviewed(["north"], allowed=["approve", "edit"], mode=mode)
    graph, (asked,) = desk.started(agent)
    desk.reviewer.reject(asked.id, comment="Never")

    for _ in range(2):
        with pytest.raises(NotApproved, match="Never"):
            desk.run(graph, None)
    assert agent.ran == []


@MODES
def test_an_approval_requires_an_answer_if_only_responses_are_allowed(desk: Desk, mode: Any) -> None:
    agent = reviewed(["north"], allowed=["respond"], mode=mode)
    graph, (asked,) = desk.started(agent)
    with pytest.raises(InvalidRequest):
        desk.approve(asked)
    desk.reviewer.reject(asked.id, comment="Ask somebody else.")

    assert desk.resume(graph).ended
    assert agent.ran == []
    assert "Ask somebody else." in agent.heard["call-north"].text


def test_an_edit_of_the_wrong_type_rejects_only_its_own_call(desk: Desk) -> None:
    agent = reviewed(["north", "east"], mode="per_call")
    graph, (north, east) = desk.started(agent)
    desk.approve(north)
    desk.approve(east, edits={"version": 2})

    assert desk.resume(graph).ended
    assert agent.ran == [{"target": "north", "version": "1.4"}]
    assert "changed the type of" in agent.heard["call-east"].text


def test_an_edit_that_the_tool_does_not_accept_rejects_only_its_own_call(desk: Desk) -> None:
    agent = reviewed(["north", "east"], mode="per_call")
    agent.longest = 3
    graph, (north, east) = desk.started(agent)
    desk.approve(north)
    desk.approve(east, edits={"version": "1.5-beta"})

    assert desk.resume(graph).ended
    assert agent.ran == [{"target": "north", "version": "1.4"}]
    assert "is not valid for deploy" in agent.heard["call-east"].text


def test_a_call_nested_too_deeply_to_display_is_rejected(desk: Desk) -> None:
    agent = reviewed(["north"])
    deep: Any = "bottom"
    for _ in range(40):
        deep = [deep]
    agent.calls[0]["args"]["target"] = deep
    desk.run(agent(InMemorySaver()), {"messages": [("user", "Go on.")]})

    assert agent.ran == []
    assert "so it cannot be shown" in agent.heard["call-north"].text
    assert desk.asked() == 0


INBOX = {
    "action_request": {"action": "deploy", "args": ARGUMENTS},
    "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": True},
    "description": "Deploy 1.4 to production?",
}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"approved": True}, {"type": "accept", "args": None}),
        (
            {"approved": True, "edits": {"version": "1.5"}},
            {"type": "edit", "args": {"action": "deploy", "args": ARGUMENTS | {"version": "1.5"}}},
        ),
        ({"approved": True, "answers": {"respond": "Later."}}, {"type": "response", "args": "Later."}),
    ],
)
@pytest.mark.parametrize("value", [INBOX, [INBOX]], ids=["alone", "in a list"])
def test_an_agent_inbox_request_gets_an_agent_inbox_response(desk: Desk, value: Any, answer: Any, told: Any) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"deploy": asking(value, ran)}))
    assert asked.payload["arguments"] == ARGUMENTS
    assert asked.question == "Deploy 1.4 to production?"
    desk.reviewer.feedback(asked.id, {"digest": asked.digest, **answer})

    assert desk.resume(graph).ended
    assert ran == [[told]]


@pytest.mark.parametrize(("allowed", "kind"), [("allow_respond", "response"), ("allow_ignore", "ignore")])
def test_an_agent_inbox_rejection_has_the_type_that_its_request_allows(desk: Desk, allowed: str, kind: str) -> None:
    ran: list[Any] = []
    request = INBOX | {"config": {"allow_accept": True, allowed: True}}
    graph, (asked,) = desk.started(compiled({"deploy": asking([request], ran)}))
    desk.reviewer.reject(asked.id, comment="Not today.")

    assert desk.resume(graph).ended
    ((told,),) = ran
    assert told["type"] == kind
    assert "Not today." in str(told["args"]) or kind == "ignore"


@pytest.mark.parametrize(
    ("value", "answer", "told"),
    [
        ("Deploy?", {"approved": True}, True),
        ("Which version?", {"approved": True, "answers": {"answer": "1.5"}}, "1.5"),
        ({"question": "Where?", "options": ["east", "west"]}, {"approved": True, "option": "west"}, "west"),
        ("Deploy?", {"approved": False, "comment": "No."}, False),
        ({"draft": "Dear all"}, {"approved": False}, False),
    ],
)
def test_a_bare_question_gets_a_truthy_value_only_if_approved(desk: Desk, value: Any, answer: Any, told: Any) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"deploy": asking(value, ran)}))
    desk.reviewer.feedback(asked.id, {"digest": asked.digest, **answer})

    assert desk.resume(graph).ended
    assert ran == [told]


class Plan(BaseModel):
    version: str
    servers: int


def test_a_question_with_a_schema_becomes_a_form_that_returns_its_values(desk: Desk) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"plan": asking("What?", ran, response_schema=Plan)}))
    desk.approve(asked, answers={"version": "1.5", "servers": 3})

    assert desk.resume(graph).ended
    assert ran == [Plan(version="1.5", servers=3)]


def test_rejecting_a_question_with_a_schema_stops_the_graph(desk: Desk) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"plan": asking("What?", ran, response_schema=Plan)}))
    desk.reviewer.reject(asked.id)

    with pytest.raises(NotApproved):
        desk.resume(graph)
    assert ran == []


@pytest.mark.parametrize("end", ["expire", "cancel"])
def test_an_expired_or_cancelled_question_does_not_count_as_approval(desk: Desk, end: str) -> None:
    ran: list[Any] = []
    build = compiled({"east": deploying(ran), "west": asking("West?", ran)})
    graph, asked = desk.started(build, ttl_seconds=1 if end == "expire" else 3600)
    with desk.client() as agent:
        for each in asked if end == "cancel" else ():
            agent.cancel(each.id)
        ended = run(graph, None, desk.config, client=agent, ttl_seconds=1 if end == "expire" else 3600)

    assert ran == [False]
    assert {"expire": "No one answered in time.", "cancel": "The request was cancelled."}[end] in ended["said"]


def test_an_unreachable_server_rejects_in_run_and_raises_in_ask_and_resume(desk: Desk) -> None:
    agent = reviewed(["north"])
    graph = agent(InMemorySaver())
    with Assent(f"http://127.0.0.1:{free_port()}", desk.token, patience=0.1) as nobody:
        graph.invoke({"messages": [("user", "Go on.")]}, desk.config, context=None)
        for step in (ask, resume):
            with pytest.raises(Unreachable):
                step(graph, desk.config, client=nobody)
        assert len(graph.get_state(desk.config).interrupts) == 1

        run(graph, None, desk.config, client=nobody)

    assert agent.ran == []
    assert "Could not ask a reviewer" in agent.heard["call-north"].text


def test_resuming_with_different_terms_finds_the_original_question(desk: Desk) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"deploy": deploying(ran)}), agent_id="first", ttl_seconds=600)
    desk.approve(asked)

    assert desk.resume(graph, agent_id="second", ttl_seconds=60).ended
    assert ran == [ARGUMENTS]
    assert desk.asked() == 1


def test_a_graph_that_stops_without_a_question_is_not_resumed(desk: Desk) -> None:
    ran: list[Any] = []
    graph = compiled({"deploy": lambda _: ran.append("deployed")}, interrupt_before=["deploy"])(InMemorySaver())

    for given in ({"said": ""}, None):
        with pytest.raises(NotApproved, match="without asking a question"):
            desk.run(graph, given)
    assert ran == []


def test_a_thread_resumes_where_it_failed(desk: Desk) -> None:
    ran: list[Any] = []

    def node(_: State) -> State:
        ran.append("tried")
        if len(ran) == 1:
            raise OSError
        return {"said": "done"}

    graph = compiled({"work": node})(InMemorySaver())
    with pytest.raises(OSError):  # noqa: PT011  # the error has no message
        desk.run(graph, {"said": ""})

    assert desk.run(graph, {"said": ""})["said"] == "done"
    assert desk.run(graph, None)["said"] == "done"
    assert len(ran) == 2


def test_approvals_cannot_be_reused_from_a_past_checkpoint(desk: Desk) -> None:
    ran: list[Any] = []
    graph, (asked,) = desk.started(compiled({"deploy": deploying(ran)}))
    past = graph.get_state(desk.config).config
    desk.approve(asked)
    desk.resume(graph)

    with desk.client() as client, pytest.raises(InvalidRequest, match="checkpoint"):
        run(graph, None, past, client=client)
    assert len(ran) == 1


@dataclass
class Late:
    """A graph whose state is outdated, because another program advanced the graph after the state was read."""

    graph: Graph
    seen: StateSnapshot

    def get_state(self, config: RunnableConfig) -> StateSnapshot:  # noqa: ARG002  # always the outdated state
        return self.seen

    def invoke(self, input: Any, config: RunnableConfig, *, context: Any) -> Any:  # noqa: A002  # LangGraph's signature
        return self.graph.invoke(input, config, context=context)

    async def aget_state(self, config: RunnableConfig) -> StateSnapshot:
        return self.get_state(config)

    async def ainvoke(self, input: Any, config: RunnableConfig, *, context: Any) -> Any:  # noqa: A002  # LangGraph's signature
        return self.invoke(input, config, context=context)


def test_a_late_answer_is_not_applied_to_the_next_question(desk: Desk) -> None:
    ran: list[Any] = []

    def node(_: State) -> None:
        approval("plan", ARGUMENTS)
        ran.append(bool(approval("deploy", ARGUMENTS)))

    graph, (asked,) = desk.started(compiled({"deploy": node}))
    late = Late(graph, graph.get_state(desk.config))
    desk.approve(asked)
    assert len(desk.resume(graph).waiting) == 1

    with pytest.raises(UnknownInterruptError):
        desk.resume(late)
    assert ran == []


@pytest.mark.parametrize("answer", [True, "yes", {"approved": True}, {"approved": True, "callDigest": "0" * 64}])
def test_resuming_a_thread_without_assent_does_not_count_as_approval(desk: Desk, answer: Any) -> None:
    ran: list[Any] = []
    graph, _ = desk.started(compiled({"deploy": deploying(ran)}))

    assert "is for a different call" in graph.invoke(Command(resume=answer), desk.config, context=None)["said"]
    assert ran == []


def test_a_question_inside_a_subgraph_is_asked_and_answered(desk: Desk) -> None:
    ran: list[Any] = []

    def build(saver: BaseCheckpointSaver[Any]) -> Graph:
        inner = StateGraph(State)
        inner.add_node("deploy", deploying(ran))
        inner.add_edge(START, "deploy")
        outer = StateGraph(State)
        outer.add_node("team", inner.compile())
        outer.add_edge(START, "team")
        outer.add_edge("team", END)
        return outer.compile(checkpointer=saver)

    graph, (asked,) = desk.started(build)
    desk.approve(asked)

    assert desk.resume(graph).ended
    assert ran == [ARGUMENTS]


def test_a_config_without_a_thread_is_rejected(desk: Desk) -> None:
    graph = compiled({"deploy": deploying([])})(InMemorySaver())
    with desk.client() as client, pytest.raises(InvalidRequest, match="thread"):
        run(graph, {"said": ""}, {}, client=client)


def test_a_missing_package_error_names_the_package_to_install() -> None:
    program = "import sys; sys.modules['langgraph'] = None; import assent.agents.langgraph"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "pip install 'assent[langgraph]'" in ended.stderr
