"""Matches events against triggers, and advances firings until their runs start."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Permission, Principal
from assent.core.canonical import Json
from assent.core.errors import Conflict
from assent.core.plurals import plural
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.platform.admin_log import AdminLog
from assent.runs.model import Run
from assent.runs.ports import ProcessRegistry
from assent.runs.store import Runs
from assent.runs.usecases.runs import RunService
from assent.triggers.event import EventState, TriggerEvent, subject_of
from assent.triggers.model import Because, FiringState, Trigger, TriggerState, once_of
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.traces import looked
from assent.triggers.usecases.alerts import follow_alarms, stop_loop, trip
from assent.triggers.usecases.dry_run import Trial, sketched, supposed_event, tried
from assent.triggers.usecases.echoes import echoes
from assent.triggers.usecases.launch import Firer, Going, later
from assent.triggers.usecases.run_approval import clean, principal_of, withdraw

__all__ = ["BATCH", "Trial", "TriggeringService", "Unhandled", "WholeEvent"]

BATCH = 50
"""Maximum number of events, and of firings, per transaction. On SQLite, other writers wait until it ends."""
MOST_BODIES = 16 * 1024 * 1024
"""Maximum number of characters of event bodies that one transaction reads."""
PAUSES = tuple(each * SECOND for each in (1, 10, 60, 300))
"""Delays before an event that could not be processed is retried."""
MOST_TRACES = 200
MOST_IN_CHAIN = 200
FORGET_AFTER = 30 * 86_400 * SECOND
"""How long skipped firings and events without firings are kept."""
FORGET_BATCH = 5_000
NO_KEY = "once is ignored because the event is missing a field that the key uses"
_log = structlog.get_logger()


class Unhandled(Exception):
    """An item failed after part of it was written, so the transaction is rolled back. The next batch postpones the
    item.
    """


@dataclass(frozen=True, slots=True)
class WholeEvent:
    """An event with its firings, its runs, and the chain that contains it."""

    event: TriggerEvent
    firings: Sequence[Firing]
    runs: Mapping[str, Run]
    chain: Sequence[TriggerEvent]


@dataclass
class Batch:
    """Data that a transaction reads only once."""

    tx: Transaction
    now: int
    triggers: dict[str, list[StoredTrigger]] = field(default_factory=dict[str, list[StoredTrigger]])
    fired: dict[str, int] = field(default_factory=dict[str, int])
    """The number of times each trigger has fired within its breaker's period."""
    suspended: set[str] = field(default_factory=set[str])
    """Triggers that the breaker suspended in this transaction."""


class TriggeringService:
    def __init__(self, breakpoints: BreakpointService, runs: RunService, processes: ProcessRegistry) -> None:
        self._breakpoints = breakpoints
        self._processes = processes
        self._firer = Firer(breakpoints, runs, processes)
        self._read: dict[str, StoredTrigger] = {}
        self._spoiled: dict[str, str] = {}
        """Items that failed after a write, and the reasons."""
        self._applied: set[str] = set()
        self._taken_back = False
        self.has_held = False
        """Whether any firing was waiting for approval in the last batch. If so, every decision starts another batch."""

    def advance_due(self, tx: Transaction) -> int:
        """Process a batch of due items, on one node at a time, and return the number of processed items."""
        if not tx[TriggerEvents].alone():
            return 0
        batch = Batch(tx, tx.now())
        self._tidy()
        # Process alarms first, because approving an alarm resumes its trigger in the same batch.
        done = follow_alarms(tx, self._breakpoints)
        done += self._go_on(batch, tx[Firings].resumed(limit=BATCH))
        done += self._go_on(batch, tx[Firings].answered(limit=BATCH))
        done += self._fill_rooms(batch)
        done += self._go_on(batch, tx[Firings].due(batch.now, limit=BATCH))
        events = tx[TriggerEvents].due(batch.now, limit=BATCH, most=MOST_BODIES)
        for event in events:
            self._try(batch, event, partial(self._match, batch, event))
        for trigger_id in batch.fired:
            tx[Triggers].note_fired(trigger_id, batch.now)
        self.has_held = tx[Firings].asks() or tx[Triggers].asks()
        return done + len(events)

    def _tidy(self) -> None:
        """Forget failed items that were postponed, unless the transaction that postponed them was rolled back."""
        if not self._taken_back:
            for each in self._applied:
                self._spoiled.pop(each, None)
        self._applied.clear()
        self._taken_back = False

    def _go_on(self, batch: Batch, firings: Sequence[Firing]) -> int:
        for firing in firings:
            self._try(batch, firing, partial(self._advance, batch, firing.id))
        return len(firings)

    def _fill_rooms(self, batch: Batch) -> int:
        """Start firings that are waiting for a slot, oldest first, while slots are free."""
        done = 0
        for trigger_id, room_key in batch.tx[Firings].full():
            stored = self._current(batch.tx, trigger_id)
            limit = stored.trigger.concurrency.limit if stored and stored.trigger.concurrency else BATCH
            waiting = batch.tx[Firings].queued(trigger_id, room_key, limit=min(limit, BATCH))
            if waiting and len(batch.tx[Firings].running(waiting[0])) < limit:
                done += self._go_on(batch, waiting)
        return done

    def _advance(self, batch: Batch, firing_id: str) -> None:
        tx = batch.tx
        firing = tx[Firings].take(firing_id)
        stored = self._current(tx, firing.trigger_id) if firing is not None else None
        if firing is None or stored is None:
            return
        if stored.id in batch.suspended:
            stored = replace(stored, trigger=replace(stored.trigger, state=TriggerState.SUSPENDED))
        event = tx[TriggerEvents].get(firing.event_id, project=firing.project)
        moved = self._firer.go_on(tx, Going(firing, stored, event, batch.now))
        if not tx[Firings].save(moved):
            msg = f"The firing {firing_id} was changed by another node."
            raise Conflict(msg)

    def _try(self, batch: Batch, item: TriggerEvent | Firing, bring: Callable[[], None]) -> None:
        """Process one item, or leave everything unchanged. A failure must not block other items."""
        if item.id in self._spoiled:
            self._applied.add(item.id)
            self._put_off(batch, item, self._spoiled[item.id])
            return
        session = batch.tx.session
        # Determine whether processing this item writes anything, because only a rollback can undo a write.
        before, session.dirty = session.dirty, False
        try:
            bring()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            _log.warning("triggering_failed", item=item.id, error=why)
            if session.dirty:
                self._take_back(item, why)
                raise Unhandled(item.id) from error
            try:
                self._put_off(batch, item, why)
            except Exception:
                self._take_back(item, why)  # the database rejects further statements in this transaction
                raise
        finally:
            session.dirty = session.dirty or before

    def _take_back(self, item: TriggerEvent | Firing, why: str) -> None:
        """Record that this batch is rolled back. The next batch postpones this item instead of processing it."""
        self._spoiled[item.id] = why
        self._taken_back = True

    def _put_off(self, batch: Batch, item: TriggerEvent | Firing, why: str) -> None:
        if isinstance(item, TriggerEvent):
            next_at = batch.now + PAUSES[item.attempts] if item.attempts < len(PAUSES) else None
            batch.tx[TriggerEvents].put_off(item.id, clean(why), next_at=next_at)
        else:
            batch.tx[Firings].save(later(item, clean(why), now=batch.now))

    def _match(self, batch: Batch, event: TriggerEvent) -> None:
        entries: list[dict[str, Any]] = []
        fired = False
        subject = subject_of(event)
        for stored in self._triggers(batch, event):
            entry = looked(stored.trigger, subject)
            if entry["matched"]:
                fired = True
                entry["note"] = self._fire(batch, stored, event)
            # Matches are always kept, because they explain the runs.
            if len(entries) < MOST_TRACES or entry["matched"]:
                entries.append(entry)
        state = EventState.MATCHED if fired else EventState.UNMATCHED
        if not batch.tx[TriggerEvents].handled(event.id, state, list(entries), now=batch.now):
            msg = f"The event {event.id} was handled by another node."
            raise Conflict(msg)

    def _fire(self, batch: Batch, stored: StoredTrigger, event: TriggerEvent) -> str:
        """Record the result of a match, and return a short description for the trace."""
        going = Going(self._new(batch, stored, event), stored, event, batch.now)
        count = self._count(batch, stored)
        firing = self._first(batch, going) or self._firer.go_on(batch.tx, self._broken(batch, going, count))
        if firing.gathered or firing.because in {Because.MERGED, Because.ONCE}:
            batch.fired[stored.id] -= 1  # merged with an event that was already counted, or fired before
        if not batch.tx[Firings].add(firing):
            msg = f"The trigger {stored.name} has just fired for {firing.once_key!r}."
            raise Conflict(msg)
        told = " ".join(filter(None, (firing.state.value, firing.because and f"({firing.because.value})")))
        return f"{told}; {NO_KEY}" if _has_no_key(stored.trigger, event) else told

    def _new(self, batch: Batch, stored: StoredTrigger, event: TriggerEvent) -> Firing:
        return Firing(
            id=batch.tx.new_id("fir"),
            project=event.project,
            event_id=event.id,
            trigger_id=stored.id,
            trigger_name=stored.name,
            trigger_version=stored.version,
            state=FiringState.HELD,
            once_key=once_of(stored.trigger, event),
            depth=event.depth,
            first_at=batch.now,
            created_at=batch.now,
            updated_at=batch.now,
        )

    def _first(self, batch: Batch, going: Going) -> Firing | None:
        """Return the firing as skipped if it is part of a loop or if the trigger has already fired for its key."""
        trigger, event, key = going.stored.trigger, going.event, going.firing.once_key
        if event.depth > trigger.max_depth:
            going.firing = replace(going.firing, once_key=None)
            why = f"The event comes from a chain of {plural(event.depth, 'run')}; the limit is {trigger.max_depth}."
            return going.skipped(Because.LOOP, why)
        if key is not None and batch.tx[Firings].used(going.stored.id, key):
            going.firing = replace(going.firing, once_key=None)
            return going.skipped(Because.ONCE, f"The trigger has already fired for {key!r}.")
        return None

    def _broken(self, batch: Batch, going: Going, count: int) -> Going:
        """Suspend the trigger if it fires too often or in a loop, so that this firing and later ones are queued."""
        stored, breaker = going.stored, going.stored.trigger.breaker
        if stored.state is TriggerState.ENABLED and stored.id not in batch.suspended:
            if count > breaker.limit:
                trip(batch.tx, self._breakpoints, stored, count=count)
                batch.suspended.add(stored.id)
            elif breaker.echoes and self._echoes(batch, going) >= breaker.echoes:
                stop_loop(batch.tx, self._breakpoints, stored, count=breaker.echoes)
                batch.suspended.add(stored.id)
        if stored.id in batch.suspended:
            going.stored = replace(stored, trigger=replace(stored.trigger, state=TriggerState.SUSPENDED))
        return going

    def _echoes(self, batch: Batch, going: Going) -> int:
        # Runs started before the trigger was last resumed or changed do not count.
        return echoes(batch.tx, going.stored, going.event, since=going.stored.updated_at)

    def _count(self, batch: Batch, stored: StoredTrigger) -> int:
        if stored.id not in batch.fired:
            # Firings queued before the trigger was last resumed or changed do not count.
            since = max(batch.now - round(stored.trigger.breaker.within * SECOND), stored.updated_at)
            from_id = batch.tx.id_at("fir", since - SECOND)
            batch.fired[stored.id] = batch.tx[Firings].count_since(stored.id, since, from_id=from_id)
        batch.fired[stored.id] += 1
        return batch.fired[stored.id]

    def _triggers(self, batch: Batch, event: TriggerEvent) -> list[StoredTrigger]:
        found = batch.triggers.get(event.project)
        if found is None:
            found = batch.triggers[event.project] = self._standing(batch.tx, event.project)
        return [each for each in found if event.replay_for in {None, each.id}]

    def _standing(self, tx: Transaction, project: str) -> list[StoredTrigger]:
        """Return a project's triggers, loading only those that have changed since the last call."""
        versions = tx[Triggers].versions(project)
        known = {each: self._read[each] for each in versions if each in self._read}
        stale = [each for each, edition in versions.items() if each not in known or known[each].edition != edition]
        if stale:
            self._read |= {each.id: each for each in tx[Triggers].these(stale)}
        return [self._read[each] for each in versions]

    def _current(self, tx: Transaction, trigger_id: str) -> StoredTrigger | None:
        found = tx[Triggers].current(trigger_id, self._read.get(trigger_id))
        if found is not None:
            self._read[trigger_id] = found
        return found

    def forget(self, tx: Transaction) -> int:
        """Delete skipped firings, and events without firings, that are more than 30 days old."""
        before = tx.now() - FORGET_AFTER
        gone = tx[Firings].forget(before, limit=FORGET_BATCH)
        return gone + tx[TriggerEvents].forget(before, limit=FORGET_BATCH)

    def replay(self, tx: Transaction, event_id: str, *, by: Principal, trigger: str | None = None) -> TriggerEvent:
        """Process an event again as a new event. If a trigger is specified, its `once` key is ignored.

        If no trigger is specified, an event that could not be processed is retried instead of copied.
        """
        by.require(Permission.RULES)
        tx.acting(by)
        event = tx[TriggerEvents].get(event_id, project=by.project)
        only = tx[Triggers].get(trigger, project=by.project).id if trigger is not None else None
        now = tx.now()
        after: dict[str, Json] = {"trigger": only}
        tx[AdminLog].record("event-replayed", f"event:{event_id}", project=by.project, after=after)
        if only is None and tx[TriggerEvents].again(event_id, now=now):
            return tx[TriggerEvents].get(event_id, project=by.project)
        again = TriggerEvent(
            id=tx.new_id("evt"),
            project=event.project,
            source_id=event.source_id,
            source=event.source,
            arrived=event.arrived,
            replay_of=event.id,
            replay_for=only,
            causation_id=event.id,
            correlation_id=event.correlation_id,
            depth=event.depth,
            received_at=now,
        )
        tx[TriggerEvents].replay(again)
        return again

    def retry(self, tx: Transaction, firing_id: str, *, by: Principal) -> Firing:
        """Retry a dead firing, unless another firing has used its key in the meantime."""
        by.require(Permission.RULES)
        tx.acting(by)
        firing = tx[Firings].get(firing_id, project=by.project)
        stored = tx[Triggers].current(firing.trigger_id, None)
        event = tx[TriggerEvents].get(firing.event_id, project=by.project)
        key = once_of(stored.trigger, event) if stored is not None else None
        if firing.state is FiringState.DEAD and key is not None and tx[Firings].used(firing.trigger_id, key):
            msg = (
                f"The trigger {firing.trigger_name} has since fired for {key!r}. Discard this firing, or "
                "replay the event."
            )
            raise Conflict(msg)
        if not tx[Firings].revive(firing_id, now=tx.now()):
            msg = f"This firing is {firing.state.value}. Only dead firings can be retried."
            raise Conflict(msg)
        _record(tx, "firing-retried", firing, "pending")
        return tx[Firings].get(firing_id, project=by.project)

    def discard(self, tx: Transaction, firing_id: str, *, by: Principal) -> Firing:
        """Discard a held or dead firing, and cancel its breakpoint."""
        by.require(Permission.RULES)
        tx.acting(by)
        firing = tx[Firings].get(firing_id, project=by.project)
        if not tx[Firings].discard(firing_id, f"Discarded by {by.actor}.", now=tx.now()):
            msg = f"This firing is already {firing.state.value}."
            raise Conflict(msg)
        _record(tx, "firing-discarded", firing, "discarded")
        stored = tx[Triggers].current(firing.trigger_id, None)
        tx[Firings].give_up_keys(firing)
        if firing.breakpoint_id is not None and stored is not None:
            withdraw(tx, self._breakpoints, firing.breakpoint_id, by=principal_of(stored))
        return tx[Firings].get(firing_id, project=by.project)

    def events(
        self, tx: Transaction, filters: Mapping[str, str], *, by: Principal, before: str | None, limit: int
    ) -> list[TriggerEvent]:
        by.require(Permission.READ_PEOPLE)
        return tx[TriggerEvents].page(by.project, filters, before=before, limit=limit)

    def event(self, tx: Transaction, event_id: str, *, by: Principal) -> WholeEvent:
        by.require(Permission.READ_PEOPLE)
        event = tx[TriggerEvents].get(event_id, project=by.project)
        firings = tx[Firings].of_event(event_id)
        runs = [tx[Runs].find(each.run_id, project=by.project) for each in firings if each.run_id is not None]
        chain = tx[TriggerEvents].chain(event.correlation_id, project=by.project, limit=MOST_IN_CHAIN)
        return WholeEvent(event, firings, {each.id: each for each in runs if each is not None}, chain)

    def firings(
        self, tx: Transaction, filters: Mapping[str, str], *, by: Principal, before: str | None, limit: int
    ) -> list[Firing]:
        by.require(Permission.READ_PEOPLE)
        return tx[Firings].page(by.project, filters, before=before, limit=limit)

    def counts(self, tx: Transaction, *, by: Principal) -> dict[tuple[str, str | None], int]:
        by.require(Permission.READ_PEOPLE)
        return tx[Firings].counts(by.project)

    def try_out(
        self,
        tx: Transaction,
        *,
        by: Principal,
        event: TriggerEvent,
        drafts: Sequence[Trigger] | None = None,
        only: str | None = None,
    ) -> list[Trial]:
        """Return what each trigger, or each draft, would do with an event, without changing anything."""
        by.require(Permission.READ_PEOPLE)
        if drafts is not None:
            return [tried(tx, each, event, self._processes) for each in drafts]
        found = tx[Triggers].in_project(by.project) if only is None else [tx[Triggers].get(only, project=by.project)]
        return [tried(tx, each.trigger, event, self._processes, stored=each) for each in found]

    def supposed(self, tx: Transaction, body: Mapping[str, Json], *, by: Principal) -> TriggerEvent:
        """Build a hypothetical event from an envelope or from the attributes that patterns can use."""
        by.require(Permission.READ_PEOPLE)
        return supposed_event(tx, body, project=by.project)

    def sketch(self, tx: Transaction, event_id: str, *, by: Principal) -> dict[str, Json]:
        """Return a draft trigger that would match events similar to this one."""
        by.require(Permission.READ_PEOPLE)
        event = tx[TriggerEvents].get(event_id, project=by.project)
        taken = {each.name for each in tx[Triggers].in_project(by.project)}
        return sketched(event, self._processes, taken=taken)


def _record(tx: Transaction, act: str, firing: Firing, state: str) -> None:
    before = {"state": firing.state.value}
    tx[AdminLog].record(act, f"firing:{firing.id}", project=firing.project, before=before, after={"state": state})


def _has_no_key(trigger: Trigger, event: TriggerEvent) -> bool:
    return trigger.once is not None and event.replay_for is None and once_of(trigger, event) is None
