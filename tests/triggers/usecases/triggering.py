"""Functions that set up sources, processes and triggers, receive events, and inspect the results."""

import asyncio
import itertools
import textwrap
from functools import partial
from typing import Any

from assent.core.access import Kind, Principal, Role
from assent.db.transaction import Transaction
from assent.runs.model import Run
from assent.runs.processes import FolderOfProcesses
from assent.runs.store import Runs
from assent.runs.usecases.runs import RunService
from assent.triggers.event import Arrived, TriggerEvent, Trust
from assent.triggers.file_format import checked
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.dispatch import TriggeringService, Unhandled
from assent.triggers.usecases.ingest import receive, silent_at
from tests.support.nodes import ManualClock, Node
from tests.support.until import until

RITA = Principal(kind=Kind.PERSON, id="per_rita", name="rita", project="default", roles=frozenset({Role.RULE_ADMIN}))
PLAIN = "async def process(inputs, ctx):\n    return inputs\n"
_numbers = itertools.count(1)


async def process(node: Node, name: str = "fix", source: str = PLAIN) -> None:
    """Write a process to the node's folder, and make the node scan it."""
    folder = node.assent.settings.process_folder
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread((folder / f"{name}.py").write_text, textwrap.dedent(source))
    await asyncio.to_thread(node.assent[FolderOfProcesses].every)


async def source(node: Node, name: str = "ci", project: str = "default", **settings: Any) -> StoredSource:
    def use_case(tx: Transaction) -> StoredSource:
        now = tx.now()
        new = StoredSource(
            id=tx.new_id("src"),
            project=project,
            name=name,
            kind="webhook",
            settings=settings,
            created_at=now,
            updated_at=now,
            silent_at=silent_at(settings, now),
        )
        tx[Sources].add(new)
        return new

    return await node.assent.database.write(use_case)


async def trigger(node: Node, name: str = "fixer", project: str = "default", **body: Any) -> StoredTrigger:
    """Create a trigger that runs `fix` for every event, unless the arguments override this."""
    made = checked({"id": name, "on": "*", "run": "fix"} | body)

    def use_case(tx: Transaction) -> StoredTrigger:
        # Backdate the trigger, because events received at the moment of a change do not count as later.
        now = tx.now() - 1_000_000
        new = StoredTrigger(
            id=tx.new_id("trg"), project=project, trigger=made, said=made.state, created_at=now, updated_at=now
        )
        tx[Triggers].add(new)
        return new

    return await node.assent.database.write(use_case)


def arrived(kind: str = "ci.done", *, key: str | None = None, **more: Any) -> Arrived:
    known = {name: more.pop(name) for name in ("data", "subject", "trust", "occurred_at") if name in more}
    mark: str | None = more.pop("mark", None)
    return Arrived(
        type=kind,
        key=key or f"key-{next(_numbers)}",
        data=known.pop("data", {"n": 1}),
        trust=known.pop("trust", Trust.UNTRUSTED),
        verified="bearer",
        view=more,
        marks=(mark,) if mark else (),
        **known,
    )


async def come(node: Node, at: StoredSource, *several: Arrived) -> list[str]:
    """Receive events in order, and return their IDs."""
    found: list[str] = []
    for each in several:
        [kept] = await node.assent.database.write(partial(receive, source=at, arrived=[each]))
        found.append(kept.id)
        if isinstance(node.assent.clock, ManualClock):
            node.assent.clock.advance(0.001)  # ids have millisecond resolution
    return found


async def settle(node: Node, service: TriggeringService | None = None) -> None:
    """Process all due firings, concurrently with the node's own scheduler, until none are left."""
    machine = service or node.assent[TriggeringService]

    def use_case(tx: Transaction) -> int:
        return machine.advance_due(tx) if tx[TriggerEvents].alone() else -1

    async def look() -> int:
        try:
            return await node.assent.database.write(use_case)
        except Unhandled:
            return -1

    await until(look, lambda done: done == 0)


async def firings(node: Node, **filters: str) -> list[Firing]:
    """Return firings, ordered by their events."""
    found = await node.assent.database.read(lambda tx: tx[Firings].page("default", filters, before=None, limit=3_000))
    return sorted(found, key=lambda each: each.event_id)


async def stood(node: Node, **filters: str) -> list[tuple[str, str | None]]:
    """Return the states and reasons of firings, ordered by their events."""
    return [(each.state.value, each.because and each.because.value) for each in await firings(node, **filters)]


async def runs(node: Node) -> list[Run]:
    """Return complete runs, ordered by their events."""

    def use_case(tx: Transaction) -> list[Run]:
        found = tx[Runs].page("default", {}, before=None, limit=3_000)
        found.sort(key=lambda each: each.cause.event_id if each.cause else "")
        return [tx[Runs].get(each.id, project="default") for each in found]

    return await node.assent.database.read(use_case)


async def event(node: Node, event_id: str) -> TriggerEvent:
    return await node.assent.database.read(lambda tx: tx[TriggerEvents].get(event_id, project="default"))


async def stored(node: Node, name: str = "fixer") -> StoredTrigger:
    return await node.assent.database.read(lambda tx: tx[Triggers].get(name, project="default"))


async def end(node: Node, run_id: str) -> None:
    """End a run that no worker has started by cancelling it."""
    admin = Principal(
        kind=Kind.PERSON,
        id="per_boss",
        name="boss",
        project="default",
        roles=frozenset({Role.ADMIN, Role.REVIEWER}),
    )
    await node.assent.database.write(lambda tx: node.assent[RunService].cancel(tx, run_id, by=admin))
