"""A client that reads an ASGI response while it is being sent, and can disconnect at any time."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from starlette.types import Message

from assent.asgi import application
from tests.support.nodes import Node

PATIENCE = 30


@dataclass(frozen=True, slots=True)
class Told:
    """One server-sent event."""

    id: str | None
    event: str | None
    data: Any


class Stream:
    """An open request; leaving the block disconnects the client."""

    def __init__(self, node: Node, path: str, token: str | None, *, headers: Mapping[str, str] | None = None) -> None:
        bare, _, query = path.partition("?")
        sent = dict(headers or {}) | ({"authorization": f"Bearer {token}"} if token else {})
        self._app = application(node.assent)
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._asked = False
        self._left = asyncio.Event()
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._text = b""
        self._over = False
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._app(self._scope, self._receive, self._send))
        start = await self._next_message()
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self._left.set()
        async with asyncio.timeout(PATIENCE):
            await self._task

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._sent.put(message)

    async def _next_message(self) -> Message:
        async with asyncio.timeout(PATIENCE):
            return await self._sent.get()

    async def block(self) -> bytes | None:
        """Return the next block of text up to an empty line, or None at the end."""
        while b"\n\n" not in self._text:
            if self._over:
                return None
            message = await self._next_message()
            self._text += message.get("body", b"")
            self._over = not message.get("more_body", False)
        found, _, self._text = self._text.partition(b"\n\n")
        return found

    async def event(self) -> Told | None:
        """Return the next event, skipping comments, or None when the server has ended the stream."""
        while (found := await self.block()) is not None:
            lines = [line.partition(b": ") for line in found.split(b"\n") if not line.startswith(b":")]
            fields = {name.decode(): value.decode() for name, _, value in lines}
            if "data" in fields:
                return Told(fields.get("id"), fields.get("event"), json.loads(fields["data"]))
        return None

    async def rest(self) -> list[Told]:
        """Return all events until the server ends the stream."""
        found: list[Told] = []
        async with asyncio.timeout(PATIENCE):
            while (event := await self.event()) is not None:
                found.append(event)
        return found

    async def body(self) -> bytes:
        """Return the full text of a response that ends."""
        parts = [self._text]
        while not self._over:
            message = await self._next_message()
            parts.append(message.get("body", b""))
            self._over = not message.get("more_body", False)
        return b"".join(parts)


async def parked(node: Node, *, waiters: int = 1) -> None:
    """Wait until this many requests are waiting on the node."""
    async with asyncio.timeout(PATIENCE):
        while node.assent.hub.waiters != waiters:  # noqa: ASYNC110  # the hub does not signal new waiters
            await asyncio.sleep(0)
