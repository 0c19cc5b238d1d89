"""Clients that never finish their request are disconnected, but clients waiting for a response are not."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from assent.http.connections import ConnectionWatch, WatchedProtocol
from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.support.nodes import server
from tests.support.until import until

LARGE = 64 * 1024 * 1024
PART = 1024 * 1024
HALF = b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: "
WHOLE = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n12345"

LARGE_REQUEST = WHOLE.replace(b"GET /", b"GET /large")
CLOSING_REQUEST = b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
UPGRADE = (
    b"GET /wait HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
STREAM_REQUEST = WHOLE.replace(b"GET /", b"GET /stream")


class Time:
    at = 0.0

    def __call__(self) -> float:
        return self.at


class Place:
    """A server that responds to /wait only when the test allows it."""

    def __init__(self) -> None:
        self.time = Time()
        self.go = asyncio.Event()
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                interface="asgi3",
                http=WatchedProtocol,
                lifespan="off",
                log_config=None,
                timeout_keep_alive=3600,
            )
        )
        self.watch = ConnectionWatch(
            lambda: self.server.server_state.connections,
            header_timeout=10,
            body_timeout=30,
            write_timeout=60,
            now=self.time,
        )
        self.port = 0
        self.parts_sent = 0
        self.sockets: list[socket.socket] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        message: Any = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
        if scope["path"] == "/wait":
            await self.go.wait()
        if scope["path"] == "/large":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
            await send({"type": "http.response.body", "body": b"x" * LARGE})
            return
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while not self.go.is_set():
                await send({"type": "http.response.body", "body": b"x" * PART, "more_body": True})
                self.parts_sent += 1
                await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def open(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def open_unread(self, sent: bytes) -> socket.socket:
        """Connect a client that sends a request but does not read the response automatically."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        self.sockets.append(client)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", self.port))
        await loop.sock_sendall(client, sent)
        return client

    async def connections(self, count: int, *, ready: Any = None) -> None:
        """Wait until the server has exactly this many connections, and all of them are ready."""

        async def look() -> list[Any]:
            return list(self.server.server_state.connections)

        await until(look, lambda found: len(found) == count and all(ready is None or ready(each) for each in found))

    def pass_by(self, seconds: float) -> int:
        self.time.at += seconds
        return self.watch.look()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    found = Place()
    bound = socket.create_server(("127.0.0.1", 0), backlog=1024)
    found.port = bound.getsockname()[1]
    running = asyncio.create_task(found.server.serve(sockets=[bound]))

    async def started() -> bool:
        return found.server.started

    await until(started, bool)
    yield found
    found.go.set()
    for client in found.sockets:
        client.close()
    for each in found.writers:
        each.close()
        with contextlib.suppress(OSError):
            await each.wait_closed()
    found.server.should_exit = True
    await running


async def test_300_half_sent_requests_are_closed_after_the_timeout(place: Place) -> None:
    clients = await asyncio.gather(*(place.open(HALF) for _ in range(300)))
    await place.connections(300)
    assert place.pass_by(0) == 0
    assert place.pass_by(9) == 0
    assert place.pass_by(2) == 300
    for reader, _ in clients:
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_sending_headers_slowly_does_not_extend_the_timeout(place: Place) -> None:
    reader, writer = await place.open(HALF)
    await place.connections(1)
    for _ in range(2):
        assert place.pass_by(4) == 0
        writer.write(b"x")
        await writer.drain()
    assert place.pass_by(10) == 1
    with contextlib.suppress(ConnectionResetError):  # closing the connection can discard the response
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_that_sends_nothing_is_closed(place: Place) -> None:
    reader, _ = await place.open(b"")
    await place.connections(1)
    place.pass_by(0)
    assert place.pass_by(11) == 1
    await reader.read()


async def test_a_connection_with_a_half_sent_body_is_closed_after_the_body_timeout(place: Place) -> None:
    reader, _ = await place.open(HALF_BODY)
    await place.connections(1, ready=lambda each: each.body_parts == 1)
    assert place.pass_by(0) == 0
    assert place.pass_by(29) == 0
    assert place.pass_by(2) == 1
    assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_large_body_gets_time_in_proportion_to_its_size(place: Place) -> None:
    size = 64 * 1024 * 100
    reader, writer = await place.open(f"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n".encode())
    sent = 0
    for part in range(1, 6):
        writer.write(b"x" * 1000)
        await writer.drain()
        sent += 1000
        await place.connections(1, ready=lambda each, part=part: each.body_parts >= part)
        assert place.pass_by(20) == 0
    writer.write(b"x" * (size - sent))
    assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")


async def test_sending_a_body_slowly_does_not_extend_the_timeout_indefinitely(place: Place) -> None:
    _, writer = await place.open(HALF_BODY)
    await place.connections(1, ready=lambda each: each.body_parts == 1)
    place.pass_by(0)
    writer.write(b"6")
    await place.connections(1, ready=lambda each: each.body_parts == 2)
    assert place.pass_by(20) == 0
    assert place.pass_by(11) == 1


async def test_a_request_waiting_for_its_response_is_not_closed(place: Place) -> None:
    reader, _ = await place.open(WHOLE.replace(b"GET /", b"GET /wait"))
    await place.connections(1, ready=lambda each: each.cycle is not None and not each.cycle.more_body)
    place.pass_by(0)
    assert place.pass_by(3600) == 0
    place.go.set()
    assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")


async def test_an_idle_connection_between_requests_is_not_closed_as_slow(place: Place) -> None:
    reader, writer = await place.open(WHOLE)
    await reader.readuntil(b"ok")
    await place.connections(1, ready=lambda each: each.timeout_keep_alive_task is not None)
    place.pass_by(0)
    assert place.pass_by(60) == 0
    writer.write(HALF)
    await place.connections(1, ready=lambda each: each.timeout_keep_alive_task is None)
    assert place.pass_by(0) == 0
    assert place.pass_by(11) == 1


async def test_without_timeouts_no_connection_is_closed(place: Place) -> None:
    await ConnectionWatch(list, header_timeout=0, body_timeout=0, write_timeout=0).run()
    off = ConnectionWatch(
        lambda: place.server.server_state.connections,
        header_timeout=0,
        body_timeout=0,
        write_timeout=0,
        now=place.time,
    )
    await place.open(HALF)
    await place.open_unread(LARGE_REQUEST)
    await place.connections(2)
    place.time.at += 10_000
    assert off.look() == off.look() == 0


def _buffered(connection: Any) -> bool:
    return bool(connection.transport.get_write_buffer_size())


@pytest.mark.parametrize("sent", [LARGE_REQUEST, LARGE_REQUEST * 3, CLOSING_REQUEST, STREAM_REQUEST])
async def test_a_client_that_does_not_read_its_response_is_disconnected(place: Place, sent: bytes) -> None:
    await place.open_unread(sent)
    await place.connections(1, ready=_buffered)
    assert place.pass_by(0) == 0
    assert place.pass_by(59) == 0
    assert place.pass_by(2) == 1
    await place.connections(0)


async def test_a_client_that_stops_reading_is_disconnected_after_its_idle_timeout(place: Place) -> None:
    """uvicorn closes an idle connection gracefully: it waits for the buffer to drain, which never happens."""
    await place.open_unread(LARGE_REQUEST)
    await place.connections(1, ready=_buffered)
    (connection,) = place.server.server_state.connections
    assert isinstance(connection, WatchedProtocol)
    connection.timeout_keep_alive_handler()
    assert place.pass_by(0) == 0
    assert place.pass_by(61) == 1
    await place.connections(0)


async def test_a_client_that_reads_slowly_gets_the_whole_response(place: Place) -> None:
    client = await place.open_unread(LARGE_REQUEST)
    await place.connections(1, ready=_buffered)
    loop, read, (connection,) = asyncio.get_running_loop(), 0, place.server.server_state.connections
    transport = connection.transport
    while buffered := transport.get_write_buffer_size():
        assert place.pass_by(59) == 0
        while buffered and transport.get_write_buffer_size() >= buffered:
            read += len(await loop.sock_recv(client, PART))
    assert place.pass_by(59) == 0
    while read < LARGE:
        read += len(await loop.sock_recv(client, PART))


async def test_a_stream_that_is_read_slowly_is_not_closed(place: Place) -> None:
    client = await place.open_unread(STREAM_REQUEST)
    loop = asyncio.get_running_loop()
    await place.connections(1, ready=_buffered)
    for _ in range(5):
        assert place.pass_by(59) == 0
        sent = place.parts_sent
        while place.parts_sent < sent + 2:
            await loop.sock_recv(client, PART)
        await place.connections(1, ready=_buffered)


async def test_a_websocket_handshake_does_not_break_the_connection_watch(place: Place) -> None:
    """uvicorn hands such a connection to another protocol, which has no request cycle."""
    await place.open(UPGRADE)
    await place.connections(1, ready=lambda each: not isinstance(each, WatchedProtocol))
    assert place.pass_by(3600) == 0


def test_assent_serve_closes_a_connection_whose_headers_never_end(sqlite_settings: Settings) -> None:
    migrate(sqlite_settings)
    with (
        server(sqlite_settings, ASSENT_HEADER_TIMEOUT_SECONDS="1") as process,
        socket.create_connection(("127.0.0.1", int(process.url.rpartition(":")[2])), timeout=60) as half_sent,
    ):
        half_sent.sendall(HALF)
        assert half_sent.recv(1024).startswith(b"HTTP/1.1 408 ")
