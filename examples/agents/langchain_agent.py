"""A LangChain agent whose middleware asks for approval before each tool call. The model is scripted.

With ASSENT_URL and ASSENT_TOKEN set: python examples/agents/langchain_agent.py --state /tmp/deployer
Kill it while it waits and start it again: it resumes the thread from the checkpointer and the question from Assent.
"""

# LangChain is only partially typed.
# pyright: reportUnknownVariableType=false

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptMode
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from assent import AsyncAssent
from assent.agents.langgraph import arun
from assent.sdk.tool_calls import Terms

THREAD: RunnableConfig = {"configurable": {"thread_id": "release-1.4"}}
WISH = {"messages": [("user", "Deploy 1.4")]}


@tool
def deploy(target: str, version: str) -> str:
    """Deploy a version to a target."""
    print("ran", json.dumps({"target": target, "version": version}))
    return f"Version {version} is on {target}."


class Scripted(BaseChatModel):
    """A scripted model: it calls deploy, then reports the result."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],  # noqa: ARG002  # unused by a scripted model
        *,
        tool_choice: str | None = None,  # noqa: ARG002  # the same
        **kwargs: Any,  # noqa: ANN401, ARG002  # the same
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  # required by the base class
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  # the same
        **kwargs: Any,  # noqa: ANN401, ARG002  # the same
    ) -> ChatResult:
        last = messages[-1]
        if not isinstance(last, ToolMessage):
            wanted = {"name": "deploy", "args": {"target": "production", "version": "1.4"}, "id": "call_1"}
            said = AIMessage(content="", tool_calls=[wanted])
        else:
            print("received", " ".join(last.text.split()))
            said = AIMessage(content="That is all.")
        return ChatResult(generations=[ChatGeneration(message=said)])


async def main(state: Path, ttl: int | None, mode: InterruptMode) -> None:
    terms: Terms = {} if ttl is None else {"ttl_seconds": ttl}
    review = HumanInTheLoopMiddleware({"deploy": True}, interrupt_mode=mode)
    async with AsyncSqliteSaver.from_conn_string(str(state / "threads.db")) as checkpointer, AsyncAssent() as assent:
        agent = create_agent(Scripted(), [deploy], middleware=[review], checkpointer=checkpointer)
        await arun(agent, WISH, THREAD, client=assent, **terms)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--state", type=Path, required=True)
    options.add_argument("--ttl", type=int)
    options.add_argument("--mode", choices=["batched", "per_call"], default="batched")
    given = options.parse_args()
    asyncio.run(main(given.state, given.ttl, given.mode))
