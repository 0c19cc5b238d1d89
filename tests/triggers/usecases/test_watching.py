"""Watched local sources on a real database: they restart after changes and failures, and report each event once."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from assent.core.access import Kind, Principal
from assent.core.errors import Conflict, InvalidRequest
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.platform.workers import Workers
from assent.runs.model import Run, RunState
from assent.runs.store import Runs
from assent.triggers.event import Arrived, TriggerEvent
from assent.triggers.ports import WatchDesk
from assent.triggers.sources.registry import KINDS, SourceKind, Way
from assent.triggers.sources.tools import SourceTools
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.watchers import LOOK_SECONDS, Watching, WatchingDesk
from tests.delivery.usecases.test_listening import Pauses
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until


@dataclass
class Owl:
    """A source that watches until the test makes it fail, and logs each step."""

    settings: Mapping[str, Any]
    log: asyncio.Queue[str] = field(default_factory=asyncio.Queue[str])
    orders: asyncio.Queue[Exception | str] = field(default_factory=asyncio.Queue[Exception | str])

    async def watch(self, desk: WatchDesk) -> None:
        self.log.put_nowait("on")
        try:
            await desk.watching()
            while True:
                order = await self.orders.get()
                if isinstance(order, Exception):
                    raise order
                await desk.tell([Arrived(type="owl.hooted", key=order, data=None)])
                self.log.put_nowait("told")
        finally:
            self.log.put_nowait("off")


@dataclass
class Wood:
    node: Node
    pauses: Pauses
    owls: list[Owl]
    watching: Watching

    async def add(self, name: str = "owl", *, enabled: bool = True, **settings: Any) -> StoredSource:
        return await add(self.node, name, "owl", enabled=enabled, **settings)

    async def stored(self, source: StoredSource) -> StoredSource:
        return await self.node.assent.database.read(lambda tx: tx[Sources].get(source.id))

    async def change(self, source: StoredSource, **changes: Any) -> None:
        await self.node.assent.database.write(
            lambda tx: tx[Sources].save(replace(tx[Sources].get(source.id), **changes), now=tx.now())
        )


async def add(node: Node, name: str, kind: str, *, enabled: bool = True, **settings: Any) -> StoredSource:
    def use_case(tx: Transaction) -> StoredSource:
        made = StoredSource(
            id=tx.new_id("src"), project="default", name=name, kind=kind, settings=settings, enabled=enabled
        )
        tx[Sources].add(made)
        return made

    return await node.assent.database.write(use_case)


async def events(node: Node) -> list[TriggerEvent]:
    return await node.assent.database.read(
        lambda tx: [
            tx[TriggerEvents].get(each.id, project="default")
            for each in tx[TriggerEvents].page("default", {}, before=None, limit=100)
        ]
    )


def tools(base: Path = Path()) -> SourceTools:
    return SourceTools(resolve=str, now=lambda: 0, base=base)


@pytest.fixture
async def wood(node: Node, clock: ManualClock) -> AsyncIterator[Wood]:
    owls: list[Owl] = []

    def make(settings: Mapping[str, Any], _: SourceTools) -> Owl:
        if settings.get("odd"):
            raise InvalidRequest.at("/settings/odd", "is odd")
        owls.append(Owl(settings))
        return owls[-1]

    kinds = {"owl": SourceKind("owl", Way.WATCH, make), "bell": SourceKind("bell", Way.HOOK, make)}
    pauses = Pauses()
    watching = Watching(node.assent.database, tools(), clock, kinds=kinds, host="here", pause=pauses)
    yield Wood(node, pauses, owls, watching)
    await watching.stop()


async def test_a_source_is_watched_and_its_events_are_stored(wood: Wood) -> None:
    source = await wood.add()
    await wood.add("asleep", enabled=False)
    await add(wood.node, "bell", "bell")
    await add(wood.node, "unknown", "cuckoo")
    await wood.watching.look()
    await wood.watching.look()
    assert await until(_owls(wood), bool) == wood.owls[:1]
    (owl,) = wood.owls
    assert await owl.log.get() == "on"
    owl.orders.put_nowait("first")
    assert await owl.log.get() == "told"
    (event,) = await events(wood.node)
    assert (event.source_id, event.type, event.project) == (source.id, "owl.hooted", "default")
    assert (await wood.stored(source)).heard_at is not None


def _owls(wood: Wood) -> Any:
    async def look() -> list[Owl]:
        return list(wood.owls)

    return look


async def test_a_source_on_another_host_is_not_watched(wood: Wood) -> None:
    await wood.add("there", host="there")
    await wood.add("here", host="here")
    await wood.watching.look()
    (owl,) = await until(_owls(wood), bool)
    assert owl.settings == {"host": "here"}


@pytest.mark.parametrize("end", ["disable", "remove", "change"])
async def test_a_removed_disabled_or_changed_source_stops_being_watched(wood: Wood, end: str) -> None:
    source = await wood.add()
    await wood.watching.look()
    (owl,) = await until(_owls(wood), bool)
    assert await owl.log.get() == "on"
    if end == "remove":
        await wood.node.assent.database.write(lambda tx: tx[Sources].remove(source.id, now=tx.now()))
    else:
        await wood.change(source, **({"enabled": False} if end == "disable" else {"settings": {"tune": 2}}))
    await wood.watching.look()
    assert await owl.log.get() == "off"
    if end == "change":
        _, second = await until(_owls(wood), lambda found: len(found) == 2)
        assert second.settings == {"tune": 2}


async def test_a_watcher_failure_is_recorded_and_cleared_after_recovery(wood: Wood) -> None:
    source = await wood.add()
    await wood.watching.look()
    (owl,) = await until(_owls(wood), bool)
    waits: list[float] = []
    for _ in range(7):
        owl.orders.put_nowait(OSError("There is no wood."))
        waits.append(await wood.pauses.asked.get())
        assert (await wood.stored(source)).problem == "There is no wood."
        wood.pauses.over()
        owl = (await until(_owls(wood), lambda found: len(found) == len(waits) + 1))[-1]
    await until(lambda: wood.stored(source), lambda found: found.problem is None)
    assert waits == [2, 4, 8, 16, 32, 60, 60]


async def test_invalid_settings_are_recorded_as_a_problem(wood: Wood) -> None:
    source = await wood.add(odd=True)
    await wood.watching.look()
    await wood.pauses.asked.get()
    assert (await wood.stored(source)).problem == "/settings/odd: is odd"


async def test_an_internal_error_in_a_watcher_is_retried(wood: Wood) -> None:
    source = await wood.add()
    await wood.watching.look()
    (owl,) = await until(_owls(wood), bool)
    owl.orders.put_nowait(RuntimeError("oops"))
    await wood.pauses.asked.get()
    assert "see the server log" in ((await wood.stored(source)).problem or "")
    wood.pauses.over()
    await until(_owls(wood), lambda found: len(found) == 2)


@pytest.mark.parametrize(
    ("given", "neighbour", "noted"),
    [({}, False, True), ({}, True, False), ({"host": "here"}, True, True)],
)
async def test_a_missing_folder_is_reported_unless_another_host_might_have_it(
    wood: Wood,
    given: dict[str, Any],
    neighbour: bool,  # noqa: FBT001
    noted: bool,  # noqa: FBT001
) -> None:
    if neighbour:
        await wood.node.assent.database.write(
            lambda tx: tx[Workers].beat("w1", host="there", pid=1, now=tx.now()),
        )
    source = await wood.add(**given)
    await wood.watching.look()
    (owl,) = await until(_owls(wood), bool)
    owl.orders.put_nowait(FileNotFoundError("There is no folder."))
    await wood.pauses.asked.get()
    assert ((await wood.stored(source)).problem is not None) == noted


async def test_a_sources_memory_survives_a_restart(wood: Wood, clock: ManualClock) -> None:
    source = await wood.add()
    desk = WatchingDesk(wood.node.assent.database, source.id, clock)
    assert await desk.memory() is None
    await desk.tell([], {"files": {"a": [1, 2, "x"]}})
    await desk.tell([Arrived(type="a", key="1", data=None)], {"files": {}})
    again = WatchingDesk(wood.node.assent.database, source.id, clock)
    assert await again.memory() == {"files": {}}
    assert len(await events(wood.node)) == 1


async def test_only_one_of_several_nodes_with_the_same_memory_stores_its_events(wood: Wood, clock: ManualClock) -> None:
    source = await wood.add()
    desks = [WatchingDesk(wood.node.assent.database, source.id, clock) for _ in range(4)]
    for _ in range(3):
        for desk in desks:
            await desk.memory()
        told = [desk.tell([Arrived(type="a", key=f"{n}", data=None)], n) for n, desk in enumerate(desks)]
        results = await asyncio.gather(*told, return_exceptions=True)
        assert [isinstance(each, Conflict) for each in results].count(True) == 3
        assert [each for each in results if isinstance(each, BaseException) and not isinstance(each, Conflict)] == []


async def test_a_disabled_source_stores_nothing(wood: Wood, clock: ManualClock) -> None:
    source = await wood.add()
    desk = WatchingDesk(wood.node.assent.database, source.id, clock)
    await wood.change(source, enabled=False)
    with pytest.raises(Conflict):
        await desk.tell([Arrived(type="a", key="1", data=None)])
    assert await events(wood.node) == []


async def test_declared_writes_of_a_run_are_found(wood: Wood, clock: ManualClock) -> None:
    source = await wood.add()

    def use_case(tx: Transaction) -> str:
        run = Run(
            id=tx.new_id("run"),
            project="default",
            process="p",
            version="1",
            state=RunState.RUNNING,
            inputs={},
            agent_id="a",
            started_by="agent:a",
            principal=Principal(kind=Kind.AGENT, id="tok_a", name="a", project="default"),
            created_at=tx.now(),
            updated_at=tx.now(),
        )
        tx[Runs].add(run)
        tx[Runs].writes(run.id, ["/srv/a.md", "/srv/b.md"], now=tx.now())
        return run.id

    run_id = await wood.node.assent.database.write(use_case)
    desk = WatchingDesk(wood.node.assent.database, source.id, clock)
    asked = [*(f"/srv/{n}" for n in range(2_500)), "/srv/a.md"]
    assert await desk.written_by(asked) == {"/srv/a.md": run_id}


async def test_the_watch_loop_checks_periodically_and_stops_cleanly(wood: Wood) -> None:
    running = asyncio.create_task(wood.watching.run())
    assert await wood.pauses.asked.get() == LOOK_SECONDS
    await wood.add()
    wood.pauses.over()
    assert await wood.pauses.asked.get() == LOOK_SECONDS
    (owl,) = await until(_owls(wood), bool)
    assert await owl.log.get() == "on"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert owl.log.get_nowait() == "off"


async def test_two_nodes_on_one_machine_report_a_change_once(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "specs"
    folder.mkdir()
    async with (
        running_node(settings, worker=True) as one,
        running_node(settings, worker=True) as other,
    ):
        source = await add(one, "specs", "files", path=str(folder), quiet="1s")
        for node in (one, other):
            await node.assent[Watching].look()

        async def memory() -> Any:
            return await one.assent.database.read(lambda tx: tx[Sources].memory(source.id))

        await until(memory, bool)
        for n in range(3):
            (folder / f"{n}.md").write_text("x")
            found = await until(lambda: events(one), lambda found: len(found) == n + 1)  # noqa: B023
            assert found[0].arrived.view["paths"] == [f"{n}.md"]
        shutil.rmtree(folder)
        await until(
            lambda: one.assent.database.read(lambda tx: tx[Sources].get(source.id)), lambda found: bool(found.problem)
        )
    assert len(await events_after(settings)) == 3


async def events_after(settings: Settings) -> list[TriggerEvent]:
    """Return the events after all nodes have stopped, to detect any that were stored late."""
    async with running_node(settings) as node:
        return await events(node)


def test_every_watched_kind_can_be_created() -> None:
    watched = {name for name, kind in KINDS.items() if kind.way is Way.WATCH}
    assert watched == {"files", "git"}
