"""A server that sends scripted responses over a real socket."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeAlias

PATIENCE = 120.0
RESET = None
"""In place of a response: reset the connection."""


@dataclass(frozen=True)
class Say:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """Chunks to send before the connection is closed; an event among them pauses the stream until it is set."""

    pieces: Sequence[bytes | threading.Event]
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})


@dataclass(frozen=True)
class Hang:
    """Sends no response, and signals when the client connects and disconnects."""

    came: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    async def client_came(self) -> None:
        await _heard(self.came)

    async def client_left(self) -> None:
        await _heard(self.left)


async def _heard(event: threading.Event) -> None:
    # Use a timeout, because closing the loop waits for its threads, and no test timeout interrupts that wait.
    assert await asyncio.to_thread(event.wait, PATIENCE)


Line: TypeAlias = Say | Stream | Hang | None


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Scripted:
    url: str
    heard: list[Heard]


class Handler(BaseHTTPRequestHandler):
    """Answers each request with the next response in the script."""

    protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]
    lines: ClassVar[list[Line]]
    heard: ClassVar[list[Heard]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.heard.append(Heard(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        if isinstance(line, Say):
            self.say(line)
            return
        self.close_connection = True
        if isinstance(line, Stream):
            self.stream(line)
        elif isinstance(line, Hang):
            self.hang(line)
        else:
            self.connection.close()

    def say(self, line: Say) -> None:
        encoded = line.body if isinstance(line.body, bytes) else json.dumps(line.body).encode()
        self.send_response(line.status)
        for name, value in {"Content-Length": str(len(encoded)), **line.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def stream(self, line: Stream) -> None:
        self.send_response(200)
        for name, value in {"Connection": "close", **line.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in line.pieces:
            if isinstance(piece, bytes):
                self.wfile.write(piece)
            else:
                piece.wait()

    def hang(self, line: Hang) -> None:
        line.came.set()
        with contextlib.suppress(OSError):
            self.connection.recv(1)
        line.left.set()

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  # names required by http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # signature of the base class
        del format, args


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    """With a short backlog, the system rejects some simultaneous connections, and their retries may come too late."""


@contextlib.contextmanager
def scripted(script: Sequence[Line]) -> Generator[Scripted, None, None]:
    """Answer requests in the order of the script; its last response is repeated."""
    heard = list[Heard]()
    handler = type("Told", (Handler,), {"lines": list(script), "heard": heard})
    with Server(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Scripted(f"http://127.0.0.1:{server.server_port}", heard)
        finally:
            server.shutdown()
            thread.join()
