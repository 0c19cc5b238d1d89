"""Takes a firing through debouncing, approval and the concurrency limit, and then starts its run."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal
from assent.core.breakpoint import Breakpoint, Status
from assent.core.errors import AssentError, Conflict, NotFound
from assent.core.plurals import plural
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.runs.model import Cause
from assent.runs.ports import FoundProcess, ProcessRegistry
from assent.runs.usecases.runs import NewRun, RunService
from assent.triggers.event import TriggerEvent
from assent.triggers.model import (
    Because,
    FiringState,
    TriggerState,
    WhenFull,
    asked_of,
    holds,
    inputs_of,
    key_of,
    once_of,
    trace,
)
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.usecases.run_approval import agent_of, ask, principal_of, withdraw

PAUSES = tuple(each * SECOND for each in (5, 30, 120, 600, 1_800))
"""Delays before each retry, because a node may temporarily lack a process file."""
MOST_GATHERED = 1_000
MOST_BODIES = 4 * 1024 * 1024
"""Maximum number of characters of merged events' bodies that a run receives."""
MOST_QUEUED = 1_000
READ_AT_ONCE = 20
"""The number of merged events that are matched against a changed trigger at a time."""
NOTHING_CAME = frozenset({Because.BUSY, Because.REPLACED, Because.DISCARDED})
"""A firing skipped for one of these reasons had no effect, so other events can use its key."""


@dataclass
class Going:
    """A firing with the changes made so far in this transaction."""

    firing: Firing
    stored: StoredTrigger
    event: TriggerEvent
    now: int
    process: FoundProcess | None = None

    @property
    def by(self) -> Principal:
        return principal_of(self.stored)

    def held(self, because: Because, *, next_at: int | None = None) -> Firing:
        return replace(
            self.firing, state=FiringState.HELD, because=because, next_at=next_at, error=None, updated_at=self.now
        )

    def skipped(self, because: Because, why: str | None = None) -> Firing:
        key = None if because in NOTHING_CAME else self.firing.once_key
        gone = replace(self.firing, state=FiringState.SKIPPED, because=because, once_key=key, next_at=None, error=why)
        return replace(gone, updated_at=self.now)


class Firer:
    def __init__(self, breakpoints: BreakpointService, runs: RunService, processes: ProcessRegistry) -> None:
        self._breakpoints = breakpoints
        self._runs = runs
        self._processes = processes

    def go_on(self, tx: Transaction, going: Going) -> Firing:
        """Advance a firing as far as possible and return its new state; the caller saves it."""
        going.process = self._processes.find(going.stored.trigger.run)
        # Approval comes after debouncing, so that one approval covers all merged events.
        stages = (_let, _still, _first, _quiet, self._approved, self._room)
        stopped = next(filter(None, (stage(tx, going) for stage in stages)), None)
        moved = stopped or self._start(tx, going)
        if moved.breakpoint_id is not None and moved.because in {Because.DISCARDED, Because.ONCE}:
            withdraw(tx, self._breakpoints, moved.breakpoint_id, by=going.by)
        if moved.gathered and (moved.because in NOTHING_CAME or moved.state is FiringState.DEAD):
            tx[Firings].give_up_keys(moved)
        return moved

    def _approved(self, tx: Transaction, going: Going) -> Firing | None:
        """Stop until a reviewer has approved exactly this run, if an approval is required."""
        firing = going.firing
        if firing.breakpoint_id is None:
            if not firing.asks and not holds(going.stored.trigger, going.event):
                return None
            asked = None
        else:
            asked = tx[Breakpoints].look(firing.breakpoint_id, project=going.stored.project)
        if asked is None and going.process is None:
            # An approval covers one version of the process, so reviewers would be asked again once the process exists.
            return later(going.firing, self._missing(going), now=going.now)
        if asked is None or self._is_other(going, asked):
            try:
                asked = self._ask(tx, going)
            except AssentError as error:
                return later(going.firing, f"The approval request could not be created: {error.message}", now=going.now)
        if asked.status is Status.WAITING:
            return going.held(Because.APPROVAL)
        return None if asked.decision is Decision.APPROVED else going.skipped(Because.NOT_APPROVED, _how(asked))

    def _missing(self, going: Going) -> str:
        run = going.stored.trigger.run
        return self._processes.problem(run, {}, complete=False) or f"process {run} not found"

    def _is_other(self, going: Going, asked: Breakpoint) -> bool:
        """Return whether the run would now differ from the run that the question is about. A rejection is final."""
        is_open = asked.status is Status.WAITING or asked.decision is Decision.APPROVED
        return is_open and going.process is not None and going.firing.asked != _about(going)

    def _ask(self, tx: Transaction, going: Going) -> Breakpoint:
        if going.firing.breakpoint_id is not None:
            withdraw(tx, self._breakpoints, going.firing.breakpoint_id, by=going.by)
            going.firing = replace(going.firing, breakpoint_id=None, asked=None, asks=True)
        raised = ask(tx, self._breakpoints, going.stored, going.event, going.firing)
        going.firing = replace(going.firing, breakpoint_id=raised, asked=_about(going))
        return tx[Breakpoints].look(raised, project=going.stored.project)

    def _room(self, tx: Transaction, going: Going) -> Firing | None:
        """Stop if the maximum number of runs is active."""
        room = going.stored.trigger.concurrency
        if room is None:
            return None
        going.firing = firing = replace(going.firing, room_key=key_of(room.key, going.event))
        running = tx[Firings].running(firing)
        is_full = len(running) >= room.limit or _others_first(tx, going)
        if not is_full:
            return None
        if room.when_full is WhenFull.SKIP:
            return going.skipped(
                Because.BUSY,
                f"{plural(len(running), 'run was', 'runs were')} already running; the limit is {room.limit}.",
            )
        if room.when_full is WhenFull.CANCEL:
            # Cancel the oldest runs, but only as many as necessary to free one slot.
            for run_id in running[: len(running) - room.limit + 1]:
                with contextlib.suppress(Conflict, NotFound):  # the run has just ended
                    self._runs.cancel(tx, run_id, by=going.by)
            return None
        if room.when_full is WhenFull.REPLACE:
            _replace_queued(tx, going)
        return going.held(Because.ROOM)

    def _start(self, tx: Transaction, going: Going) -> Firing:
        trigger, event = going.stored.trigger, going.event
        others = tx[TriggerEvents].gathered(going.firing.gathered, most=MOST_BODIES)
        inputs = inputs_of(trigger, event, others)
        found = going.process
        wrong = self._processes.problem(trigger.run, inputs, complete=True)
        if found is None or wrong is not None:
            return later(going.firing, wrong or self._missing(going), now=going.now)
        cause = Cause(event.id, trigger.name, max(event.depth, going.firing.depth))
        new = NewRun(found.name, found.version, inputs, agent_of(going.stored), cause)
        try:
            run = self._runs.start(tx, new, by=going.by, once=None)
        except AssentError as error:
            return later(going.firing, error.message, now=going.now)
        return replace(
            going.firing,
            state=FiringState.STARTED,
            because=None,
            run_id=run.id,
            next_at=None,
            error=None,
            updated_at=going.now,
        )


def _let(_: Transaction, going: Going) -> Firing | None:
    """Stop if the trigger was removed, disabled or suspended."""
    if going.stored.removed_at is not None:
        return going.skipped(Because.DISCARDED, "The trigger was removed.")
    if going.stored.state is TriggerState.DISABLED:
        return going.skipped(Because.DISCARDED, "The trigger was disabled.")
    return going.held(Because.SUSPENDED) if going.stored.state is TriggerState.SUSPENDED else None


def _still(tx: Transaction, going: Going) -> Firing | None:
    """Match the events again if the trigger has changed since they matched."""
    firing, stored = going.firing, going.stored
    if firing.trigger_version == stored.version:
        return None
    found = trace(stored.trigger, going.event)
    if found.problem is not None:
        return later(firing, f"Invalid trigger: {found.problem}", now=going.now)
    matching = [each for each in _events(tx, firing.gathered) if trace(stored.trigger, each).matched]
    if found.matched:
        matching.append(going.event)
    if not matching:
        return going.skipped(Because.DISCARDED, "The trigger was changed and no longer matches.")
    *earlier, going.event = matching
    going.firing = replace(
        firing,
        event_id=going.event.id,
        gathered=tuple(each.id for each in earlier),
        asks=any(holds(stored.trigger, each) for each in matching),
        trigger_version=stored.version,
    )
    return None


def _events(tx: Transaction, event_ids: Sequence[str]) -> Iterator[TriggerEvent]:
    for start in range(0, len(event_ids), READ_AT_ONCE):
        yield from tx[TriggerEvents].these(event_ids[start : start + READ_AT_ONCE])


def _first(tx: Transaction, going: Going) -> Firing | None:
    """Claim the `once` key again if the firing had released it."""
    firing = going.firing
    key = once_of(going.stored.trigger, going.event) if firing.once_key is None else None
    if key is None:
        return None
    if tx[Firings].used(firing.trigger_id, key):
        return going.skipped(Because.ONCE, f"The trigger has already fired for {key!r}.")
    going.firing = replace(firing, once_key=key)
    return None


def _about(going: Going) -> str:
    firing, version = going.firing, going.process.version if going.process is not None else ""
    others = (*firing.gathered, f"{firing.beyond} more")
    return asked_of(going.stored.trigger, going.event, version=version, agent_id=agent_of(going.stored), others=others)


def _quiet(tx: Transaction, going: Going) -> Firing | None:
    """Stop until no more events with the same key arrive. Earlier events are merged into the newest one."""
    wanted, firing = going.stored.trigger.debounce, going.firing
    if wanted is None or firing.debounce_key is not None or firing.breakpoint_id is not None:
        return None
    key = key_of(wanted.key, going.event)
    asks = firing.asks or holds(going.stored.trigger, going.event)
    going.firing = firing = replace(firing, debounce_key=key, asks=asks)
    earlier = tx[Firings].gathering(firing.trigger_id, key)
    other = tx[Firings].take(earlier.id) if earlier is not None else None
    if other is None:
        return going.held(Because.DEBOUNCE, next_at=_until(firing.first_at, wanted.quiet, wanted.most, going.now))
    # IDs are sorted by time, so this order does not depend on which firing is processed first.
    older, newer = sorted((other, firing), key=lambda each: each.event_id)
    merged = _gathered(older, newer)
    next_at = _until(merged.first_at, wanted.quiet, wanted.most, going.now)
    if newer is firing:
        going.firing = merged
        tx[Firings].save(_merged(older, newer, going.now))
        return going.held(Because.DEBOUNCE, next_at=next_at)
    tx[Firings].save(replace(merged, next_at=next_at, updated_at=going.now))
    return _merged(firing, newer, going.now)


def _until(first_at: int, quiet: float, most: float, now: int) -> int:
    return min(now + round(quiet * SECOND), first_at + round(most * SECOND))


def _gathered(older: Firing, newer: Firing) -> Firing:
    """Return the newer firing, including everything that was merged into the older one."""
    events = sorted({*older.gathered, older.event_id, *newer.gathered})
    beyond = older.beyond + newer.beyond + max(0, len(events) - MOST_GATHERED)
    first_at = min(older.first_at, newer.first_at)
    return replace(
        newer,
        gathered=tuple(events[-MOST_GATHERED:]),
        beyond=beyond,
        first_at=first_at,
        depth=max(older.depth, newer.depth),
        asks=older.asks or newer.asks,
    )


def _merged(older: Firing, newer: Firing, now: int) -> Firing:
    why = f"Merged into event {newer.event_id} by debouncing."
    return replace(
        older, state=FiringState.SKIPPED, because=Because.MERGED, gathered=(), next_at=None, error=why, updated_at=now
    )


def _others_first(tx: Transaction, going: Going) -> bool:
    """Return whether another firing has been waiting longer for the same slot."""
    firing, room = going.firing, going.stored.trigger.concurrency
    if room is None or room.when_full is not WhenFull.QUEUE or firing.because is Because.ROOM:
        return False
    return bool(tx[Firings].queued(firing.trigger_id, firing.room_key or "", limit=1))


def _replace_queued(tx: Transaction, going: Going) -> None:
    firing = going.firing
    for other in tx[Firings].queued(firing.trigger_id, firing.room_key or "", limit=MOST_QUEUED):
        queued = tx[Firings].take(other.id) if other.id != firing.id else None
        if queued is not None:
            gone = replace(going, firing=queued).skipped(Because.REPLACED, f"Replaced by event {firing.event_id}.")
            tx[Firings].save(gone)
            tx[Firings].give_up_keys(gone)


def later(firing: Firing, why: str, *, now: int) -> Firing:
    """Schedule a retry. After the last retry, the firing is dead and other events can use its key."""
    attempts = firing.attempts + 1
    tried = replace(firing, attempts=attempts, error=why, updated_at=now)
    if attempts > len(PAUSES):
        return replace(tried, state=FiringState.DEAD, because=None, once_key=None, next_at=None)
    next_at = now + PAUSES[attempts - 1]
    return replace(tried, state=FiringState.HELD, because=Because.RETRY, next_at=next_at)


def _how(asked: Breakpoint) -> str:
    if asked.status is Status.RELEASED:
        return f"Rejected by {asked.ended_by}."
    return f"The breakpoint was {asked.status.value} by {asked.ended_by}."
