"""Socket Mode: a WebSocket connection to Slack, so that Slack does not have to reach this server.

Every envelope is acknowledged within three seconds and handled once. A connection that Slack is about to close, or
that has been idle for a long time, is replaced before it is closed; one that does not respond to pings is aborted.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from assent.delivery.channels.slack.api import APP, SlackApi, as_object
from assent.delivery.channels.slack.modal import notice
from assent.kernel.outbound import Permanent, Transient, Undelivered

Handle: TypeAlias = Callable[[bytes], Awaitable[Mapping[str, Any] | None]]

_LARGEST = 1024 * 1024
_REMEMBERED = 1000
_PORTS = {"wss": 443, "ws": 80}
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Intervals and timeouts in seconds."""

    ping: float = 20
    deaf: float = 60
    """How long to wait for the hello message or a pong before the connection counts as lost."""
    check: float = 60
    """How often to check the token: the connection of a removed app stays open but receives nothing."""
    stale: float = 30 * 60
    """Replace a connection that has received nothing for this long: some stay open but stop delivering messages."""
    ack: float = 2.5
    overlap: float = 10
    """How long to keep reading the old connection after a new one is open."""
    first: float = 1
    most: float = 60
    steady: float = 60
    """A connection that has lasted this long resets the backoff."""


class _Link:
    """A connection and its state."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.to_be_replaced = asyncio.Event()
        self.replaced = asyncio.Event()
        self.since = self.brought = time.monotonic()


class Socket:
    def __init__(
        self,
        api: SlackApi,
        random: Callable[[int], bytes],
        *,
        pace: Pace | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._api = api
        self._random = random
        self._pace = pace or Pace()
        self._given_tls = tls
        # Shared by all connections, because Slack can send an envelope again on the next one.
        self._handled: dict[str, asyncio.Task[Mapping[str, Any] | None]] = {}
        self._heard_at: int | None = None

    def heard_at(self) -> int | None:
        return self._heard_at

    async def listen(self, handle: Handle) -> None:
        """Run until cancelled."""
        failures, previous = 0, None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_token())
            while True:
                link = await self._try_open()
                if link is not None:
                    if previous is not None:
                        # The old connection is read for a little longer, so that no envelope is lost.
                        previous.replaced.set()
                    previous = link
                    tasks.create_task(self._serve(link, handle, tasks))
                    await link.to_be_replaced.wait()
                    failures = failures if time.monotonic() - link.since < self._pace.steady else 0
                if failures or link is None:
                    await asyncio.sleep(self._pause(failures))
                failures += 1

    def _pause(self, failures: int) -> float:
        """Return an exponential backoff with jitter, because all nodes can lose their connections at once."""
        longest = min(self._pace.most, self._pace.first * 2.0 ** min(failures, 16))
        return longest * (0.5 + int.from_bytes(self._random(4), "big") / 2**33)

    async def _try_open(self) -> _Link | None:
        try:
            return await self._open()
        except (Undelivered, OSError, WebSocketException, ValueError) as error:
            _log.warning("slack_not_connected", error=str(error) or type(error).__name__)
            if isinstance(error, Transient) and error.retry_after:
                await asyncio.sleep(min(error.retry_after, self._pace.most))
            return None

    async def _open(self) -> _Link:
        opened = await self._api.call("apps.connections.open", using=APP)
        url = str(opened.get("url"))
        place = urlsplit(url)
        if place.scheme not in _PORTS or not place.hostname:
            raise Transient("Slack did not return a URL to connect to.")
        if place.scheme == "ws" and self._api.url.startswith("https:"):
            raise Permanent("Slack returned an unencrypted URL. Assent connects only over TLS.")
        link = await self._api.outbound.dial(place.hostname, place.port or _PORTS[place.scheme])
        secure = place.scheme == "wss"
        try:
            # The socket is already connected to a checked address, and `_watch` sends the pings.
            websocket = await connect(
                url, sock=link, ssl=self._tls if secure else None, server_hostname=place.hostname if secure else None,
                proxy=None, compression=None, user_agent_header="Assent", max_size=_LARGEST,
                open_timeout=self._pace.deaf, ping_interval=None, close_timeout=1,
            )  # fmt: skip
        except BaseException:  # also when cancelled
            link.close()
            raise
        await self._greeted(websocket)
        return _Link(websocket)

    async def _greeted(self, websocket: ClientConnection) -> None:
        """Wait for Slack's hello message: Slack delivers nothing before it."""
        try:
            async with asyncio.timeout(self._pace.deaf):
                first = _read(await websocket.recv())
        except BaseException:
            websocket.transport.abort()
            raise
        if first.get("type") != "hello":
            websocket.transport.abort()
            raise Transient("Slack did not send a hello message.")
        self._signed_on()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    async def _serve(self, link: _Link, handle: Handle, tasks: asyncio.TaskGroup) -> None:
        watchdog = tasks.create_task(self._watch(link))
        try:
            async for text in link.websocket:
                self._signed_on()
                self._take(link, text, handle, tasks)
        except ConnectionClosed:
            pass
        finally:
            link.to_be_replaced.set()
            watchdog.cancel()
            link.websocket.transport.abort()

    def _take(self, link: _Link, text: str | bytes, handle: Handle, tasks: asyncio.TaskGroup) -> None:
        message = _read(text)
        envelope = message.get("envelope_id")
        if message.get("type") == "disconnect":
            _log.info("slack_ends_the_connection", reason=str(message.get("reason"))[:60])
            link.to_be_replaced.set()
        elif isinstance(envelope, str):
            link.brought = time.monotonic()
            work = self._work(envelope, message, handle, tasks)
            tasks.create_task(self._acknowledge(link, envelope, message, work))

    def _work(
        self, envelope: str, message: Mapping[str, Any], handle: Handle, tasks: asyncio.TaskGroup
    ) -> asyncio.Task[Mapping[str, Any] | None]:
        """Return the task that handles an envelope; a repeated envelope gets the same task."""
        known = self._handled.get(envelope)
        if known is not None and not known.cancelled():
            return known
        while len(self._handled) >= _REMEMBERED:
            self._handled.pop(next(iter(self._handled)))
        work = tasks.create_task(self._handle(envelope, message, handle))
        self._handled[envelope] = work
        return work

    async def _handle(self, envelope: str, message: Mapping[str, Any], handle: Handle) -> Mapping[str, Any] | None:
        if message.get("type") != "interactive":
            return {}
        try:
            body = json.dumps(message.get("payload"), ensure_ascii=False, separators=(",", ":")).encode()
            return await handle(body) or {}
        except Exception as error:  # noqa: BLE001  # the last handler: one bad envelope must not end the connection
            _log.exception("slack_envelope_failed", error=type(error).__name__)
            self._handled.pop(envelope, None)  # handle it if Slack sends it again
            return None

    async def _acknowledge(
        self, link: _Link, envelope: str, message: Mapping[str, Any], work: asyncio.Task[Mapping[str, Any] | None]
    ) -> None:
        # On a timeout, the work is not cancelled and continues after the acknowledgement.
        done, _ = await asyncio.wait({work}, timeout=self._pace.ack)
        answer = work.result() if done else _late(message)
        if answer is None:
            return  # Slack resends envelopes that are not acknowledged
        ack: dict[str, Any] = {"envelope_id": envelope}
        if answer and message.get("accepts_response_payload"):
            ack["payload"] = answer
        with contextlib.suppress(ConnectionClosed):
            await link.websocket.send(json.dumps(ack))

    async def _watch(self, link: _Link) -> None:
        """Abort a connection that does not respond to pings, and request a replacement if it is idle for too long."""
        pace = self._pace
        try:
            while not await _happens(link.replaced, pace.ping):
                await self._ping(link)
                if time.monotonic() - link.brought > pace.stale:
                    link.to_be_replaced.set()
            await asyncio.sleep(pace.overlap)
        except TimeoutError:
            _log.warning("slack_is_silent")
        except ConnectionClosed:
            return
        link.websocket.transport.abort()

    async def _ping(self, link: _Link) -> None:
        answered = await link.websocket.ping()
        async with asyncio.timeout(self._pace.deaf):
            await answered
        self._signed_on()

    async def _check_token(self) -> None:
        while True:
            await asyncio.sleep(self._pace.check)
            try:
                await self._api.test()
            except Undelivered as error:
                _log.warning("slack_token_check_failed", error=error.message)

    def _signed_on(self) -> None:
        self._heard_at = time.monotonic_ns() // 1000


def _late(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response to an envelope that is still being handled: a form must not look accepted yet."""
    if as_object(message.get("payload")).get("type") != "view_submission":
        return {}
    text = (
        "Your answer is taking longer than usual to process. Once it is recorded, the Slack message will be updated."
        " If the message does not change, answer again."
    )
    return {"response_action": "update", "view": notice(text, "")}


def _read(text: str | bytes) -> dict[str, Any]:
    try:
        return as_object(json.loads(text))
    except ValueError:
        return {}


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
