"""Graphs and agents that ask in every supported way, and record their actions in `ran`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptMode
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from assent.agents.langgraph import Graph, approval

Build = Callable[[BaseCheckpointSaver[Any]], Graph]
ARGUMENTS = {"target": "production", "version": "1.4"}


class State(TypedDict, total=False):
    said: str


def compiled(nodes: Mapping[str, Any], **options: Any) -> Build:
    """Return a function that builds a graph running these nodes in parallel."""
    drawn = StateGraph(State)
    for name, node in nodes.items():
        drawn.add_node(name, node)
        drawn.add_edge(START, name)
        drawn.add_edge(name, END)
    return lambda saver: drawn.compile(checkpointer=saver, **options)


def deploying(ran: list[Any], **asked: Any) -> Any:
    """Return a node that deploys with the approved arguments."""

    def node(_: State) -> State:
        answer = approval("deploy", {**ARGUMENTS, **asked}, editable=["version"])
        if answer:
            ran.append(dict(answer.arguments))
        return {"said": answer.reason}

    return node


def asking(value: Any, ran: list[Any], **options: Any) -> Any:
    """Return a node that asks with a bare interrupt and records the answer."""

    def node(_: State) -> None:
        ran.append(interrupt(value, **options))

    return node


class Scripted(BaseChatModel):
    """A scripted model that makes these calls and then receives their results."""

    calls: list[dict[str, Any]]
    heard: dict[str, ToolMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ARG002  # unused by a scripted model
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002  # unused by a scripted model
        results = [each for each in messages if isinstance(each, ToolMessage)]
        self.heard.update({each.tool_call_id: each for each in results})
        said = AIMessage("That is all.") if results else AIMessage("", tool_calls=self.calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


class Reviewed(BaseModel):
    """An agent whose calls are reviewed, with the calls that ran and the results that the model received."""

    calls: list[dict[str, Any]]
    allowed: Any = True
    mode: InterruptMode = "batched"
    longest: int | None = None
    """The maximum length of a version name."""
    ran: list[Any] = []
    heard: dict[str, Any] = {}

    def __call__(self, saver: BaseCheckpointSaver[Any]) -> Graph:
        @tool
        def deploy(target: str, version: Annotated[str, Field(max_length=self.longest)]) -> str:
            """Deploy a version to a target."""
            self.ran.append({"target": target, "version": version})
            return f"Version {version} is on {target}."

        model = Scripted(calls=self.calls, heard={})
        model.heard = self.heard
        allowed: Any = self.allowed if self.allowed is True else {"allowed_decisions": self.allowed}
        review = HumanInTheLoopMiddleware({"deploy": allowed}, interrupt_mode=self.mode)
        return create_agent(model, [deploy], middleware=[review], checkpointer=saver)


def reviewed(targets: Sequence[str], *, allowed: Any = True, mode: InterruptMode = "batched") -> Reviewed:
    """Return an agent that tries to deploy to every target in one turn."""
    calls = [{"name": "deploy", "args": {"target": each, "version": "1.4"}, "id": f"call-{each}"} for each in targets]
    return Reviewed(calls=calls, allowed=allowed, mode=mode, ran=[], heard={})
