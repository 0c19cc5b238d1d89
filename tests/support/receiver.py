"""A callback receiver: a real HTTP server that records requests, and responds or hangs as configured."""

import contextlib
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

PATIENCE = 300.0
"""Seconds after which a wait gives up; tests do not check how long it takes."""


@dataclass(frozen=True)
class Call:
    """A request as it was received."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def verify(self, secret: str) -> None:
        """Raise an error unless this was signed with the secret in the last five minutes."""
        Webhook(secret).verify(self.body, dict(self.headers))


@dataclass(frozen=True)
class Answer:
    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    drops: bool = False
    """Close the connection in the middle of the response."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # With the default of 5, a busy machine would refuse connections.
    request_queue_size = 1024


class Receiver:
    """Records every call in order of arrival; a path without configured answers responds with 204."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._stopped = False
        self._changed = threading.Condition()
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        self._held: dict[str, threading.Event] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler())

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def answer(self, path: str, *answers: Answer) -> None:
        """Respond to the next calls of a path with these answers in turn; the last one is repeated."""
        with self._changed:
            self._answers[path] = list(answers)

    def hold(self, path: str) -> None:
        """Do not respond to calls of a path until `let_go`."""
        with self._changed:
            self._held[path] = threading.Event()

    def let_go(self, path: str) -> None:
        with self._changed:
            held = self._held.pop(path, None)
        if held is not None:
            held.set()

    def wait(self, enough: Callable[[list[Call]], bool], *, seconds: float = PATIENCE) -> bool:
        """Return True as soon as the condition holds, or False after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: enough(self.calls) or self._stopped, seconds)
            return enough(self.calls)

    def to(self, path: str) -> list[Call]:
        with self._changed:
            return [call for call in self.calls if call.path == path]

    def repeats(self) -> int:
        """Return how many calls repeated an earlier message."""
        with self._changed:
            return sum(count - 1 for count in Counter(call.id for call in self.calls).values())

    def _take(self, call: Call) -> Answer:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
            held = self._held.get(call.path)
        if held is not None:
            held.wait(PATIENCE)
        with self._changed:
            script = self._answers.get(call.path)
            if not script:
                return Answer()
            return script.pop(0) if len(script) > 1 else script[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the name that http.server expects
                length = int(self.headers.get("content-length", "0"))
                body = self.rfile.read(length)
                if len(body) < length:
                    # The sender was killed while sending, so nothing has arrived.
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = take(Call(self.path, headers, body))
                # The sender may have been killed in the meantime.
                with contextlib.suppress(OSError):
                    if answer.drops:
                        self.wfile.write(b"HTTP/1.1 20")
                        self.close_connection = True
                        return
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    if answer.status != 204:
                        self.send_header("content-length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    super().handle()

            def log_message(self, *_: Any) -> None:
                """Log nothing, because calls are recorded."""

        return Handler

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="receiver", daemon=True).start()

    def stop(self) -> None:
        for path in list(self._held):
            self.let_go(path)
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()
