"""The MCP server as a separate process, started the way clients start it."""

import json
import subprocess
import sys

import pytest

from assent.sdk.client import Assent
from tests.agents.mcp.seats import ERAS, Place, saying
from tests.cli.commands import COMMAND, environment, run


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_using_the_client_can_decide_with_their_own_token(place: Place, era: str) -> None:
    who = saying("accept", decision="approve", comment="Fine.")
    async with place.piped(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?")).json

        assert (said["approved"], said["respondedBy"]) == (True, "olga")


@pytest.mark.parametrize("era", ERAS)
async def test_the_agent_id_defaults_to_the_client_name(place: Place, era: str) -> None:
    async with place.piped(era=era) as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?")).json

        assert (await place.found(asked["breakpointId"])).agent_id == "robot-7"


def test_the_server_exits_with_its_client_even_while_a_call_waits(place: Place) -> None:
    with Assent(place.url, place.agent) as agent:
        asked = agent.create("Deploy?", agent_id="robot")
    started = subprocess.Popen(
        [*COMMAND, "mcp"], env=place.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdin is not None
    assert started.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    wait = {"name": "wait_for_breakpoint", "arguments": {"breakpoint_id": asked.id}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": wait},
    ):
        started.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        started.stdin.flush()
    assert json.loads(started.stdout.readline())["id"] == 1
    started.stdin.close()

    with started.stdout as rest:
        assert asked.id not in rest.read(), "it would be told of when the wait was over"
    assert started.wait(60) == 0
    with Assent(place.url, place.agent) as agent:
        assert agent.get(asked.id).status == "waiting"


def test_starting_without_a_token_fails_with_a_remedy() -> None:
    ended = run("mcp", env=environment())

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "assent token create --kind agent" in ended.stderr


def test_an_agent_token_configured_as_the_reviewer_token_is_rejected_at_startup(place: Place) -> None:
    ended = run("mcp", env=place.env(ASSENT_REVIEWER_TOKEN=place.other_agent))

    assert ended.returncode == 2
    assert "Agents cannot approve or reject" in ended.stderr


def test_a_port_in_use_is_reported_with_a_remedy(place: Place) -> None:
    port = place.url.rpartition(":")[2]
    ended = run("mcp", "--transport", "http", "--port", port, env=environment())

    assert ended.returncode == 2
    assert "--port" in ended.stderr


def test_other_commands_do_not_import_the_mcp_package() -> None:
    modules = "assent.cli.main, assent.breakpoints.commands.ask, assent.agents.mcp.commands"
    looking = f"import sys; import {modules}; print('mcp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"
