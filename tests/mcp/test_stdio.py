"""The MCP server as a process of its own, as clients start it."""

import json
import subprocess
import sys

import pytest

from assent.sdk.client import Assent
from tests.cli.commands import COMMAND, environment, run
from tests.mcp.seats import ERAS, Place, saying


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_at_the_client_can_decide_with_their_own_token(place: Place, era: str) -> None:
    who = saying("accept", decision="approve", comment="Fine.")
    async with place.piped(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?")).json

        assert (said["approved"], said["respondedBy"]) == (True, "olga")


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_is_called_what_its_client_is_called(place: Place, era: str) -> None:
    async with place.piped(era=era) as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?")).json

        assert (await place.found(asked["breakpointId"])).agent_id == "robot-7"


def test_it_ends_with_its_client_also_while_a_call_waits(place: Place) -> None:
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


def test_without_a_token_it_does_not_start_and_says_what_to_do() -> None:
    ended = run("mcp", env=environment())

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "assent token create --kind agent" in ended.stderr


def test_an_agents_token_in_place_of_a_persons_is_refused_at_the_start(place: Place) -> None:
    ended = run("mcp", env=place.env(ASSENT_REVIEWER_TOKEN=place.other_agent))

    assert ended.returncode == 2
    assert "Agents cannot approve or reject" in ended.stderr


def test_a_port_that_is_taken_is_told_in_a_sentence(place: Place) -> None:
    port = place.url.rpartition(":")[2]
    ended = run("mcp", "--transport", "http", "--port", port, env=environment())

    assert ended.returncode == 2
    assert "--port" in ended.stderr


def test_other_commands_do_not_load_the_protocol() -> None:
    looking = "import sys; import assent.cli.main, assent.cli.ask, assent.cli.mcp; print('mcp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"
