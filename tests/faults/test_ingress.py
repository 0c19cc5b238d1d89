"""Trigger events acknowledged with 202 are stored, even if the server or PostgreSQL is killed during a burst."""

import asyncio
import hashlib
import hmac
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from assent.db.transaction import Transaction
from assent.installation import migrate
from assent.kernel.settings import Settings
from assent.triggers.store.sources import Sources, StoredSource
from tests.faults.kills import secured
from tests.faults.load import rows
from tests.support.cluster import Cluster, cluster
from tests.support.lanes import scaled
from tests.support.nodes import Process, free_port, running_node, start_server
from tests.support.postgres import new_database
from tests.triggers.sources.signing import golden

SECRET = "burst"
DELIVERIES = scaled(600, __name__)
SENDERS = 8
KILLS = 3
STORED = "SELECT id, dedup_key, duplicates FROM assent_trigger_events"


@dataclass
class Burst:
    """Senders that retry each delivery until it is accepted, and record the responses."""

    url: str
    taken: dict[str, str] = field(default_factory=dict[str, str])
    """The event id that each delivery was acknowledged with."""
    answers: Counter[str] = field(default_factory=Counter[str])
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> None:
        numbers = iter(range(DELIVERIES))
        body = json.dumps(golden("github", "workflow_run_failed")["body"]).encode()
        async with httpx2.AsyncClient(base_url=self.url, timeout=60) as client:

            async def sender() -> None:
                for number in numbers:
                    await self._deliver(client, f"d-{number}", body)

            await asyncio.gather(*(sender() for _ in range(SENDERS)))

    async def _deliver(self, client: httpx2.AsyncClient, delivery: str, body: bytes) -> None:
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "x-github-event": "workflow_run",
            "x-github-delivery": delivery,
            "x-hub-signature-256": f"sha256={signature}",
        }
        while delivery not in self.taken:
            try:
                answer = await client.post("/hooks/burst", content=body, headers=headers)
            except httpx2.TransportError:
                self.answers["none"] += 1
                await asyncio.sleep(0.02)  # senders also pause before a retry
                continue
            self.answers[str(answer.status_code)] += 1
            if answer.status_code in {200, 202}:
                self.taken[delivery] = answer.json()["eventId"]
            else:
                assert answer.status_code == 503, answer.text
            async with self.moved:
                self.moved.notify_all()

    async def until(self, count: int) -> None:
        async with self.moved:
            await self.moved.wait_for(lambda: len(self.taken) >= count)

    def judge(self, settings: Settings) -> list[str]:
        """Return all violations."""
        found = rows(settings, STORED)
        by_key = {key: event_id for event_id, key, _ in found}
        wrong = [
            f"{delivery} was told {event_id} and is {by_key.get(f'github:{delivery}')}"
            for delivery, event_id in self.taken.items()
            if by_key.get(f"github:{delivery}") != event_id
        ]
        if len(found) != len(by_key) or len(found) != DELIVERIES:
            wrong.append(f"{len(found)} events of {DELIVERIES} deliveries, {len(by_key)} different")
        return wrong

    def told(self, what: str, wrong: list[str]) -> str:
        met = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
        return f"\nkill -9 of {what} in a burst: {len(self.taken)} taken, {len(wrong)} wrong; answers {met}\n"


async def set_up(settings: Settings) -> None:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> None:
            given = {"secrets": ["env:BURST_SECRET"]}
            source = StoredSource(
                id=tx.new_id("src"), project="default", name="burst", kind="github", settings=given, updated_at=tx.now()
            )
            tx[Sources].add(source)

        await node.assent.database.write(use_case)


def serving(settings: Settings, port: int, log: Path) -> Process:
    return start_server(settings, port=port, log=log, BURST_SECRET=SECRET, **secured(settings))


@pytest.mark.timeout(900)
async def test_acknowledged_events_survive_kill_9(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await set_up(settings)
    port = free_port()
    server = await asyncio.to_thread(serving, settings, port, tmp_path / "log")
    burst = Burst(server.url)
    sending = asyncio.create_task(burst.run())
    try:
        for kill in range(1, KILLS + 1):
            await burst.until(kill * DELIVERIES // (KILLS + 1))
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(serving, settings, port, tmp_path / "log")
        await sending
    finally:
        sending.cancel()
        await asyncio.to_thread(server.stop)
    wrong = burst.judge(settings)
    with capsys.disabled():
        sys.stdout.write(burst.told(f"the server on {'PostgreSQL' if settings.database_url else 'SQLite'}", wrong))
    assert wrong == []


@pytest.mark.timeout(900)
async def test_senders_get_503_and_lose_no_event_while_postgresql_is_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster() as own, new_database(own.url) as database:
        settings = Settings(data_dir=tmp_path / "data", database_url=database)
        settings.data_dir.mkdir()
        migrate(settings)
        await set_up(settings)
        server = await asyncio.to_thread(serving, settings, free_port(), tmp_path / "log")
        burst = Burst(server.url)
        sending = asyncio.create_task(burst.run())
        try:
            for kill in range(1, KILLS + 1):
                await burst.until(kill * DELIVERIES // (KILLS + 1))
                await _revived(own, burst)
            await sending
        finally:
            sending.cancel()
            await asyncio.to_thread(server.stop)
        wrong = burst.judge(settings)
    with capsys.disabled():
        sys.stdout.write(burst.told("PostgreSQL", wrong))
    assert wrong == []
    assert burst.answers["503"] > 0


async def _revived(own: Cluster, burst: Burst) -> None:
    """Kill PostgreSQL, and start it again after a sender has received a 503."""
    before = burst.answers["503"]
    await asyncio.to_thread(own.kill)
    async with burst.moved:
        await burst.moved.wait_for(lambda: burst.answers["503"] > before)
    await asyncio.to_thread(own.start)
