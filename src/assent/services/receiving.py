"""Events come in: each is stored once, in one transaction, with what it is a consequence of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assent.domain.durations import whole_seconds
from assent.domain.instants import SECOND
from assent.domain.trigger_events import Arrived, TriggerEvent
from assent.store.sources import StoredSource
from assent.store.transaction import Transaction
from assent.store.trigger_events import Kept


def receive(tx: Transaction, source: StoredSource, arrived: Sequence[Arrived]) -> list[Kept]:
    """Store what a source tells. What is stored is handled by whoever looks after triggers next."""
    return receive_all(tx, [(source, each) for each in arrived])


def receive_all(tx: Transaction, told: Sequence[tuple[StoredSource, Arrived]]) -> list[Kept]:
    """Store what several sources tell; return what became of each, in the order given."""
    if not told:
        return []
    now = tx.now()
    events = [event(tx, source, arrived) for source, arrived in told]
    # Nodes that are told the same at once take the keys, and then the sources, in one order.
    ordered = sorted(events, key=lambda each: (each.source_id, each.arrived.key))
    kept = dict(zip((each.id for each in ordered), tx.trigger_events.keep(ordered), strict=True))
    sources = {source.id: source for source, _ in told}
    for source_id in sorted(sources):
        tx.sources.note_heard(source_id, now, silent_at=silent_at(sources[source_id].settings, now))
    return [kept[each.id] for each in events]


def event(tx: Transaction, source: StoredSource, arrived: Arrived) -> TriggerEvent:
    """Return an event that has just come; one that carries marks of runs is the doing of the deepest of them.

    A run of another project counts for the depth only.
    """
    new_id = tx.new_id("evt")
    marked = tx.runs.these(arrived.marks) if arrived.marks else []
    own = [each for each in marked if each.project == source.project]
    run = max(own, key=lambda each: each.depth, default=None)
    first = tx.trigger_events.first_of(run.cause.event_id) if run is not None and run.cause is not None else None
    return TriggerEvent(
        id=new_id,
        project=source.project,
        source_id=source.id,
        source=source.name,
        arrived=arrived if run is None else replace(arrived, marks=(run.id,)),
        causation_id=run.id if run is not None else None,
        correlation_id=first or new_id,
        depth=max((each.depth + 1 for each in marked), default=0),
        received_at=tx.now(),
    )


def silent_at(settings: Mapping[str, Any], now: int) -> int | None:
    """Return when the silence of a source is to be told, if it is expected to be heard every so often."""
    every = settings.get("expect_every")
    return now + whole_seconds(every) * SECOND if isinstance(every, str) else None
