"""An OpenAI Agents SDK agent that deploys only after an approval. The model is scripted.

With ASSENT_URL and ASSENT_TOKEN set: python examples/agents/openai_agent.py --state /tmp/deployer
Kill it while it waits and start it again: it resumes from the state saved in Assent. The folder stores the run's name.
"""

import argparse
import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, RunResult, function_tool
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

from assent import AsyncAssent
from assent.agents.openai_agents import Approvals


@function_tool(needs_approval=True)
def deploy(target: str, version: str) -> str:
    """Deploy a version to a target."""
    print("ran", json.dumps({"target": target, "version": version}))
    return f"Version {version} is on {target}."


def answer(call: ModelCall) -> ModelStep:
    """A scripted model: it calls deploy, then reports the result."""
    said: list[dict[str, Any]] = [] if isinstance(call.input, str) else call.input
    results = [item["output"] for item in said if item.get("type") == "function_call_output"]
    if not results:
        return ModelStep([function_call("deploy", {"target": "production", "version": "1.4"}, call_id="call_1")])
    print("received", " ".join(results[-1].split()))
    return ModelStep([assistant_message("That is all.")])


def deployer() -> Agent:
    steps = [ModelStep.respond(answer), ModelStep.respond(answer)]
    return Agent(
        name="deployer", instructions="Deploy the requested version.", model=ScriptedModel(steps), tools=[deploy]
    )


def thread_of(folder: Path) -> str:
    """Return the name of this folder's run; it stays the same after a restart."""
    file = folder / "thread"
    if not file.exists():
        fresh = folder / "thread.new"
        fresh.write_text(f"deploy-{uuid.uuid4().hex}")
        fresh.replace(file)
    return file.read_text()


async def main(folder: Path, ttl: int) -> None:
    quiet = RunConfig(tracing_disabled=True)
    thread = thread_of(folder)
    async with AsyncAssent() as client:
        approvals = Approvals(client=client, terms={"ttl_seconds": ttl})
        asked = await approvals.find(thread)
        result: RunResult
        if asked is None:
            result = await approvals.run(deployer(), "Deploy 1.4 to production.", thread=thread, run_config=quiet)
        else:
            result = await approvals.resume(deployer(), asked, run_config=quiet)
    print(result.final_output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="Folder that stores the name of the run")
    parser.add_argument("--ttl", type=int, default=3600, help="Seconds until the deadline")
    given = parser.parse_args()
    asyncio.run(main(given.state, given.ttl))
