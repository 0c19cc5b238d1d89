"""Agents that wait while nodes restart: like an SDK, they retry on another node, so that no wait fails."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import httpx2

from assent.kernel.settings import Settings
from tests.support.nodes import Process, prepared, start_server

WAITERS = 500
PATIENCE = 120
"""Seconds after which a test gives up; no shorter time is asserted."""


def headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@dataclass
class Agents:
    """Clients that wait like an SDK: after a lost connection or a 503, they switch to another node."""

    urls: list[str]
    agent: str
    reviewer: str
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def client(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=2 * WAITERS, max_keepalive_connections=2 * WAITERS)
        return httpx2.AsyncClient(timeout=60, limits=limits, headers=headers(self.agent))

    async def somewhere(self, ask: Callable[[str], Awaitable[httpx2.Response]], first: int = 0) -> httpx2.Response:
        """Try the nodes in turn until one responds."""
        for attempt in range(10_000):
            try:
                answer = await ask(self.urls[(first + attempt) % len(self.urls)])
            except httpx2.TransportError as error:
                self.seen[type(error).__name__] += 1
            else:
                self.seen[str(answer.status_code)] += 1
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.05)  # clients also pause between attempts
        msg = "no node ever answered"
        raise AssertionError(msg)

    async def create(self, client: httpx2.AsyncClient, number: int = 0) -> str:
        body = {"agentId": "a", "payload": {"question": "Go?"}}
        key = {"idempotency-key": f"create-{number}"}
        answer = await self.somewhere(
            lambda url: client.post(f"{url}/api/breakpoints", json=body, headers=key), first=number
        )
        assert answer.status_code == 201, answer.text
        created: str = answer.json()["id"]
        return created

    async def approve(self, client: httpx2.AsyncClient, breakpoint_id: str, first: int = 0) -> None:
        path = f"/api/breakpoints/{breakpoint_id}/feedback"
        key = headers(self.reviewer) | {"idempotency-key": f"approve-{breakpoint_id}"}
        answer = await self.somewhere(
            lambda url: client.post(url + path, json={"approved": True}, headers=key), first=first
        )
        assert answer.status_code == 200, answer.text

    async def wait(self, client: httpx2.AsyncClient, breakpoint_id: str, first: int) -> str:
        """Poll until there is a decision."""
        path = f"/api/breakpoints/{breakpoint_id}/status?wait=30"
        while True:
            answer = await self.somewhere(lambda url: client.get(url + path), first=first)
            if answer.status_code != 200:
                self.wrong.append(f"{answer.status_code} {answer.text}")
                return "failed"
            status = answer.json()
            if status["status"] != "waiting":
                return str(status.get("decision"))
            first += 1


async def parked(urls: list[str], count: int) -> None:
    """Wait until this many requests are waiting on these nodes."""
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            # Only the servers' gauge shows the number of waiters, and it has to be polled.
            while sum([await waiters(client, url) for url in urls]) < count:
                pass


async def waiters(client: httpx2.AsyncClient, url: str) -> float:
    answer = await client.get(f"{url}/metrics")
    assert answer.status_code == 200, answer.text
    return sum(float(line.split()[1]) for line in answer.text.splitlines() if line.startswith("assent_waiters "))


async def ready(settings: Settings) -> Agents:
    agent, reviewer = await asyncio.to_thread(prepared, settings, "agent", "reviewer")
    return Agents([], agent, reviewer)


def restarted(node: Process, settings: Settings) -> Process:
    """Stop the node with SIGTERM, and start it again on the same port."""
    node.stop()
    return start_server(settings, port=int(node.url.rpartition(":")[2]))


async def rolling_restart(agents: Agents, settings: Settings, *, waiters: int = WAITERS) -> Counter[str]:
    """Restart two nodes in turn while clients wait and people decide; return the decisions that the clients got."""
    nodes = [await asyncio.to_thread(start_server, settings) for _ in range(2)]
    agents.urls = [node.url for node in nodes]
    share = waiters // 10
    try:
        async with agents.client() as client:
            ids = [await agents.create(client, n) for n in range(waiters)]
            waits = [asyncio.create_task(agents.wait(client, each, n)) for n, each in enumerate(ids)]
            await parked(agents.urls, waiters)
            for n in range(len(nodes)):
                restarting = asyncio.create_task(asyncio.to_thread(restarted, nodes[n], settings))
                # Decisions continue while a node is down.
                for each in ids[n * share : n * share + share]:
                    await agents.approve(client, each, first=n + 1)
                nodes[n] = await restarting
            for each in ids[2 * share :]:
                await agents.approve(client, each)
            with anyio.fail_after(PATIENCE):
                return Counter(await asyncio.gather(*waits))
    finally:
        for node in nodes:
            if node.popen.poll() is None:
                await asyncio.to_thread(node.stop)
