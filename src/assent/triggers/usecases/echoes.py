"""Detects triggers that fire themselves: a run changes what its source watches, and the change starts the next run.

Processes do not have to declare their changes. An event is an echo of a run if it is about the same subject as the
event that started the run, and arrives when a change by the run would arrive: right after the run or, for a folder,
also during the run.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from assent.core.durations import seconds
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.triggers.event import TriggerEvent
from assent.triggers.sources.files import QUIET as DEFAULT_QUIET
from assent.triggers.store.firings import Firings, Started
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import StoredTrigger

AFTER_END = 5 * SECOND
"""How long after the end of its run an echo can arrive. Unrelated events rarely arrive within this time repeatedly."""


def echoes(tx: Transaction, stored: StoredTrigger, event: TriggerEvent, *, since: int) -> int:
    """Return the number of consecutive runs, ending with the newest, that were each followed by an echo."""
    limit = stored.trigger.breaker.echoes
    # A replayed event was caused by a person, not by a run.
    if not limit or event.replay_of is not None:
        return 0
    newest = Started(
        source_id=event.source_id,
        type=event.type,
        subject=event.arrived.subject,
        paths=_paths(event),
        received_at=event.received_at,
        run_at=event.received_at,
        ended_at=None,
    )
    before = tx[Firings].started(stored.id, since=since, limit=1)
    if not before:
        return 0
    quiet = _quiet(tx, event.source_id)
    if not is_echo(newest, before[0], quiet=quiet):
        return 0
    chain = [newest, *tx[Firings].started(stored.id, since=since, limit=limit)]
    return next(
        (n for n, (later, run) in enumerate(pairwise(chain)) if not is_echo(later, run, quiet=quiet)), len(chain) - 1
    )


def is_echo(event: Started, run: Started, *, quiet: int) -> bool:
    """Return whether a run probably caused an event. `quiet` is a folder's quiet period, or 0 for other sources."""
    if (event.source_id, event.type) != (run.source_id, run.type) or not _is_in_time(event, run, quiet):
        return False
    if event.paths or run.paths:
        return not event.paths.isdisjoint(run.paths)
    return event.subject == run.subject


def _is_in_time(event: Started, run: Started, quiet: int) -> bool:
    if run.ended_at is None:
        # A folder reports changes only after a quiet period, so an earlier event cannot come from this run. Other
        # sources can report anything while a run is active, so the time proves nothing.
        return bool(quiet) and event.received_at >= run.run_at + quiet
    earliest = run.run_at + (quiet or (run.ended_at - run.run_at) // 2)
    return earliest <= event.received_at <= run.ended_at + quiet + AFTER_END


def _paths(event: TriggerEvent) -> frozenset[str]:
    found: object = event.arrived.view.get("paths")
    return frozenset(map(str, cast("Sequence[object]", found))) if isinstance(found, list | tuple) else frozenset()


def _quiet(tx: Transaction, source_id: str) -> int:
    """Return how long a folder must be unchanged before it reports changes; 0 for other sources."""
    source = tx[Sources].get(source_id)
    if source.kind != "files":
        return 0
    return round(seconds(str(source.settings.get("quiet", DEFAULT_QUIET))) * SECOND)
