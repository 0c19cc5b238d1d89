"""An agent that uses `assent mcp` to ask for approval before it deploys.

With ASSENT_URL and ASSENT_TOKEN set: python examples/agents/mcp_client.py --state /tmp/agent

The tool calls that a model would choose are scripted. Kill it while it waits and start it again with the same --state:
it continues with the same question.
"""

import argparse
import asyncio
import json
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

WANTED: Mapping[str, Any] = {"target": "production", "version": "1.4"}


def deploy(target: str, version: str) -> None:
    print("ran", json.dumps({"target": target, "version": version}))


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """Call a tool and return its result; treat every error as not approved."""
    answer = await client.call_tool(tool, arguments)
    (block,) = answer.content
    assert isinstance(block, TextContent)
    if answer.is_error:
        return {"status": "error", "approved": False, "message": block.text}
    said: dict[str, Any] = json.loads(block.text)
    return said


async def approval(client: Client, *, key: str, ttl: int | None) -> dict[str, Any]:
    """Ask for approval and wait until the breakpoint has ended."""
    said = await called(
        client,
        "create_breakpoint",
        question="Deploy 1.4 to production?",
        title="deploy",
        gate="tool.deploy",
        payload={"tool": "deploy", "arguments": dict(WANTED)},
        editable=list(WANTED),
        ttl_seconds=ttl,
        key=key,
    )
    while said["status"] == "waiting":
        said = await called(client, "wait_for_breakpoint", breakpoint_id=said["breakpointId"])
    return said


def kept_key(state: Path) -> str:
    """Return the idempotency key: created once and saved before asking, so that a restart finds the same question."""
    file = state / "key"
    if not file.exists():
        fresh = state / "key.new"
        fresh.write_text(uuid.uuid4().hex)
        fresh.replace(file)
    return file.read_text()


async def main(state: Path, ttl: int | None) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "assent", "mcp"], env=dict(os.environ))
    async with Client(server) as client:
        said = await approval(client, key=kept_key(state), ttl=ttl)
    if said["approved"] is True:
        deploy(**{**WANTED, **said.get("edits", {})})
    print("received", " ".join(said["message"].split()))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--state", type=Path, required=True)
    options.add_argument("--ttl", type=int)
    given = options.parse_args()
    asyncio.run(main(given.state, given.ttl))
