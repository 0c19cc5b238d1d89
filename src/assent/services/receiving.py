"""Stores incoming events, each once and in one transaction, together with what caused them."""

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
    """Store a source's events; the next pass over the triggers handles them."""
    return receive_all(tx, [(source, each) for each in arrived])


def receive_all(tx: Transaction, told: Sequence[tuple[StoredSource, Arrived]]) -> list[Kept]:
    """Store the events of several sources; return the results in the given order."""
    if not told:
        return []
    now = tx.now()
    events = [event(tx, source, arrived) for source, arrived in told]
    # Nodes that receive the same events at once lock the keys, and then the sources, in the same order.
    ordered = sorted(events, key=lambda each: (each.source_id, each.arrived.key))
    kept = dict(zip((each.id for each in ordered), tx.trigger_events.keep(ordered), strict=True))
    sources = {source.id: source for source, _ in told}
    for source_id in sorted(sources):
        tx.sources.note_heard(source_id, now, silent_at=silent_at(sources[source_id].settings, now))
    return [kept[each.id] for each in events]


def event(tx: Transaction, source: StoredSource, arrived: Arrived) -> TriggerEvent:
    """Return a new event; if it carries marks of runs, the deepest of these caused it.

    Runs of other projects count only for the depth.
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
    """Return when to report that a source is silent, if it is expected to send events at an interval."""
    every = settings.get("expect_every")
    return now + whole_seconds(every) * SECOND if isinstance(every, str) else None
