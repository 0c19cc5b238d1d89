"""Stores incoming events, each only once and in one transaction, with the runs that caused them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assent.core.durations import whole_seconds
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.runs.store import Runs
from assent.triggers.event import Arrived, TriggerEvent
from assent.triggers.store.events import Kept, TriggerEvents
from assent.triggers.store.sources import Sources, StoredSource


def receive(tx: Transaction, source: StoredSource, arrived: Sequence[Arrived]) -> list[Kept]:
    """Store a source's events. The next batch matches them against the triggers."""
    return receive_all(tx, [(source, each) for each in arrived])


def receive_all(tx: Transaction, told: Sequence[tuple[StoredSource, Arrived]]) -> list[Kept]:
    """Store events from several sources, and return the results in the given order."""
    if not told:
        return []
    now = tx.now()
    events = [event(tx, source, arrived) for source, arrived in told]
    # Nodes that receive the same events concurrently must lock keys, and then sources, in the same order.
    ordered = sorted(events, key=lambda each: (each.source_id, each.arrived.key))
    kept = dict(zip((each.id for each in ordered), tx[TriggerEvents].keep(ordered), strict=True))
    sources = {source.id: source for source, _ in told}
    for source_id in sorted(sources):
        tx[Sources].note_heard(source_id, now, silent_at=silent_at(sources[source_id].settings, now))
    return [kept[each.id] for each in events]


def event(tx: Transaction, source: StoredSource, arrived: Arrived) -> TriggerEvent:
    """Return a new event. If it contains the marks of several runs, the deepest run is its cause.

    Runs in other projects count only toward the depth.
    """
    new_id = tx.new_id("evt")
    marked = tx[Runs].these(arrived.marks) if arrived.marks else []
    own = [each for each in marked if each.project == source.project]
    run = max(own, key=lambda each: each.depth, default=None)
    first = tx[TriggerEvents].first_of(run.cause.event_id) if run is not None and run.cause is not None else None
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
    """Return when to report a source as silent, if it is expected to send events at an interval."""
    every = settings.get("expect_every")
    return now + whole_seconds(every) * SECOND if isinstance(every, str) else None
