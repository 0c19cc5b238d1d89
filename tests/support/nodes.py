"""Nodes to test against: in this process over ASGI, or as real processes over a socket."""

import asyncio
import contextlib
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
from typing import Any

import httpx2

from assent.app import Assent, TimeOrderedIds, migrate
from assent.domain.access import Role
from assent.services.people import NewToken
from assent.settings import Settings
from assent.store.transaction import Transaction

_numbers = itertools.count(1)


@dataclass
class ManualClock:
    """Time that moves only when told to."""

    at: int = 1_800_000_000_000_000

    def now(self) -> int:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * 1_000_000)


@dataclass
class Node:
    """A node in this process, with a client and tokens at hand."""

    assent: Assent
    client: httpx2.AsyncClient
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    async def token(self, kind: str, **options: Any) -> str:
        """Make a token of a kind; without options, the same one each time."""
        plain = not options
        if plain and kind in self.tokens:
            return self.tokens[kind]
        project = options.pop("project", "default")
        new = NewToken(kind=kind, name=options.pop("name", f"{kind}-{next(_numbers)}"), **options)

        def use_case(tx: Transaction) -> str:
            return self.assent.people.create_token(tx, new, project=project, by="system:test")[1]

        secret = await self.assent.database.write(use_case)
        if plain:
            self.tokens[kind] = secret
        return secret

    async def person(self, name: str, *roles: str, project: str = "default") -> str:
        """Add somebody with these roles and return a token that carries them all."""

        def use_case(tx: Transaction) -> str:
            self.assent.people.create_person(tx, name, project=project, roles=frozenset(map(Role, roles)))
            new = NewToken(kind="admin", name=name, person=name, roles=frozenset(map(Role, roles)))
            return self.assent.people.create_token(tx, new, project=project, by="system:test")[1]

        return await self.assent.database.write(use_case)

    async def call(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        return await self.client.request(method, path, headers=headers, **options)

    async def create(self, token: str | None = None, /, **body: Any) -> dict[str, Any]:
        """Raise a breakpoint and return it."""
        sent = {"agentId": "agent-1", "title": "Deploy to production", "payload": {"question": "Deploy?"}} | body
        answer = await self.call("POST", "/api/breakpoints", token or await self.token("agent"), json=sent)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def feedback(self, breakpoint_id: str, token: str, **body: Any) -> httpx2.Response:
        return await self.call("POST", f"/api/breakpoints/{breakpoint_id}/feedback", token, json=body)


@contextlib.asynccontextmanager
async def running_node(settings: Settings, **parts: Any) -> AsyncIterator[Node]:
    """Start a node in this process, on data that is already migrated."""
    assent = Assent(settings, **parts)
    await assent.start()
    try:
        await assent.database.write(assent.people.bootstrap)
        transport = httpx2.ASGITransport(app=assent.application(), client=("127.0.0.1", 1234))
        async with httpx2.AsyncClient(transport=transport, base_url="http://assent.test", timeout=60) as client:
            yield Node(assent, client)
    finally:
        await assent.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Process:
    """A server process."""

    url: str
    popen: subprocess.Popen[bytes]

    def stop(self, *, timeout: float = 30) -> int:
        """SIGTERM, as an operator would."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(10)


def ready(url: str, popen: "subprocess.Popen[Any]") -> bool:
    """Wait until a starting server takes requests; False when it ended or took too long."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and popen.poll() is None:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/readyz", timeout=5).status_code == 200:
                return True
        time.sleep(0.05)
    return False


def launch(settings: Settings, *, port: int | None = None, log: Path | None = None, **env: str) -> Process:
    """Start `assent serve` as a process of its own, and wait for nothing."""
    chosen = port or free_port()
    command = [sys.executable, "-m", "assent", "serve", "--port", str(chosen)]
    return Process(f"http://127.0.0.1:{chosen}", _spawn(command, settings, log, env))


def launch_worker(settings: Settings, *, log: Path | None = None, **env: str) -> Process:
    """Start a worker without HTTP."""
    script = "from assent.app import work; from assent.settings import Settings; work(Settings())"
    return Process("", _spawn([sys.executable, "-c", script], settings, log, env))


def _spawn(command: list[str], settings: Settings, log: Path | None, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    # A name in capitals is not one of ours.
    given = {name if name.isupper() else f"ASSENT_{name.upper()}": value for name, value in env.items()}
    environment = os.environ | given | {"ASSENT_DATA_DIR": str(settings.data_dir)}
    if settings.database_url:
        environment["ASSENT_DATABASE_URL"] = settings.database_url
    if settings.secret_keys:
        environment["ASSENT_SECRET_KEYS"] = ",".join(settings.secret_keys)
    with log.open("ab") if log else contextlib.nullcontext(subprocess.DEVNULL) as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def start_server(settings: Settings, *, port: int | None = None, log: Path | None = None, **env: str) -> Process:
    """Start `assent serve` as a process of its own and wait until it is ready."""
    process = launch(settings, port=port, log=log, **env)
    if ready(process.url, process.popen):
        return process
    process.kill()
    code, said = process.popen.returncode, log.read_text() if log else "no log kept"
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
    """Migrate, make the owner and a token of each kind; return the secrets."""
    migrate(settings)

    async def make() -> list[str]:
        async with running_node(settings) as node:
            return [await node.token(kind) for kind in kinds]

    return asyncio.run(make())


__all__ = ["ManualClock", "Node", "Process", "TimeOrderedIds", "prepared", "running_node", "server", "start_server"]
