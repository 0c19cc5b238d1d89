"""Several nodes behind the real nginx, configured as deploy/nginx.conf says: nobody who waits notices what goes on."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import anyio
import httpx2
import pytest

from assent.settings import Settings
from tests.deploy.proxy import Proxy, nginx
from tests.faults.waiting import PATIENCE, Agents, headers, parked, ready, restarted
from tests.support.nodes import Process, launch, start_server
from tests.support.nodes import ready as takes_requests
from tests.support.receiver import receiving

WAITERS = 200


@dataclass
class Clients(Agents):
    """Agents that know of one address only."""

    proxy: Proxy | None = None

    def client(self) -> httpx2.AsyncClient:
        assert self.proxy is not None, "given below"
        limits = httpx2.Limits(max_connections=2 * WAITERS, max_keepalive_connections=2 * WAITERS)
        return httpx2.AsyncClient(
            timeout=60, limits=limits, headers=headers(self.agent), verify=self.proxy.trust, http2=False
        )

    async def somewhere(self, ask: Callable[[str], Awaitable[httpx2.Response]], first: int = 0) -> httpx2.Response:
        """Ask again when the proxy has found no node, as the SDK does."""
        while (answer := await super().somewhere(ask, first)).status_code == HTTPStatus.BAD_GATEWAY:
            pass
        return answer


@dataclass
class Site:
    """Two nodes, and nginx in front of them."""

    nodes: list[Process]
    clients: Clients
    settings: Settings
    urls: list[str] = field(default_factory=list[str])

    async def restart(self, n: int) -> None:
        """SIGTERM, and start again on the same port."""
        self.nodes[n] = await asyncio.to_thread(restarted, self.nodes[n], self.settings)

    async def replace_killed(self, n: int) -> None:
        """SIGKILL, and start again on the same port."""
        await asyncio.to_thread(self.nodes[n].kill)
        port = int(self.nodes[n].url.rpartition(":")[2])
        self.nodes[n] = launch(self.settings, port=port)
        assert await asyncio.to_thread(takes_requests, self.nodes[n].url, self.nodes[n].popen)


@pytest.fixture
async def site(postgres_settings: Settings, tmp_path: Path) -> AsyncIterator[Site]:
    made = await ready(postgres_settings)
    nodes = [await asyncio.to_thread(start_server, postgres_settings) for _ in range(2)]
    folder = tmp_path / "nginx"
    folder.mkdir()
    urls = [node.url for node in nodes]
    try:
        async with nginx(folder, urls) as proxy:
            clients = Clients([proxy.url], made.agent, made.reviewer, proxy=proxy)
            yield Site(nodes, clients, postgres_settings, urls)
    finally:
        for node in nodes:
            if node.popen.poll() is None:
                await asyncio.to_thread(node.stop)


def told(capsys: pytest.CaptureFixture[str], what: str, clients: Clients) -> None:
    with capsys.disabled():
        met = ", ".join(f"{name}: {count}" for name, count in sorted(clients.seen.items()))
        sys.stdout.write(f"\n{what} behind nginx: {WAITERS} waiters, {len(clients.wrong)} failed waits; met {met}\n")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("how", "meets"),
    [
        # What a leaving node answers with "still waiting" is asked again.
        ("restarted", {"200"}),
        # nginx asks each node once for a request: of two that die under the same wait it knows no third.
        ("killed", {"200", "502"}),
    ],
)
async def test_no_wait_fails_while_each_node_is_replaced_in_turn(
    site: Site, how: str, meets: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    clients = site.clients
    async with clients.client() as client:
        ids = [await clients.create(client, n) for n in range(WAITERS)]
        waits = [asyncio.create_task(clients.wait(client, each, 0)) for each in ids]
        await parked(site.urls, WAITERS)
        # Whatever was met until now came of asking, not of waiting.
        clients.seen.clear()
        for n in range(2):
            await (site.restart(n) if how == "restarted" else site.replace_killed(n))
            # All of them wait again, wherever they wait now.
            await parked(site.urls, WAITERS)
        met = Counter(clients.seen)
        for each in ids:
            await clients.approve(client, each)
        with anyio.fail_after(PATIENCE):
            decisions = await asyncio.gather(*waits)
    told(capsys, f"each node {how} in turn", clients)
    assert clients.wrong == []
    assert Counter(decisions) == {"approved": WAITERS}
    # No connection is ever lost: what happens behind nginx is nginx's to mend.
    assert set(met) <= meets


async def test_a_stream_is_shown_as_it_comes(site: Site) -> None:
    clients = site.clients
    async with clients.client() as client:
        created = await clients.create(client)
        path = f"{clients.urls[0]}/api/breakpoints/{created}"
        async with client.stream("GET", f"{path}/stream") as stream:
            lines = stream.aiter_lines()
            seen: list[str] = []
            with anyio.fail_after(PATIENCE):
                async for line in lines:
                    seen.append(line)
                    if line == "event: created":
                        # It is open and stays so: what a proxy kept back until the end would never come.
                        said = {"comment": "Why now?"}
                        answer = await client.post(f"{path}/feedback", json=said, headers=headers(clients.reviewer))
                        assert answer.status_code == 200, answer.text
                    if line == "event: commented":
                        await clients.approve(client, created)
    assert [line for line in seen if line.startswith("event: ")][-1] == "event: released"


async def test_the_inbox_is_told_through_nginx(site: Site) -> None:
    clients = site.clients
    async with (
        clients.client() as client,
        client.stream("GET", f"{clients.urls[0]}/api/stream", headers=headers(clients.reviewer)) as stream,
    ):
        assert stream.status_code == 200
        created = await clients.create(client)
        with anyio.fail_after(PATIENCE):
            async for line in stream.aiter_lines():
                if created in line:
                    return
    pytest.fail("it was never told")


async def test_the_numbers_are_not_for_those_outside(site: Site) -> None:
    async with site.clients.client() as client:
        for headers_ in ({}, {"x-forwarded-for": "127.0.0.1"}):
            answer = await client.get(f"{site.clients.urls[0]}/metrics", headers=headers_)
            assert answer.status_code == 404
        assert (await client.get(f"{site.clients.urls[0]}/readyz")).status_code == 200


async def test_whoever_comes_without_tls_is_sent_to_it(site: Site) -> None:
    assert site.clients.proxy is not None
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{site.clients.proxy.plain_url}/inbox?status=waiting")
    assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/inbox?status=waiting")


async def test_the_nodes_hear_from_nginx_who_asks_and_not_from_the_client(tmp_path: Path) -> None:
    with receiving() as upstream:
        async with nginx(tmp_path, [upstream.url(""), upstream.url("")]) as proxy:
            forged = {
                "x-forwarded-for": "10.9.8.7, 127.0.0.1",
                "x-forwarded-proto": "http",
                "connection": "x-forwarded-for",
            }
            async with httpx2.AsyncClient(verify=proxy.trust) as client:
                await client.post(f"{proxy.url}/api/breakpoints", headers=forged)
        (call,) = upstream.calls
    heard = call.headers
    assert heard["x-forwarded-for"] == "127.0.0.1"
    assert heard["x-forwarded-proto"] == "https"
    assert heard["host"] == proxy.url.removeprefix("https://")


@pytest.mark.parametrize(("trusted", "code"), [("127.0.0.1", 401), ("10.73.73.10", 200)])
async def test_a_node_believes_only_the_proxies_it_was_told_of(
    sqlite_settings: Settings, trusted: str, code: int
) -> None:
    """The numbers are for callers on this machine: whoever is believed to speak for somebody else is not one."""
    node = await asyncio.to_thread(start_server, sqlite_settings, trusted_proxies=trusted)
    try:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(f"{node.url}/metrics", headers={"x-forwarded-for": "203.0.113.7"})
            forged = await client.get(f"{node.url}/metrics", headers={"x-forwarded-for": "127.0.0.1"})
    finally:
        node.popen.send_signal(signal.SIGTERM)
        await asyncio.to_thread(node.popen.wait, PATIENCE)
    assert (answer.status_code, forged.status_code) == (code, 200)
