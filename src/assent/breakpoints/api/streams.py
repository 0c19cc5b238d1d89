"""Server-sent events about changes in a project. They are only hints that tell clients to read the data again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assent.breakpoints.api import views
from assent.http.waiters import Hub, Inbox

HEARTBEAT = 15.0
Allowed: TypeAlias = Callable[[], Awaitable[bool]]


async def _always() -> bool:
    return True


class ChangeStream(Response):
    """Streams an inbox's hints until the client disconnects; rechecks `allowed` at least once per beat."""

    media_type = "text/event-stream"

    def __init__(
        self, hub: Hub, project: str, holder: str, *, allowed: Allowed = _always, beat: float = HEARTBEAT
    ) -> None:
        # Without X-Accel-Buffering, nginx would buffer the stream. Starlette sets the length of the empty body.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._project = project
        self._holder = holder
        self._allowed = allowed
        self._beat = beat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["waited"] = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        inbox = self._hub.open_inbox(self._project, self._holder)
        # Sent only once the inbox is open, so a client that reads the data after this message does not miss a change.
        await send({"type": "http.response.body", "body": b": listening\n\n", "more_body": True})
        gone = asyncio.ensure_future(_gone(receive))
        # Closing the inbox also wakes the loop below.
        gone.add_done_callback(lambda _: inbox.close())
        try:
            while not inbox.closed:
                try:
                    await asyncio.wait_for(inbox.ready.wait(), self._beat)
                except TimeoutError:
                    await send({"type": "http.response.body", "body": b": quiet\n\n", "more_body": True})
                if not await self._allowed():
                    break
                await self._send_hints(inbox, send)
        finally:
            gone.cancel()
            self._hub.close_inbox(inbox)
        await send({"type": "http.response.body", "body": b""})

    async def _send_hints(self, inbox: Inbox, send: Send) -> None:
        inbox.ready.clear()
        # Taken before sending, because more hints may arrive in the meantime.
        hints, inbox.hints = inbox.hints, {}
        for hint in hints.values():
            await send({"type": "http.response.body", "body": views.hint(hint), "more_body": True})
        if inbox.overflowed:
            inbox.overflowed = False
            await send({"type": "http.response.body", "body": b"event: resync\ndata: {}\n\n", "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
