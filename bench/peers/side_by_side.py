"""Compares full cycles (create → release → agent resumes) of Assent and its peers on the same database."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import httpx2

from assent.installation import migrate
from assent.kernel.settings import Settings
from bench.peers.cycles import Found, Plan
from bench.peers.environment import ROOT, Unavailable, last_line, python_of
from bench.report import Report
from tests.support.nodes import free_port, prepared, server
from tests.support.postgres import new_database

ROUNDS = 3
CLIENTS = 4
ALONE = 100
PROGRAM_SECONDS = 120
START_SECONDS = 120.0
QUICK = Plan(alone=ALONE, clients=CLIENTS, seconds=0.0)


@dataclass(frozen=True)
class Peer:
    name: str
    said: str
    """How the peer was used, for the table."""
    measure: Callable[["Place", Plan], Found]
    databases: tuple[str, ...] = ("sqlite", "postgresql")
    plan: Plan = QUICK


@dataclass(frozen=True)
class Place:
    """Where a peer stores its data for one round."""

    folder: Path
    database_url: str | None

    @property
    def database(self) -> str:
        return self.database_url or str(self.folder / "peer.db")


def peers(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    dialect = "postgresql" if settings.database_url else "sqlite"
    rounds: dict[str, list[Found]] = {}
    trouble: dict[str, str] = {}
    here = [peer for peer in PEERS if dialect in peer.databases]
    for _ in range(ROUNDS):
        for peer in (each for each in here if each.name not in trouble):
            plan = replace(peer.plan, seconds=max(options.seconds, peer.plan.seconds))
            try:
                with _place(settings) as place:
                    rounds.setdefault(peer.name, []).append(peer.measure(place, plan))
            except Unavailable as error:
                trouble[peer.name] = str(error)
    _tell(report, dialect, here, rounds, trouble)


def _tell(
    report: Report, dialect: str, here: list[Peer], rounds: dict[str, list[Found]], trouble: dict[str, str]
) -> None:
    ours = rounds[US]
    for peer in here:
        if peer.name in trouble:
            report.fact("peers", dialect, peer.name, "not measured", trouble[peer.name])
            continue
        found = rounds[peer.name]
        label = f"{peer.name} {found[0].version}, {peer.said}"
        report.cycle(dialect, label, _middle(found), None if peer.name.startswith("Assent") else _middle(ours))


def _middle(found: list[Found]) -> Found:
    return replace(
        found[0],
        p50=statistics.median(each.p50 for each in found),
        p95=statistics.median(each.p95 for each in found),
        rate=statistics.median(each.rate for each in found),
        count=sum(each.count for each in found),
    )


@contextlib.contextmanager
def _place(settings: Settings) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=settings.data_dir, ignore_cleanup_errors=True) as folder:
        if settings.database_url is None:
            yield Place(Path(folder), None)
            return
        with new_database(settings.database_url) as url:
            yield Place(Path(folder), url)


def _assent(door: str) -> Callable[[Place, Plan], Found]:
    def measure(place: Place, plan: Plan) -> Found:
        settings = Settings(data_dir=place.folder, database_url=place.database_url)
        migrate(settings)
        tokens = tuple(prepared(settings, "agent", "reviewer"))
        with server(settings, creates_per_minute="0", waits_per_token="0") as process:
            return _program(
                Path(sys.executable), "assent_program", replace(plan, url=process.url, tokens=tokens), (door,)
            )

    return measure


def _in_its_process(name: str) -> Callable[[Place, Plan], Found]:
    def measure(place: Place, plan: Plan) -> Found:
        return _program(python_of(name), f"{name}_program", replace(plan, database=place.database))

    return measure


def _prefect(place: Place, plan: Plan) -> Found:
    python = python_of("prefect")
    port = free_port()
    given = {
        "PREFECT_HOME": str(place.folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_CLI_PROMPT": "false",
    }
    if place.database_url:
        given["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = place.database_url.replace(
            "postgresql:", "postgresql+asyncpg:"
        )
    command = [str(python), "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (place.folder / "prefect.log").open("wb") as log:
        started = subprocess.Popen(command, env=os.environ | given, stdout=log, stderr=log)
    try:
        if not _answers(started, f"http://127.0.0.1:{port}/api/health"):
            raise Unavailable(f"its server did not start: {last_line((place.folder / 'prefect.log').read_text())}")
        return _program(python, "prefect_program", plan, environment=given)
    finally:
        started.terminate()
        _ended(started)


def _answers(started: "subprocess.Popen[bytes]", url: str) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and started.poll() is None:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(url, trust_env=False).status_code == 200:
                return True
        time.sleep(0.2)
    return False


def _ended(started: "subprocess.Popen[bytes]") -> None:
    try:
        started.wait(20)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()


def _program(
    python: Path, name: str, plan: Plan, arguments: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> Found:
    command = [str(python), "-m", f"bench.peers.{name}", *arguments]
    try:
        done = subprocess.run(
            command, input=json.dumps(asdict(plan)) + "\n", env=os.environ | (environment or {}), cwd=ROOT,
            capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"took longer than {PROGRAM_SECONDS} seconds") from error
    if done.returncode:
        raise Unavailable(f"did not run: {last_line(done.stderr)}")
    return Found(**json.loads(last_line(done.stdout)))


US = "Assent SDK"
PEERS = (
    Peer(US, "HTTP, tokens, audit", _assent("sdk")),
    Peer("Assent async SDK", "HTTP, tokens, audit", _assent("async")),
    Peer("Assent plain HTTP", "HTTP, tokens, audit", _assent("http")),
    Peer("LangGraph", "interrupt and Command, in-process", _in_its_process("langgraph")),
    Peer("DBOS", "recv and send, in-process, polls every second", _in_its_process("dbos"), ("sqlite",),
         replace(QUICK, alone=24, at_once=4, poll=1.0)),
    Peer("DBOS", "recv and send, in-process", _in_its_process("dbos"), ("postgresql",)),
    Peer("Prefect", "pause and resume, polls every 10 s (default)", _prefect, ("sqlite",),
         replace(QUICK, alone=4, at_once=2, poll=10.0, seconds=12.0)),
    Peer("Prefect (polls every second)", "pause and resume", _prefect, ("sqlite",),
         replace(QUICK, alone=8, at_once=2, poll=1.0)),
)  # fmt: skip
"""Polling peers are released at random moments in their interval. They mostly sleep, so cycles run concurrently."""
