"""The examples on the MCP page work, and its table lists every tool."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from assent.agents.mcp.callers import configured
from assent.agents.mcp.server import built
from assent.kernel.settings import Settings
from tests.agents.mcp.seats import Seat, listening
from tests.cli.commands import environment
from tests.docs.pages import DOCS
from tests.docs.test_shell import example
from tests.support.nodes import prepared, server

PAGE = DOCS / "how-to" / "mcp.md"


def shown(name: str, token: str) -> Mapping[str, Any]:
    """Return the server settings in an example, as parsed by a client."""
    text = example(PAGE, name).replace("${ASSENT_TOKEN}", token)
    found: Mapping[str, Any] = json.loads(text)["mcpServers"]["assent"]
    return found


async def test_the_table_lists_every_tool() -> None:
    listed = re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(), re.MULTILINE)

    async with Client(built(configured({"ASSENT_TOKEN": "asta_any"}, agent_id=None))) as client:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(listed)


@pytest.fixture
def token(sqlite_settings: Settings) -> str:
    return prepared(sqlite_settings, "agent")[0]


async def test_an_agent_can_ask_with_both_example_configurations(sqlite_settings: Settings, token: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with server(sqlite_settings) as process, listening(environment(ASSENT_URL=process.url)) as url:
        stdio, http = shown("stdio", token), shown("http", token)
        env = environment(PATH=path) | stdio["env"] | {"ASSENT_URL": process.url}
        command = StdioServerParameters(command=stdio["command"], args=stdio["args"], env=env)
        async with Client(command) as client:
            assert (await Seat(client).call("create_breakpoint", question="Shall I?")).json["status"] == "waiting"
        assert http["url"].rpartition(":")[2] == "7374/mcp"
        async with (
            httpx2.AsyncClient(headers=http["headers"], timeout=60) as sender,
            Client(streamable_http_client(url, http_client=sender)) as client,
        ):
            assert (await Seat(client).call("create_breakpoint", question="Shall I?")).json["status"] == "waiting"
