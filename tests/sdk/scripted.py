"""A server that says what it is told to, over a real socket."""

import contextlib
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

RESET = None
"""Instead of an answer: the connection is cut."""


@dataclass(frozen=True)
class Say:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


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


@contextlib.contextmanager
def scripted(script: Sequence[Say | None]) -> Generator[Scripted, None, None]:
    """Answer one request after the other as the script says; the last line is repeated."""
    lines, heard = list(script), list[Heard]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            heard.append(Heard(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            say = lines.pop(0) if len(lines) > 1 else lines[0]
            if say is None:
                self.close_connection = True
                self.connection.close()
                return
            encoded = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
            self.send_response(say.status)
            for name, value in {"Content-Length": str(len(encoded)), **say.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  # the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its signature
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Scripted(f"http://127.0.0.1:{server.server_port}", heard)
        finally:
            server.shutdown()
            thread.join()
