"""Nodes for tests: in this process over ASGI, or as separate server processes."""

import asyncio
import contextlib
import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2
from argon2 import PasswordHasher

from assent.asgi import application
from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.installation import migrate
from assent.kernel.ids import TimeOrderedIds
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.people.usecases.people import NewToken, PeopleService
from tests.support.zygote import shared

PATIENCE = 300.0
"""Seconds to wait for a server to start; tests do not check how long it takes."""
CHEAP_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""A real hash takes 0.2 s of CPU time; `tests/docs/test_security.py` checks that cost."""
_numbers = itertools.count(1)
_ports = itertools.count(1)
PORTS, PORTS_PER_PROCESS = range(10_000, 32_000), 500


@dataclass
class ManualClock:
    """A clock that moves only when the test advances it."""

    at: int = 1_800_000_000_000_000

    def now(self) -> int:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * 1_000_000)


@dataclass
class Node:
    """A node in this process, with a client and tokens."""

    assent: ServerNode
    client: httpx2.AsyncClient
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def token(self, kind: str, **options: Any) -> str:
        """Create a token of this kind; without options, return the same one each time."""
        plain = not options
        if plain and kind in self.tokens:
            return self.tokens[kind]
        project = options.pop("project", "default")
        new = NewToken(kind=kind, name=options.pop("name", f"{kind}-{next(_numbers)}"), **options)

        def use_case(tx: Transaction) -> str:
            return self.assent[PeopleService].create_token(tx, new, project=project, by="system:test")[1]

        secret = await self.assent.database.write(use_case)
        if plain:
            self.tokens[kind] = secret
        return secret

    async def person(self, name: str, *roles: str, project: str = "default") -> str:
        """Create a person with these roles, and return a token with all of them."""

        def use_case(tx: Transaction) -> str:
            self.assent[PeopleService].create_person(tx, name, project=project, roles=frozenset(map(Role, roles)))
            new = NewToken(kind="admin", name=name, person=name, roles=frozenset(map(Role, roles)))
            return self.assent[PeopleService].create_token(tx, new, project=project, by="system:test")[1]

        return await self.assent.database.write(use_case)

    async def call(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        return await self.client.request(method, path, headers=headers, **options)

    async def create(self, token: str | None = None, /, **body: Any) -> dict[str, Any]:
        """Create a breakpoint and return it."""
        sent = {"agentId": "agent-1", "title": "Deploy to production", "payload": {"question": "Deploy?"}} | body
        answer = await self.call("POST", "/api/breakpoints", token or await self.token("agent"), json=sent)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def feedback(self, breakpoint_id: str, token: str, **body: Any) -> httpx2.Response:
        return await self.call("POST", f"/api/breakpoints/{breakpoint_id}/feedback", token, json=body)


@contextlib.asynccontextmanager
async def running_node(settings: Settings, **parts: Any) -> AsyncIterator[Node]:
    """Start a node in this process, on migrated data."""
    assent = ServerNode(settings, **{"hasher": CHEAP_HASHER} | parts)
    await assent.start()
    try:
        await assent.database.write(assent[PeopleService].bootstrap)
        # Wait for the startup tasks, so that none of them runs in the middle of a test.
        await assent.timekeeper.has_looked.wait()
        transport = httpx2.ASGITransport(app=application(assent), client=("127.0.0.1", 1234))
        async with httpx2.AsyncClient(transport=transport, base_url="http://assent.test", timeout=60) as client:
            yield Node(assent, client)
    finally:
        await assent.stop()


def free_port() -> int:
    """Return an unused port from a range reserved for this process.

    The range is below the ports that the system assigns to outgoing connections. Otherwise, a client that keeps
    retrying while its server restarts could be assigned that very port, connect to itself and block the server.
    """
    for number in itertools.count(next(_ports)):
        port = PORTS.start + (os.getpid() * PORTS_PER_PROCESS + number % PORTS_PER_PROCESS) % len(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError


class Life(Protocol):
    """The part of subprocess.Popen that tests use."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class Starter(Protocol):
    """Starts `assent` with these arguments and this environment."""

    def __call__(self, arguments: list[str], environment: dict[str, str], log: Path | None) -> Life: ...


@dataclass
class Process:
    """A server process."""

    url: str
    popen: Life

    def stop(self, *, timeout: float = PATIENCE) -> int:
        """Send SIGTERM, as an operator would, and return the exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(PATIENCE)


def ready(url: str, popen: Life, *, path: str = "/readyz") -> bool:
    """Wait until a starting server responds with 200; return False if it exits or takes too long."""
    deadline = time.monotonic() + PATIENCE
    host = url.removeprefix("http://")
    while time.monotonic() < deadline and popen.poll() is None:
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            contextlib.closing(http.client.HTTPConnection(host, timeout=5)) as connection,
        ):
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return True
        time.sleep(0.02)
    return False


def interpreter(arguments: list[str], environment: dict[str, str], log: Path | None) -> Life:
    """Start `assent` in its own interpreter, as in production."""
    with log.open("ab") if log else contextlib.nullcontext(subprocess.DEVNULL) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "assent", *arguments], env=environment, stdout=output, stderr=output
        )


def launch(
    settings: Settings, *, port: int | None = None, log: Path | None = None, by: Starter = interpreter, **env: str
) -> Process:
    """Start `assent serve` as a separate process, without waiting."""
    chosen = port or free_port()
    started = by(["serve", "--port", str(chosen)], environment_of(settings, **env), log)
    return Process(f"http://127.0.0.1:{chosen}", started)


def launch_worker(settings: Settings, *, log: Path | None = None, by: Starter = interpreter, **env: str) -> Process:
    """Start a worker without HTTP."""
    return Process("", by(["worker"], environment_of(settings, **env), log))


def environment_of(settings: Settings, **env: str) -> dict[str, str]:
    # An upper-case name is passed unchanged, because it is not one of Assent's settings.
    given = {name if name.isupper() else f"ASSENT_{name.upper()}": value for name, value in env.items()}
    environment = os.environ | given | {"ASSENT_DATA_DIR": str(settings.data_dir)}
    if settings.database_url:
        environment["ASSENT_DATABASE_URL"] = settings.database_url
    if settings.secret_keys:
        environment["ASSENT_SECRET_KEYS"] = ",".join(settings.secret_keys)
    return environment


def start_server(
    settings: Settings,
    *,
    port: int | None = None,
    log: Path | None = None,
    by: Starter | None = None,
    until: str = "/readyz",
    **env: str,
) -> Process:
    """Start `assent serve` as a separate process, and wait until it is ready or responds to the given path."""
    # Tests fork servers, which is faster; programs outside pytest, such as benchmarks, start them as in production.
    quickly = shared().start if "PYTEST_VERSION" in os.environ else interpreter
    process = launch(settings, port=port, log=log, by=by or quickly, **env)
    if ready(process.url, process.popen, path=until):
        return process
    process.kill()
    code, said = process.popen.poll(), log.read_text() if log else "no log kept"
    msg = f"The server did not get ready (exit code {code}): {said}"
    raise RuntimeError(msg)


@contextlib.contextmanager
def server(settings: Settings, **options: Any) -> Iterator[Process]:
    process = start_server(settings, **options)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.stop()


def prepared(settings: Settings, *kinds: str) -> list[str]:
    """Migrate, create the owner and a token of each kind, and return the secrets."""
    migrate(settings)

    async def make() -> list[str]:
        async with running_node(settings) as node:
            return [await node.token(kind) for kind in kinds]

    return asyncio.run(make())


__all__ = ["ManualClock", "Node", "Process", "TimeOrderedIds", "prepared", "running_node", "server", "start_server"]
