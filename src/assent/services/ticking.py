"""Turns each due time of a schedule into one event, no matter how many nodes are running."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from assent.domain import schedules
from assent.domain.errors import InvalidRequest
from assent.domain.instants import SECOND, iso
from assent.domain.schedules import Due
from assent.domain.trigger_events import Arrived, Trust
from assent.services.receiving import receive
from assent.store.sources import StoredSource
from assent.store.transaction import Transaction

TICK_BATCH = 50
TYPE = "schedule.tick"
LOOK_AGAIN = 60 * SECOND


def tick_due(tx: Transaction) -> int:
    """Store an event for each due time; the node that advances a schedule stores them in the same transaction."""
    now = tx.now()
    found = tx.sources.due(now, limit=TICK_BATCH)
    for source in found:
        due, problem = _due(source, now)
        if tx.sources.ticked(source, next_at=due.next_at):
            receive(tx, source, [_tick(source, instant, now) for instant in due.instants])
            if problem != source.problem:
                tx.sources.note_problem(source.id, problem)
    return len(found)


def _due(source: StoredSource, now: int) -> tuple[Due, str | None]:
    assert source.next_at is not None, "due sources have a next time"
    try:
        return schedules.due(schedules.read(source.settings), source.next_at, now, source.id), None
    except InvalidRequest as error:
        # For example, this machine lacks the time zone, and another node may have it.
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
    """Return the first tick of a schedule that is new, changed or enabled again; missed ticks are skipped."""
    return schedules.first_at(schedules.read(settings), now, source_id)


def instants(settings: Mapping[str, Any], after: int, count: int) -> list[int]:
    """Return the next times of a schedule, without jitter."""
    return list(islice(schedules.read(settings).after(after), count))
