"""Assent: an agent and a reviewer with separate tokens, over HTTP, with an audited history."""

import asyncio
import json
import sys
import threading
import time
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import uvloop

from assent import Assent, AsyncAssent
from bench.load import encoded
from bench.peers import cycles

ASKING = {"agentId": "agent-1", "payload": {"question": "Deploy?"}}


def by_sdk(plan: cycles.Plan) -> None:
    agent_token, reviewer_token = plan.tokens
    with Assent(plan.url, agent_token) as agent, Assent(plan.url, reviewer_token) as reviewer:

        def cycle(pause: float) -> float:
            started = time.perf_counter()
            asked = agent.create("Deploy?", agent_id="agent-1")
            asking = time.perf_counter() - started
            went_on: list[float] = []

            def resumed() -> None:
                assert agent.wait(asked.id).result is not None
                went_on.append(time.perf_counter())

            waiting = threading.Thread(target=resumed)
            waiting.start()
            time.sleep(pause)
            released = time.perf_counter()
            reviewer.approve(asked.id)
            waiting.join()
            return asking + went_on[0] - released

        cycles.in_threads(plan, cycle, version("assent"))


async def by_async_sdk(plan: cycles.Plan) -> None:
    agent_token, reviewer_token = plan.tokens
    async with AsyncAssent(plan.url, agent_token) as agent, AsyncAssent(plan.url, reviewer_token) as reviewer:

        async def cycle(pause: float) -> float:
            started = time.perf_counter()
            asked = await agent.create("Deploy?", agent_id="agent-1")
            asking = time.perf_counter() - started

            async def resumed() -> float:
                assert (await agent.wait(asked.id)).result is not None
                return time.perf_counter()

            waiting = asyncio.create_task(resumed())
            await asyncio.sleep(pause)
            released = time.perf_counter()
            await reviewer.approve(asked.id)
            return asking + await waiting - released

        await cycles.in_tasks(plan, cycle, version("assent"))


class Line:
    """A keep-alive connection that sends one request at a time."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._netloc = parts.hostname, parts.port, parts.netloc
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(encoded(self._netloc, self._token, method, path, body))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 20"), head
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer: dict[str, Any] = json.loads(await reader.readexactly(length))
        return answer


async def by_http(plan: cycles.Plan) -> None:
    """Measure without the SDK, to exclude its overhead."""
    agent_token, reviewer_token = plan.tokens
    free = [(Line(plan.url, agent_token), Line(plan.url, reviewer_token)) for _ in range(plan.clients)]

    async def cycle(pause: float) -> float:
        agent, reviewer = free.pop()
        started = time.perf_counter()
        asked = await agent.ask("POST", "/api/breakpoints", ASKING)
        asking = time.perf_counter() - started
        path = f"/api/breakpoints/{asked['id']}"

        async def resumed() -> float:
            assert (await agent.ask("GET", f"{path}/status?wait=25"))["status"] == "released"
            return time.perf_counter()

        waiting = asyncio.create_task(resumed())
        await asyncio.sleep(pause)
        released = time.perf_counter()
        await reviewer.ask("POST", f"{path}/feedback", {"release": True, "approved": True})
        went_on = await waiting
        free.append((agent, reviewer))
        return asking + went_on - released

    await cycles.in_tasks(plan, cycle, version("assent"))


def main() -> None:
    plan = cycles.given()
    match sys.argv[1]:
        case "sdk":
            by_sdk(plan)
        case "async":
            uvloop.run(by_async_sdk(plan))
        case _:
            uvloop.run(by_http(plan))


if __name__ == "__main__":
    main()
