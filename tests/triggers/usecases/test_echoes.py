"""A trigger whose runs cause its own events is suspended without configuration; other triggers are not affected."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.triggers.model import TriggerState
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.alerts import BREAKER
from assent.triggers.usecases.watchers import Watching
from tests.db.making import person, respond
from tests.db.making import stored as breakpoint_of
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until
from tests.triggers.usecases.triggering import arrived, come, end, process, runs, settle, source, stood, stored, trigger


async def one_round(node: Node, clock: ManualClock, at: StoredSource, *, lag: float = 1.0, **about: Any) -> None:
    """Receive an event, finish its run, and advance the clock by `lag` seconds."""
    await come(node, at, arrived(**about))
    await settle(node)
    clock.advance(0.5)
    for each in await runs(node):
        if each.ended_at is None:
            await end(node, each.id)
    clock.advance(lag)


@pytest.mark.parametrize(
    "about",
    [
        {"kind": "fs.changed", "paths": ["out.txt"], "subject": "folder"},
        {"kind": "git.pushed", "paths": ["version.py"], "subject": "acme/shop@main"},
        {"kind": "github.push", "subject": "acme/shop@main"},
        {"kind": "webhook.ci"},
    ],
)
async def test_a_loop_is_stopped_for_every_kind_of_source(
    node: Node, clock: ManualClock, about: dict[str, Any]
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node)
    for _ in range(37):
        await one_round(node, clock, ci, **about)

    found = await stood(node)
    assert found.count(("started", None)) == 20
    assert found.count(("held", "suspended")) == 17, "an event was lost"
    now = await stored(node)
    assert now.state is TriggerState.SUSPENDED
    assert now.because is not None
    assert "its own runs" in now.because


async def test_approving_the_alarm_resumes_the_trigger(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 2})
    for _ in range(3):
        await one_round(node, clock, ci, paths=["out.txt"])
    alarm_id = (await stored(node)).alarm_id
    assert alarm_id is not None
    alarm = await breakpoint_of(node, alarm_id)
    assert alarm.gate == BREAKER
    assert "own runs" in str(alarm.payload["question"])

    await respond(node, alarm_id, ann)
    await settle(node)
    assert (await stored(node)).state is TriggerState.ENABLED
    assert await stood(node) == [("started", None)] * 3


QUIET: dict[str, Callable[[int], dict[str, Any]]] = {
    "events about different files": lambda n: {"paths": [f"{n}.txt"]},
    "events about different things": lambda n: {"subject": f"acme/shop#{n}"},
}


@pytest.mark.parametrize("what", QUIET)
async def test_events_about_other_subjects_are_not_echoes(node: Node, clock: ManualClock, what: str) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 2})
    for n in range(6):
        await one_round(node, clock, ci, **QUIET[what](n))
    assert (await stored(node)).state is TriggerState.ENABLED


async def test_events_long_after_the_run_are_not_echoes(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 2})
    for _ in range(6):
        await one_round(node, clock, ci, paths=["a"], lag=60)
    assert (await stored(node)).state is TriggerState.ENABLED


async def test_a_burst_is_not_a_loop(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 2})
    await come(node, ci, *(arrived(paths=["a"]) for _ in range(30)))
    await settle(node)
    assert (await stored(node)).state is TriggerState.ENABLED


async def test_steady_events_during_long_runs_are_not_echoes(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 2})
    for _ in range(6):
        await come(node, ci, arrived(subject="acme/shop@main"))
        await settle(node)
        clock.advance(20)
    assert (await stored(node)).state is TriggerState.ENABLED


async def test_loop_detection_can_be_disabled(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"echoes": 0})
    for _ in range(25):
        await one_round(node, clock, ci, paths=["out.txt"])
    assert (await stored(node)).state is TriggerState.ENABLED


WRITES_ITS_OWN_SOURCE = """
from pathlib import Path

async def process(inputs, ctx):
    def write():
        path = Path({path!r})
        path.write_text(path.read_text() + "x")
    await ctx.task(write)
"""


@pytest.fixture
async def working(sqlite_settings: Settings) -> AsyncIterator[Node]:
    async with running_node(sqlite_settings, worker=True) as found:
        yield found


async def test_a_process_that_writes_to_its_own_watched_folder_is_stopped(working: Node, tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "out.txt").write_text, "a")
    await process(working, source=WRITES_ITS_OWN_SOURCE.format(path=str(folder / "out.txt")))
    await trigger(working, on="fs.changed", breaker={"echoes": 4})

    def add(tx: Transaction) -> None:
        now = tx.now()
        settings = {"path": str(folder), "quiet": "100ms"}
        tx[Sources].add(
            StoredSource(
                id=tx.new_id("src"), project="default", name="folder", kind="files", settings=settings,
                created_at=now, updated_at=now,
            )
        )  # fmt: skip

    await working.assent.database.write(add)
    await working.assent[Watching].look()

    async def memory() -> Any:
        return await working.assent.database.read(lambda tx: tx[Sources].memory(tx[Sources].every()[0].id))

    await until(memory, lambda found: found is not None)
    await asyncio.to_thread((folder / "out.txt").write_text, "b")

    async def state() -> TriggerState:
        return (await stored(working)).state

    await until(state, lambda found: found is TriggerState.SUSPENDED)
    assert len(await runs(working)) == 4
