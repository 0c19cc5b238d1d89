"""A server that says what it is told to, over a real socket."""

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
"""Instead of an answer: the connection is cut."""


@dataclass(frozen=True)
class Say:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """Pieces sent one after the other; an event among them is waited for, and at the end the connection is closed."""

    pieces: Sequence[bytes | threading.Event]
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})


@dataclass(frozen=True)
class Hang:
    """No answer; says when the client has come and when it has left."""

    came: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    async def client_came(self) -> None:
        await _heard(self.came)

    async def client_left(self) -> None:
        await _heard(self.left)


async def _heard(event: threading.Event) -> None:
    # Not for ever: a loop that closes waits for its threads, and no timeout of a test ends that.
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
    """Says the next line of a script to each request."""

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

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  # the names http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its signature
        del format, args


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    """Where it is short, the system turns away some of those who come together, and they may be too late."""


@contextlib.contextmanager
def scripted(script: Sequence[Line]) -> Generator[Scripted, None, None]:
    """Answer one request after the other as the script says; the last line is repeated."""
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
