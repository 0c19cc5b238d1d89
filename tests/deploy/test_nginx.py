"""Several nodes behind the real nginx with deploy/nginx.conf: waiting clients do not notice restarts."""

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

from assent.kernel.settings import Settings
from tests.deploy.proxy import Proxy, nginx
from tests.faults.waiting import PATIENCE, Agents, headers, parked, ready, restarted
from tests.support.nodes import Process, launch, start_server
from tests.support.nodes import ready as takes_requests
from tests.support.receiver import receiving

WAITERS = 200


@dataclass
class Clients(Agents):
    """Agents that know only the URL of the proxy."""

    proxy: Proxy | None = None

    def client(self) -> httpx2.AsyncClient:
        assert self.proxy is not None, "given below"
        limits = httpx2.Limits(max_connections=2 * WAITERS, max_keepalive_connections=2 * WAITERS)
        return httpx2.AsyncClient(
            timeout=60, limits=limits, headers=headers(self.agent), verify=self.proxy.trust, http2=False
        )

    async def somewhere(self, ask: Callable[[str], Awaitable[httpx2.Response]], first: int = 0) -> httpx2.Response:
        """Retry if the proxy cannot reach a node, as the SDK does."""
        while (answer := await super().somewhere(ask, first)).status_code == HTTPStatus.BAD_GATEWAY:
            pass
        return answer


@dataclass
class Site:
    """Two nodes behind nginx."""

    nodes: list[Process]
    clients: Clients
    settings: Settings
    urls: list[str] = field(default_factory=list[str])

    async def restart(self, n: int) -> None:
        """Stop a node with SIGTERM, and restart it on the same port."""
        self.nodes[n] = await asyncio.to_thread(restarted, self.nodes[n], self.settings)

    async def replace_killed(self, n: int) -> None:
        """Stop a node with SIGKILL, and restart it on the same port."""
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


def report(capsys: pytest.CaptureFixture[str], what: str, clients: Clients) -> None:
    with capsys.disabled():
        met = ", ".join(f"{name}: {count}" for name, count in sorted(clients.seen.items()))
        sys.stdout.write(f"\n{what} behind nginx: {WAITERS} waiters, {len(clients.wrong)} failed waits; met {met}\n")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("how", "meets"),
    [
        # A node that is shutting down responds with "still waiting", and the client asks again.
        ("restarted", {"200"}),
        # nginx tries each node once per request, so a wait fails with 502 if both nodes die during it.
        ("killed", {"200", "502"}),
    ],
)
async def test_no_wait_fails_while_nodes_are_replaced_one_by_one(
    site: Site, how: str, meets: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    clients = site.clients
    async with clients.client() as client:
        ids = [await clients.create(client, n) for n in range(WAITERS)]
        waits = [asyncio.create_task(clients.wait(client, each, 0)) for each in ids]
        await parked(site.urls, WAITERS)
        # Ignore the responses to the create requests.
        clients.seen.clear()
        for n in range(2):
            await (site.restart(n) if how == "restarted" else site.replace_killed(n))
            # All clients are waiting again, on either node.
            await parked(site.urls, WAITERS)
        met = Counter(clients.seen)
        for each in ids:
            await clients.approve(client, each)
        with anyio.fail_after(PATIENCE):
            decisions = await asyncio.gather(*waits)
    report(capsys, f"each node {how} in turn", clients)
    assert clients.wrong == []
    assert Counter(decisions) == {"approved": WAITERS}
    # Clients never lose their connection, because nginx handles failures of the nodes behind it.
    assert set(met) <= meets


async def test_nginx_forwards_stream_events_without_buffering(site: Site) -> None:
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
                        # The stream stays open, so events that a proxy buffers until the end would never arrive.
                        said = {"comment": "Why now?"}
                        answer = await client.post(f"{path}/feedback", json=said, headers=headers(clients.reviewer))
                        assert answer.status_code == 200, answer.text
                    if line == "event: commented":
                        await clients.approve(client, created)
    assert [line for line in seen if line.startswith("event: ")][-1] == "event: released"


async def test_the_inbox_stream_delivers_updates_through_nginx(site: Site) -> None:
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


async def test_nginx_does_not_expose_metrics(site: Site) -> None:
    async with site.clients.client() as client:
        for headers_ in ({}, {"x-forwarded-for": "127.0.0.1"}):
            answer = await client.get(f"{site.clients.urls[0]}/metrics", headers=headers_)
            assert answer.status_code == 404
        assert (await client.get(f"{site.clients.urls[0]}/readyz")).status_code == 200


async def test_plain_http_requests_are_redirected_to_https(site: Site) -> None:
    assert site.clients.proxy is not None
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{site.clients.proxy.plain_url}/inbox?status=waiting")
    assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/inbox?status=waiting")


async def test_nginx_overwrites_forwarding_headers_sent_by_the_client(tmp_path: Path) -> None:
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
async def test_a_node_trusts_forwarding_headers_only_from_configured_proxies(
    sqlite_settings: Settings, trusted: str, code: int
) -> None:
    """Metrics are only for local callers; a request forwarded by a trusted proxy is not local."""
    node = await asyncio.to_thread(start_server, sqlite_settings, trusted_proxies=trusted)
    try:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(f"{node.url}/metrics", headers={"x-forwarded-for": "203.0.113.7"})
            forged = await client.get(f"{node.url}/metrics", headers={"x-forwarded-for": "127.0.0.1"})
    finally:
        node.popen.send_signal(signal.SIGTERM)
        await asyncio.to_thread(node.popen.wait, PATIENCE)
    assert (answer.status_code, forged.status_code) == (code, 200)
