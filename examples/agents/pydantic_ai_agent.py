"""A Pydantic AI agent that deploys only after an approval. The model is scripted.

With ASSENT_URL and ASSENT_TOKEN set: python examples/agents/pydantic_ai_agent.py --state /tmp/deployer
The run ends when an approval is needed, and a second run continues with the answers; with --inline, a single run waits.
Kill it while it waits and start it again: the messages are in the folder and the questions in Assent.
"""

import argparse
import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from assent import AsyncAssent
from assent.agents.pydantic_ai import Approvals

PROMPT = "Deploy 1.4 to production."
WANTED = {"target": "production", "version": "1.4"}


def deploy(target: str, version: str) -> str:
    """Deploy a version to a target."""
    print("ran", json.dumps({"target": target, "version": version}))
    return f"Version {version} is on {target}."


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A scripted model: it calls deploy, then reports the result."""
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse([ToolCallPart("deploy", WANTED, f"call_{uuid.uuid4().hex}")])
    print("received", " ".join(last.model_response_str().split()))
    return ModelResponse([TextPart("That is all.")])


@dataclass
class Stopped:
    """A conversation that is waiting for approval."""

    thread: str
    messages: list[ModelMessage]
    requests: DeferredToolRequests | None = None


class Folder:
    """Stores the conversation so that it survives a restart."""

    def __init__(self, path: Path) -> None:
        self._file, self._fresh = path / "conversation.json", path / "conversation.new"
        self._json = TypeAdapter(Stopped)

    def read(self) -> Stopped:
        if not self._file.exists():
            self.write(Stopped(f"deploy-{uuid.uuid4().hex}", []))
        return self._json.validate_json(self._file.read_bytes())

    def write(self, stopped: Stopped) -> None:
        self._fresh.write_bytes(self._json.dump_json(stopped))
        self._fresh.replace(self._file)

    def forget(self) -> None:
        self._file.unlink()


async def deferred(client: AsyncAssent, approvals: Approvals, folder: Folder) -> str:
    tools = [Tool(deploy, requires_approval=True)]
    agent = Agent(FunctionModel(answer), tools=tools, output_type=[str, DeferredToolRequests])
    stopped = folder.read()
    messages = stopped.messages
    output: str | DeferredToolRequests | None = stopped.requests
    if output is None:
        result = await agent.run(PROMPT)
        messages, output = result.all_messages(), result.output
    while isinstance(output, DeferredToolRequests):
        folder.write(Stopped(approvals.thread, messages, output))
        results = await approvals.results(client, output, messages)
        result = await agent.run(message_history=messages, deferred_tool_results=results)
        messages, output = result.all_messages(), result.output
    return output


async def inline(client: AsyncAssent, approvals: Approvals, folder: Folder) -> str:
    def keep(messages: Sequence[ModelMessage]) -> None:
        folder.write(Stopped(approvals.thread, [*messages]))

    tools = [Tool(deploy, requires_approval=True)]
    agent = Agent(FunctionModel(answer), tools=tools, capabilities=[approvals.inline(client, keep=keep)])
    messages = folder.read().messages
    return (await agent.run(None if messages else PROMPT, message_history=messages)).output


async def main(folder: Folder, ttl: int, *, waits: bool) -> None:
    approvals = Approvals(
        thread=folder.read().thread, terms={"ttl_seconds": ttl}, editable={"deploy": ("target", "version")}
    )
    async with AsyncAssent() as client:
        print(await (inline if waits else deferred)(client, approvals, folder))
    folder.forget()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="Folder that stores the conversation")
    parser.add_argument("--ttl", type=int, default=3600, help="Seconds until the deadline")
    parser.add_argument("--inline", action="store_true", help="Wait for the answers within one run")
    given = parser.parse_args()
    asyncio.run(main(Folder(given.state), given.ttl, waits=given.inline))
