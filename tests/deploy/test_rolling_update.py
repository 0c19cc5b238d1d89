"""A rolling update: waiting clients do not notice it, and old nodes work with the new schema."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import httpx2
import pytest

import assent
from assent.db import migrations
from assent.installation import schema
from assent.kernel.settings import Settings
from tests.faults.waiting import PATIENCE, Agents, parked, ready
from tests.support.nodes import Process, environment_of, launch, start_server
from tests.support.nodes import ready as takes_requests

WAITERS = 100
NEXT = "9999"
# While older nodes are running, a migration may add to the schema but not remove anything.
EXPAND = f'''"""What the next version brings"""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{migrations.newest()}"


def upgrade() -> None:
    op.add_column("assent_breakpoints", sa.Column("colour", sa.Text(), nullable=True))
    op.add_column("assent_events", sa.Column("weight", sa.BigInteger(), nullable=False, server_default="1"))
    op.create_table("assent_colours", sa.Column("name", sa.Text(), primary_key=True))
    op.create_index("ix_assent_breakpoints_colour", "assent_breakpoints", ["colour"])
'''


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The next version: the same code with one more migration."""
    folder = tmp_path / "newer"
    source = Path(assent.__file__).parent
    shutil.copytree(source, folder / "assent", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "assent" / "db" / "migrations" / "versions" / f"{NEXT}_next.py").write_text(EXPAND)
    return folder


def command(settings: Settings, newer: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = environment_of(settings) | ({"PYTHONPATH": str(newer)} if newer else {})
    return subprocess.run(
        [sys.executable, "-m", "assent", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def updated(node: Process, settings: Settings, newer: Path) -> Process:
    """Stop a node with SIGTERM, and start the next version on the same port."""
    node.stop()
    started = launch(settings, port=int(node.url.rpartition(":")[2]), PYTHONPATH=str(newer))
    assert takes_requests(started.url, started.popen)
    return started


async def still_works(agents: Agents, client: httpx2.AsyncClient, url: str, number: int) -> None:
    """Check that a node is ready and accepts a question and its answer."""
    one = Agents([url], agents.agent, agents.reviewer)
    assert (await client.get(f"{url}/readyz")).status_code == 200
    await one.approve(client, await one.create(client, number))
    assert one.wrong == []


@pytest.mark.timeout(400)
async def test_no_wait_fails_during_a_rolling_update(
    postgres_settings: Settings, newer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = await ready(postgres_settings)
    nodes = [await asyncio.to_thread(start_server, postgres_settings) for _ in range(2)]
    agents.urls = [node.url for node in nodes]
    try:
        async with agents.client() as client:
            ids = [await agents.create(client, n) for n in range(WAITERS)]
            waits = [asyncio.create_task(agents.wait(client, each, n)) for n, each in enumerate(ids)]
            await parked(agents.urls, WAITERS)
            migrated = await asyncio.to_thread(command, postgres_settings, newer, "migrate", "--json")
            assert json.loads(migrated.stdout) == {"before": migrations.newest(), "after": NEXT}, migrated.stderr
            # The old nodes keep working with the new schema.
            for n, url in enumerate(agents.urls):
                await still_works(agents, client, url, 1000 + n)
            for n in range(len(nodes)):
                nodes[n] = await asyncio.to_thread(updated, nodes[n], postgres_settings, newer)
                await still_works(agents, client, nodes[n].url, 2000 + n)
            for each in ids:
                await agents.approve(client, each)
            with anyio.fail_after(PATIENCE):
                decisions = await asyncio.gather(*waits)
    finally:
        for node in nodes:
            if node.popen.poll() is None:
                await asyncio.to_thread(node.stop)
    with capsys.disabled():
        met = ", ".join(f"{what}: {count}" for what, count in sorted(agents.seen.items()))
        sys.stdout.write(f"\nrolling update: {WAITERS} waiters, {len(agents.wrong)} failed waits; met {met}\n")
    assert agents.wrong == []
    assert Counter(decisions) == {"approved": WAITERS}
    assert await asyncio.to_thread(schema, postgres_settings) == (NEXT, migrations.newest())


def test_an_old_node_does_not_start_on_a_newer_schema(sqlite_settings: Settings, newer: Path) -> None:
    assert command(sqlite_settings, newer, "migrate").returncode == 0
    refused = command(sqlite_settings, None, "serve", "--port", "0")
    assert refused.returncode == 1
    assert f"version {NEXT}" in refused.stderr
    assert os.linesep.join(refused.stderr.splitlines()[1:]) == "", "one sentence, and no traceback"
