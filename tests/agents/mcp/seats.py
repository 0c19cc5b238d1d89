"""Fixtures for the MCP tests: a live server, a person who answers, and real MCP clients with a scripted user."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, Implementation, TextContent

from assent.agents.mcp.callers import configured
from assent.agents.mcp.server import built
from assent.contracts.breakpoints import Breakpoint
from assent.sdk.aio import AsyncAssent
from tests.cli.commands import COMMAND, environment
from tests.support.until import until

ERAS = ("legacy", "2026-07-28")


@dataclass
class Person:
    """The user of the agent's client, who fills in the forms that it shows."""

    answers: Callable[[], ElicitResult]
    shown: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])
    sees: asyncio.Event = field(default_factory=asyncio.Event)
    taken_away: bool = False
    thinks: asyncio.Event | None = None
    """An event to wait for before answering."""

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context
        self.shown.append(params)
        self.sees.set()
        if self.thinks is not None:
            try:
                await self.thinks.wait()
            except asyncio.CancelledError:
                self.taken_away = True
                raise
        return self.answers()


def saying(action: str, **content: Any) -> Person:
    result = ElicitResult.model_validate({"action": action, "content": content or None})
    return Person(lambda: result)


@dataclass(frozen=True)
class Said:
    """The result of a tool call."""

    text: str
    failed: bool

    @property
    def json(self) -> dict[str, Any]:
        assert not self.failed, self.text
        found: dict[str, Any] = json.loads(self.text)
        return found


@dataclass(frozen=True)
class Seat:
    """A connected client."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> Said:
        answer = await self.client.call_tool(tool, arguments)
        (block,) = answer.content
        assert isinstance(block, TextContent)
        assert answer.structured_content is None
        return Said(block.text, answer.is_error)


@dataclass(frozen=True)
class Place:
    """A live server with tokens for two agents, two tokens for the owner, and one for the reviewer olga."""

    url: str
    agent: str
    other_agent: str
    person: str
    person_again: str
    olga: str

    def env(self, **changes: str) -> dict[str, str]:
        return environment(ASSENT_URL=self.url, ASSENT_TOKEN=self.agent, **changes)

    @contextlib.asynccontextmanager
    async def seat(self, *, era: str = "2026-07-28", who: Person | None = None, **env: str) -> AsyncIterator[Seat]:
        """Connect a client to a server in this process, using the full protocol but no pipes."""
        server = built(configured(self.env(ASSENT_AGENT_ID="robot") | env, agent_id="robot"))
        async with Client(server, mode=era, elicitation_callback=who) as client:
            yield Seat(client)

    @contextlib.asynccontextmanager
    async def piped(self, *, era: str, who: Person | None = None, **env: str) -> AsyncIterator[Seat]:
        """Start `assent mcp` as a separate process and connect a client over standard input."""
        command = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "mcp"], env=self.env(**env))
        about = Implementation(name="robot-7", version="1")
        async with Client(command, mode=era, elicitation_callback=who, client_info=about) as client:
            yield Seat(client)

    def reviewer(self) -> AsyncAssent:
        return AsyncAssent(self.url, self.person)

    async def waiting(self) -> Breakpoint:
        """Wait until a breakpoint is pending, and return it."""
        async with self.reviewer() as person:
            found = await until(lambda: person.list(status="waiting"), lambda page: bool(page.items))
            return await person.get(found.items[0].id)

    async def answer(self, asked: Breakpoint, **answer: Any) -> None:
        async with self.reviewer() as person:
            await person.feedback(asked.id, {"digest": asked.digest, **answer})

    async def found(self, breakpoint_id: str) -> Breakpoint:
        async with self.reviewer() as person:
            return await person.get(breakpoint_id)


@contextlib.contextmanager
def listening(env: dict[str, str], *options: str) -> Iterator[str]:
    """Start `assent mcp --transport http` as a separate process and return its URL."""
    command = [*COMMAND, "mcp", "--transport", "http", "--port", "0", "--json", *options]
    started = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert started.stdout is not None
    try:
        yield json.loads(started.stdout.readline())["url"]
    finally:
        started.terminate()
        started.stdout.close()
        assert started.wait(60) in {0, -15, 143}


@contextlib.asynccontextmanager
async def calling(
    url: str, token: str, *, era: str = "2026-07-28", who: Person | None = None, **headers: str
) -> AsyncIterator[Seat]:
    """Connect a client over HTTP with the given token."""
    sent = {"Authorization": f"Bearer {token}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(headers=sent, timeout=120) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era, elicitation_callback=who) as client:
            yield Seat(client)


__all__ = ["ERAS", "Person", "Place", "Said", "Seat", "calling", "listening", "saying"]
