"""A load generator in a separate process; each of its keep-alive connections sends one request at a time."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop


@dataclass(frozen=True)
class Load:
    """The results of a load test: the number of responses and their latencies in seconds."""

    count: int
    seconds: float
    failed: int
    p50: float
    p95: float
    p99: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def http_load(
    url: str,
    token: str,
    requests: Sequence[tuple[Any, ...]],
    *,
    connections: int = 32,
    seconds: float = 4.0,
    once: bool = False,
) -> Load:
    """Send the requests from another process, either repeatedly for some seconds or once each.

    A request consists of a method, a path, a body and optionally headers. Its first `{n}` is replaced by a new number
    each time.
    """
    job = {
        "url": url,
        "token": token,
        "requests": requests,
        "connections": connections,
        "seconds": seconds,
        "once": once,
    }
    found = subprocess.run(
        [sys.executable, "-m", "bench.load"], input=json.dumps(job).encode(), capture_output=True, check=True
    )
    return Load(**json.loads(found.stdout))


def encoded(host: str, token: str, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
    return head.encode() + b"\r\n" + payload


class Client(asyncio.Protocol):
    """A connection that sends the next request after it has read the complete response to the previous one."""

    def __init__(self, requests: Iterator[bytes], times: list[float], done: "asyncio.Future[None]") -> None:
        self._requests = requests
        self._times = times
        self._done = done
        self._buffer = b""
        self._sent = 0.0
        self.failed = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        assert self._transport is not None
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        at = self._buffer.lower().find(b"content-length:", 0, end)
        length = int(self._buffer[at + 15 : self._buffer.find(b"\r\n", at)])
        if len(self._buffer) < end + 4 + length:
            return
        self._times.append(time.perf_counter() - self._sent)
        if not self._buffer.startswith(b"HTTP/1.1 20"):
            self.failed += 1
        self._buffer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self._done.done():
            self.failed += 1
            self._done.set_result(None)


def _numbered(requests: Iterator[bytes]) -> Iterator[bytes]:
    for number, request in enumerate(requests):
        yield request.replace(b"{n}", b"%d" % number, 1)


def _until(requests: Iterator[bytes], deadline: float) -> Iterator[bytes]:
    for request in requests:
        if time.perf_counter() > deadline:
            return
        yield request


async def generate(job: dict[str, Any]) -> Load:
    parts = urlsplit(job["url"])
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    ready = [encoded(parts.netloc, job["token"], *request) for request in job["requests"]]
    loop = asyncio.get_running_loop()
    times: list[float] = []
    started = time.perf_counter()
    shared: Iterator[bytes] = iter(ready) if job["once"] else cycle(ready)
    if any(b"{n}" in request for request in ready):
        shared = _numbered(shared)
    clients: list[Client] = []
    waiting: list[asyncio.Future[None]] = []
    for _ in range(job["connections"]):
        done: asyncio.Future[None] = loop.create_future()
        mine = shared if job["once"] else _until(shared, started + job["seconds"])
        _, client = await loop.create_connection(partial(Client, mine, times, done), host, port)
        clients.append(client)
        waiting.append(done)
    await asyncio.gather(*waiting)
    seconds = time.perf_counter() - started
    ordered = sorted(times)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0

    failed = sum(client.failed for client in clients)
    return Load(len(times), seconds, failed, at(0.5), at(0.95), at(0.99))


def main() -> None:
    found = uvloop.run(generate(json.load(sys.stdin)))
    json.dump(found.__dict__, sys.stdout)


if __name__ == "__main__":
    main()
