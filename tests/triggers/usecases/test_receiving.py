"""The depth of events: only events that a run caused are attributed to it."""

from functools import partial

import pytest

from assent.db.transaction import Transaction
from assent.kernel.ports import Incoming
from assent.runs.store import Runs
from assent.triggers.event import Arrived
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import Sources
from assent.triggers.usecases.triggers import TriggerService
from assent.triggers.usecases.watchers import STILL_WRITES, WatchingDesk
from tests.support.nodes import ManualClock, Node
from tests.triggers.sources.moments import NOW
from tests.triggers.sources.signing import ENVIRONMENT, SIGNED
from tests.triggers.sources.signing import source as hook
from tests.triggers.usecases.triggering import (
    RITA,
    arrived,
    come,
    end,
    event,
    process,
    runs,
    settle,
    source,
    stood,
    trigger,
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


async def deep(node: Node, depth: int) -> str:
    """Return a run at this depth, which is the number of earlier runs in its chain."""
    ci = await node.assent.database.read(lambda tx: tx[Sources].by_name("default", "ci"))
    assert ci is not None
    mark = None
    for _ in range(depth + 1):
        [event_id] = await come(node, ci, arrived(mark=mark))
        await settle(node)
        mark = next(each.id for each in await runs(node) if each.cause and each.cause.event_id == event_id)
    assert mark is not None
    return mark


def commented(*marks: str) -> Arrived:
    body = (
        b'{"action": "created", "comment": {"body": "%s"}}' % " ".join(f"assent-run:{each}" for each in marks).encode()
    )
    headers = {"x-github-event": "issue_comment", **SIGNED["github"](body)}
    [found] = hook("github").take(Incoming(headers, body, NOW), key=None)
    return found


async def test_an_event_with_several_marks_is_attributed_to_the_deepest_run(node: Node) -> None:
    """Otherwise, runs that quote each other would never exceed the depth of the first mark, and would never stop."""
    await process(node)
    ci = await source(node)
    await trigger(node)
    first, last = await deep(node, 0), await deep(node, 3)
    [event_id] = await come(node, ci, commented("run_unknown", first, last, first))
    found = await event(node, event_id)
    assert (found.depth, found.causation_id, found.arrived.mark) == (4, last, last)
    [unknown] = await come(node, ci, arrived(mark="run_unknown"))
    assert ((await event(node, unknown)).depth, (await event(node, unknown)).causation_id) == (0, None)


async def test_a_run_in_another_project_counts_toward_the_depth_without_being_revealed(node: Node) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "team", "name": "Team"})
    await process(node)
    await source(node)
    await trigger(node)
    mark = await deep(node, 3)
    theirs = await source(node, "theirs", project="team")
    [event_id] = await come(node, theirs, arrived(mark=mark))
    found = await node.assent.database.read(lambda tx: tx[TriggerEvents].get(event_id, project="team"))
    assert (found.depth, found.causation_id, found.correlation_id) == (4, None, event_id)


def wrote(tx: Transaction, *, run_id: str, path: str) -> None:
    tx[Runs].writes(run_id, [path], now=tx.now())


async def test_edits_by_people_after_a_run_has_ended_are_not_attributed_to_it(node: Node, clock: ManualClock) -> None:
    """Otherwise, each edit of a file would be one run deeper than the previous one, and all edits after the fourth
    would be dropped as loops.
    """
    await process(node)
    docs = await source(node, "docs")
    await trigger(node)
    path = "/srv/docs/a.md"
    desk = WatchingDesk(node.assent.database, docs.id, node.assent.clock)
    for _ in range(6):
        written = await desk.written_by([path])
        [event_id] = await come(node, docs, arrived("fs.changed", mark=written.get(path)))
        await settle(node)
        for run in await runs(node):
            if run.cause and run.cause.event_id == event_id:
                await node.assent.database.write(partial(wrote, run_id=run.id, path=path))
                await end(node, run.id)
        clock.advance(86_400)
    assert await stood(node) == [("started", None)] * 6


async def test_declared_writes_are_attributed_to_a_run_until_shortly_after_its_end(
    node: Node, clock: ManualClock
) -> None:
    await process(node)
    docs = await source(node, "ci")
    await trigger(node)
    path = "/srv/docs/a.md"
    desk = WatchingDesk(node.assent.database, docs.id, node.assent.clock)
    run_id = await deep(node, 0)
    await node.assent.database.write(partial(wrote, run_id=run_id, path=path))
    clock.advance(86_400)
    assert await desk.written_by([path]) == {path: run_id}
    await end(node, run_id)
    clock.advance(STILL_WRITES / 1_000_000 - 10)
    assert await desk.written_by([path]) == {path: run_id}
    clock.advance(20)
    assert await desk.written_by([path]) == {}


async def test_a_trigger_id_never_resolves_to_a_trigger_with_that_name(node: Node) -> None:
    """This also applies to names that earlier versions allowed."""
    await process(node)
    await trigger(node)
    first = await node.assent.database.read(lambda tx: node.assent[TriggerService].known(tx, "fixer", by=RITA))
    assert (
        await node.assent.database.read(lambda tx: node.assent[TriggerService].known(tx, first.id, by=RITA))
    ) == first
    body = {"id": first.id, "on": "*", "run": "fix"}
    with pytest.raises(Exception, match="must not start with src_ or trg_"):
        await node.assent.database.write(lambda tx: node.assent[TriggerService].create(tx, body, by=RITA))
