"""Turns each due time of a schedule into a single event, no matter how many nodes are running."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.triggers import schedules
from assent.triggers.event import Arrived, Trust
from assent.triggers.schedules import Due
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.ingest import receive

TICK_BATCH = 50
TYPE = "schedule.tick"
LOOK_AGAIN = 60 * SECOND


def tick_due(tx: Transaction) -> int:
    """Store an event for each due time. The node that advances a schedule stores its events in the same transaction."""
    now = tx.now()
    found = tx[Sources].due(now, limit=TICK_BATCH)
    for source in found:
        due, problem = _due(source, now)
        # False if another node has advanced the schedule and stored its events.
        if tx[Sources].ticked(source, next_at=due.next_at):
            receive(tx, source, [_tick(source, instant, now) for instant in due.instants])
            if problem != source.problem:
                tx[Sources].note_problem(source.id, problem)
    return len(found)


def _due(source: StoredSource, now: int) -> tuple[Due, str | None]:
    assert source.next_at is not None, "due sources have a next time"
    try:
        return schedules.due(schedules.read(source.settings), source.next_at, now, source.id), None
    except InvalidRequest as error:
        # For example, the time zone is not available on this machine, but it may be on another node.
        return Due((), now + LOOK_AGAIN), error.message


def _tick(source: StoredSource, instant: int, now: int) -> Arrived:
    return Arrived(
        type=TYPE,
        key=f"schedule:{source.id}:{iso(instant)}",
        data={"scheduledFor": iso(instant), "late": (now - instant) // SECOND},
        subject=source.name,
        occurred_at=instant,
        verified="local",
        trust=Trust(source.settings.get("trust", Trust.TRUSTED)),
    )


def first_tick(settings: Mapping[str, Any], now: int, source_id: str) -> int | None:
    """Return the first tick of a schedule that was created, changed or enabled. Missed ticks are skipped."""
    return schedules.first_at(schedules.read(settings), now, source_id)


def instants(settings: Mapping[str, Any], after: int, count: int) -> list[int]:
    """Return a schedule's upcoming times, without jitter."""
    return list(islice(schedules.read(settings).after(after), count))
