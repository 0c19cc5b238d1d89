"""The MCP server over HTTP: authentication, which token is used, and protection from web pages."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.agents.mcp.seats import ERAS, Place, calling, listening, saying
from tests.cli.commands import environment

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tester", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def endpoint(served: Place) -> Iterator[str]:
    # The server's own environment contains an agent token and a personal token, which it must not use for callers.
    env = environment(ASSENT_URL=served.url, ASSENT_TOKEN=served.agent, ASSENT_REVIEWER_TOKEN=served.olga)
    with listening(env) as url:
        yield url


async def knock(endpoint: str, token: str, **headers: str) -> httpx2.Response:
    return await sent(endpoint, Authorization=f"Bearer {token}", **headers)


async def sent(endpoint: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(endpoint, json=HELLO, headers=ACCEPT | headers)


def test_the_server_listens_on_localhost_by_default(endpoint: str) -> None:
    assert urlsplit(endpoint).hostname == "127.0.0.1"


async def test_a_caller_with_a_token_is_accepted(place: Place, endpoint: str) -> None:
    assert (await knock(endpoint, place.agent)).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic YTpi"}])
async def test_a_caller_without_a_token_gets_401(endpoint: str, headers: dict[str, str]) -> None:
    answer = await sent(endpoint, **headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("version", [None, "2026-07-28"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:7374", "127.0.0.1.evil.example", "127.0.0.1:1"])
async def test_an_unknown_host_header_is_rejected(place: Place, endpoint: str, host: str, version: str | None) -> None:
    more = {"MCP-Protocol-Version": version} if version else {}

    assert (await knock(endpoint, place.agent, Host=host, **more)).status_code == 421


@pytest.mark.parametrize("version", [None, "2026-07-28"])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:8000", "http://localhost", "null"])
async def test_requests_from_web_pages_are_rejected(
    place: Place, endpoint: str, origin: str, version: str | None
) -> None:
    more = {"MCP-Protocol-Version": version} if version else {}

    assert (await knock(endpoint, place.agent, Origin=origin, **more)).status_code == 403


async def test_hosts_and_origins_can_be_allowed_with_options(place: Place) -> None:
    options = ("--allow-host", "assent.example", "--allow-origin", "https://console.example")
    with listening(environment(ASSENT_URL=place.url), *options) as url:
        allowed = {"Host": "assent.example", "Origin": "https://console.example"}
        assert (await knock(url, place.agent, **allowed)).status_code == 200
        assert (await knock(url, place.agent, **(allowed | {"Origin": "https://other.example"}))).status_code == 403
        assert (await knock(url, place.agent, **(allowed | {"Host": "other.example"}))).status_code == 421


@pytest.mark.parametrize("era", ERAS)
async def test_each_caller_uses_its_own_token(place: Place, endpoint: str, era: str) -> None:
    async with calling(endpoint, place.agent, era=era) as one, calling(endpoint, place.other_agent, era=era) as two:
        breakpoint_id = (await one.call("create_breakpoint", question="Deploy?")).json["breakpointId"]

        assert (await place.found(breakpoint_id)).created_by == "agent:robot"
        assert (await two.call("get_breakpoint", breakpoint_id=breakpoint_id)).failed
        mine = (await two.call("create_breakpoint", question="Deploy?")).json["breakpointId"]
        assert (await place.found(mine)).created_by == "agent:other"


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_token_creates_no_breakpoint(place: Place, endpoint: str, era: str) -> None:
    async with calling(endpoint, "asta_unknown", era=era) as seat:
        assert (await seat.call("create_breakpoint", question="Deploy?")).failed
    async with place.reviewer() as person:
        assert (await person.list(status="waiting")).items == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_personal_token_sent_by_the_caller_counts(place: Place, endpoint: str, era: str) -> None:
    who = saying("accept", decision="approve")
    async with calling(endpoint, place.agent, era=era, who=who, Assent_Reviewer_Token=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?")).json

        assert (said["approved"], said["respondedBy"]) == (True, "olga")


@pytest.mark.parametrize("era", ERAS)
async def test_the_servers_own_personal_token_is_not_used_for_callers(place: Place, endpoint: str, era: str) -> None:
    who = saying("accept", decision="approve")
    async with calling(endpoint, place.agent, era=era, who=who) as seat:
        said = (await seat.call("ask_human", question="Deploy?", max_seconds=0)).json

        assert (said["status"], said["approved"], len(who.shown)) == ("waiting", False, 1)


async def test_an_agent_token_is_rejected_as_a_personal_token(place: Place, endpoint: str) -> None:
    async with calling(endpoint, place.agent, Assent_Reviewer_Token=place.other_agent) as seat:
        said = await seat.call("ask_human", question="Deploy?", max_seconds=0)

        assert said.failed
        assert "Agents cannot approve or reject" in said.text


async def test_a_session_is_bound_to_the_token_that_opened_it(place: Place, endpoint: str) -> None:
    session = (await knock(endpoint, place.agent)).headers["mcp-session-id"]

    assert (await knock(endpoint, place.other_agent, **{"Mcp-Session-Id": session})).status_code == 404
