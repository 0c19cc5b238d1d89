"""Matches events against triggers, and advances firings until their runs start."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from assent.domain.access import Permission, Principal
from assent.domain.canonical import Json
from assent.domain.errors import Conflict
from assent.domain.instants import SECOND
from assent.domain.plurals import plural
from assent.domain.runs import Run
from assent.domain.trigger_events import EventState, TriggerEvent, subject_of
from assent.domain.trigger_traces import looked
from assent.domain.triggers import Because, FiringState, Trigger, TriggerState, once_of
from assent.ports import ProcessRegistry
from assent.services.breakpoints import BreakpointService
from assent.services.echoes import echoes
from assent.services.firing import Firer, Going, later
from assent.services.runs import RunService
from assent.services.trigger_alarms import follow_alarms, stop_loop, trip
from assent.services.trigger_questions import clean, principal_of, withdraw
from assent.services.trigger_trying import Trial, sketched, supposed_event, tried
from assent.store.firings import Firing
from assent.store.transaction import Transaction
from assent.store.triggers import StoredTrigger

__all__ = ["BATCH", "Trial", "TriggeringService", "Unhandled", "WholeEvent"]

BATCH = 50
"""Events, and firings, that one transaction processes. On SQLite, other writers wait for it."""
MOST_BODIES = 16 * 1024 * 1024
"""Maximum characters of event bodies that one transaction reads."""
PAUSES = tuple(each * SECOND for each in (1, 10, 60, 300))
"""Delays before an event that could not be handled is tried again."""
MOST_TRACES = 200
MOST_IN_CHAIN = 200
FORGET_AFTER = 30 * 86_400 * SECOND
"""How long events that started nothing are kept."""
FORGET_BATCH = 5_000
NO_KEY = "once is ignored because the event is missing a field that the key uses"
_log = structlog.get_logger()


class Unhandled(Exception):
    """An item could not be processed after part of it was written; the next batch postpones it."""


@dataclass(frozen=True, slots=True)
class WholeEvent:
    """An event with its firings, its runs, and the chain that it belongs to."""

    event: TriggerEvent
    firings: Sequence[Firing]
    runs: Mapping[str, Run]
    chain: Sequence[TriggerEvent]


@dataclass
class Batch:
    """Data that one transaction reads only once."""

    tx: Transaction
    now: int
    triggers: dict[str, list[StoredTrigger]] = field(default_factory=dict[str, list[StoredTrigger]])
    fired: dict[str, int] = field(default_factory=dict[str, int])
    """How often each trigger has fired within its breaker's period."""
    suspended: set[str] = field(default_factory=set[str])
    """Triggers that the breaker suspended in this transaction."""


class TriggeringService:
    def __init__(self, breakpoints: BreakpointService, runs: RunService, processes: ProcessRegistry) -> None:
        self._breakpoints = breakpoints
        self._processes = processes
        self._firer = Firer(breakpoints, runs, processes)
        self._read: dict[str, StoredTrigger] = {}
        self._spoiled: dict[str, str] = {}
        """Items that failed after a write, and why."""
        self._applied: set[str] = set()
        self._taken_back = False
        self.has_held = False
        """Whether anything was waiting for approval in the last batch; if so, every decision triggers another batch."""

    def advance_due(self, tx: Transaction) -> int:
        """Process a batch of what is due, one node at a time; return how many items were processed."""
        if not tx.trigger_events.alone():
            return 0
        batch = Batch(tx, tx.now())
        self._tidy()
        done = follow_alarms(tx, self._breakpoints)
        done += self._go_on(batch, tx.firings.resumed(limit=BATCH))
        done += self._go_on(batch, tx.firings.answered(limit=BATCH))
        done += self._fill_rooms(batch)
        done += self._go_on(batch, tx.firings.due(batch.now, limit=BATCH))
        events = tx.trigger_events.due(batch.now, limit=BATCH, most=MOST_BODIES)
        for event in events:
            self._try(batch, event, partial(self._match, batch, event))
        for trigger_id in batch.fired:
            tx.triggers.note_fired(trigger_id, batch.now)
        self.has_held = tx.firings.asks() or tx.triggers.asks()
        return done + len(events)

    def _tidy(self) -> None:
        """Forget the failures of items that were postponed, unless that transaction was rolled back."""
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
        """Start firings that wait for a free slot, oldest first, as long as slots are free."""
        done = 0
        for trigger_id, room_key in batch.tx.firings.full():
            stored = self._current(batch.tx, trigger_id)
            limit = stored.trigger.concurrency.limit if stored and stored.trigger.concurrency else BATCH
            waiting = batch.tx.firings.queued(trigger_id, room_key, limit=min(limit, BATCH))
            if waiting and len(batch.tx.firings.running(waiting[0])) < limit:
                done += self._go_on(batch, waiting)
        return done

    def _advance(self, batch: Batch, firing_id: str) -> None:
        tx = batch.tx
        firing = tx.firings.take(firing_id)
        stored = self._current(tx, firing.trigger_id) if firing is not None else None
        if firing is None or stored is None:
            return
        if stored.id in batch.suspended:
            stored = replace(stored, trigger=replace(stored.trigger, state=TriggerState.SUSPENDED))
        event = tx.trigger_events.get(firing.event_id, project=firing.project)
        moved = self._firer.go_on(tx, Going(firing, stored, event, batch.now))
        if not tx.firings.save(moved):
            msg = f"The firing {firing_id} was changed by another node."
            raise Conflict(msg)

    def _try(self, batch: Batch, item: TriggerEvent | Firing, bring: Callable[[], None]) -> None:
        """Process one item, or leave everything unchanged; a failure must not block the others."""
        if item.id in self._spoiled:
            self._applied.add(item.id)
            self._put_off(batch, item, self._spoiled[item.id])
            return
        session = batch.tx.session
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
                self._take_back(item, why)  # the database accepts nothing more in this transaction
                raise
        finally:
            session.dirty = session.dirty or before

    def _take_back(self, item: TriggerEvent | Firing, why: str) -> None:
        """Note that this batch is rolled back; the next one postpones this item before processing it."""
        self._spoiled[item.id] = why
        self._taken_back = True

    def _put_off(self, batch: Batch, item: TriggerEvent | Firing, why: str) -> None:
        if isinstance(item, TriggerEvent):
            next_at = batch.now + PAUSES[item.attempts] if item.attempts < len(PAUSES) else None
            batch.tx.trigger_events.put_off(item.id, clean(why), next_at=next_at)
        else:
            batch.tx.firings.save(later(item, clean(why), now=batch.now))

    def _match(self, batch: Batch, event: TriggerEvent) -> None:
        entries: list[dict[str, Any]] = []
        fired = False
        subject = subject_of(event)
        for stored in self._triggers(batch, event):
            entry = looked(stored.trigger, subject)
            if entry["matched"]:
                fired = True
                entry["note"] = self._fire(batch, stored, event)
            if len(entries) < MOST_TRACES or entry["matched"]:
                entries.append(entry)
        state = EventState.MATCHED if fired else EventState.UNMATCHED
        if not batch.tx.trigger_events.handled(event.id, state, list(entries), now=batch.now):
            msg = f"The event {event.id} was handled by another node."
            raise Conflict(msg)

    def _fire(self, batch: Batch, stored: StoredTrigger, event: TriggerEvent) -> str:
        """Record the result of a match, and return it in short form for the trace."""
        going = Going(self._new(batch, stored, event), stored, event, batch.now)
        count = self._count(batch, stored)
        firing = self._first(batch, going) or self._firer.go_on(batch.tx, self._broken(batch, going, count))
        if firing.gathered or firing.because in {Because.MERGED, Because.ONCE}:
            batch.fired[stored.id] -= 1  # merged with others that were counted, or fired before
        if not batch.tx.firings.add(firing):
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
        """Return the firing as skipped if it is part of a loop, or if the trigger has fired for its key before."""
        trigger, event, key = going.stored.trigger, going.event, going.firing.once_key
        if event.depth > trigger.max_depth:
            going.firing = replace(going.firing, once_key=None)
            why = f"The event comes from a chain of {plural(event.depth, 'run')}; the limit is {trigger.max_depth}."
            return going.skipped(Because.LOOP, why)
        if key is not None and batch.tx.firings.used(going.stored.id, key):
            going.firing = replace(going.firing, once_key=None)
            return going.skipped(Because.ONCE, f"The trigger has already fired for {key!r}.")
        return None

    def _broken(self, batch: Batch, going: Going, count: int) -> Going:
        """Suspend the trigger if it fires too often or in a loop; this firing and later ones are then queued."""
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
            batch.fired[stored.id] = batch.tx.firings.count_since(stored.id, since, from_id=from_id)
        batch.fired[stored.id] += 1
        return batch.fired[stored.id]

    def _triggers(self, batch: Batch, event: TriggerEvent) -> list[StoredTrigger]:
        found = batch.triggers.get(event.project)
        if found is None:
            found = batch.triggers[event.project] = self._standing(batch.tx, event.project)
        return [each for each in found if event.replay_for in {None, each.id}]

    def _standing(self, tx: Transaction, project: str) -> list[StoredTrigger]:
        """Return a project's triggers, reading only those that have changed since the last time."""
        versions = tx.triggers.versions(project)
        known = {each: self._read[each] for each in versions if each in self._read}
        stale = [each for each, edition in versions.items() if each not in known or known[each].edition != edition]
        if stale:
            self._read |= {each.id: each for each in tx.triggers.these(stale)}
        return [self._read[each] for each in versions]

    def _current(self, tx: Transaction, trigger_id: str) -> StoredTrigger | None:
        found = tx.triggers.current(trigger_id, self._read.get(trigger_id))
        if found is not None:
            self._read[trigger_id] = found
        return found

    def forget(self, tx: Transaction) -> int:
        """Delete skipped firings, and events that started nothing, after a month."""
        before = tx.now() - FORGET_AFTER
        gone = tx.firings.forget(before, limit=FORGET_BATCH)
        return gone + tx.trigger_events.forget(before, limit=FORGET_BATCH)

    def replay(self, tx: Transaction, event_id: str, *, by: Principal, trigger: str | None = None) -> TriggerEvent:
        """Handle an event again, as a new event; for a single trigger, its `once` key is ignored.

        Without a trigger, an event that could not be handled is itself tried again.
        """
        by.require(Permission.RULES)
        tx.acting(by)
        event = tx.trigger_events.get(event_id, project=by.project)
        only = tx.triggers.get(trigger, project=by.project).id if trigger is not None else None
        now = tx.now()
        after: dict[str, Json] = {"trigger": only}
        tx.admin_log.record("event-replayed", f"event:{event_id}", project=by.project, after=after)
        if only is None and tx.trigger_events.again(event_id, now=now):
            return tx.trigger_events.get(event_id, project=by.project)
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
        tx.trigger_events.replay(again)
        return again

    def retry(self, tx: Transaction, firing_id: str, *, by: Principal) -> Firing:
        """Retry a dead firing, unless another has fired for its key in the meantime."""
        by.require(Permission.RULES)
        tx.acting(by)
        firing = tx.firings.get(firing_id, project=by.project)
        stored = tx.triggers.current(firing.trigger_id, None)
        event = tx.trigger_events.get(firing.event_id, project=by.project)
        key = once_of(stored.trigger, event) if stored is not None else None
        if firing.state is FiringState.DEAD and key is not None and tx.firings.used(firing.trigger_id, key):
            msg = (
                f"The trigger {firing.trigger_name} has since fired for {key!r}. Discard this firing, or "
                "replay the event."
            )
            raise Conflict(msg)
        if not tx.firings.revive(firing_id, now=tx.now()):
            msg = f"This firing is {firing.state.value}. Only dead firings can be retried."
            raise Conflict(msg)
        _record(tx, "firing-retried", firing, "pending")
        return tx.firings.get(firing_id, project=by.project)

    def discard(self, tx: Transaction, firing_id: str, *, by: Principal) -> Firing:
        """Discard a waiting or dead firing, and withdraw its breakpoint."""
        by.require(Permission.RULES)
        tx.acting(by)
        firing = tx.firings.get(firing_id, project=by.project)
        if not tx.firings.discard(firing_id, f"Discarded by {by.actor}.", now=tx.now()):
            msg = f"This firing is already {firing.state.value}."
            raise Conflict(msg)
        _record(tx, "firing-discarded", firing, "discarded")
        stored = tx.triggers.current(firing.trigger_id, None)
        tx.firings.give_up_keys(firing)
        if firing.breakpoint_id is not None and stored is not None:
            withdraw(tx, self._breakpoints, firing.breakpoint_id, by=principal_of(stored))
        return tx.firings.get(firing_id, project=by.project)

    def events(
        self, tx: Transaction, filters: Mapping[str, str], *, by: Principal, before: str | None, limit: int
    ) -> list[TriggerEvent]:
        by.require(Permission.READ_PEOPLE)
        return tx.trigger_events.page(by.project, filters, before=before, limit=limit)

    def event(self, tx: Transaction, event_id: str, *, by: Principal) -> WholeEvent:
        by.require(Permission.READ_PEOPLE)
        event = tx.trigger_events.get(event_id, project=by.project)
        firings = tx.firings.of_event(event_id)
        runs = [tx.runs.find(each.run_id, project=by.project) for each in firings if each.run_id is not None]
        chain = tx.trigger_events.chain(event.correlation_id, project=by.project, limit=MOST_IN_CHAIN)
        return WholeEvent(event, firings, {each.id: each for each in runs if each is not None}, chain)

    def firings(
        self, tx: Transaction, filters: Mapping[str, str], *, by: Principal, before: str | None, limit: int
    ) -> list[Firing]:
        by.require(Permission.READ_PEOPLE)
        return tx.firings.page(by.project, filters, before=before, limit=limit)

    def counts(self, tx: Transaction, *, by: Principal) -> dict[tuple[str, str | None], int]:
        by.require(Permission.READ_PEOPLE)
        return tx.firings.counts(by.project)

    def try_out(
        self,
        tx: Transaction,
        *,
        by: Principal,
        event: TriggerEvent,
        drafts: Sequence[Trigger] | None = None,
        only: str | None = None,
    ) -> list[Trial]:
        """Return what each trigger, or each draft of one, would do with an event; nothing is changed."""
        by.require(Permission.READ_PEOPLE)
        if drafts is not None:
            return [tried(tx, each, event, self._processes) for each in drafts]
        found = tx.triggers.in_project(by.project) if only is None else [tx.triggers.get(only, project=by.project)]
        return [tried(tx, each.trigger, event, self._processes, stored=each) for each in found]

    def supposed(self, tx: Transaction, body: Mapping[str, Json], *, by: Principal) -> TriggerEvent:
        """Build a hypothetical event, from an envelope or from the attributes that patterns see."""
        by.require(Permission.READ_PEOPLE)
        return supposed_event(tx, body, project=by.project)

    def sketch(self, tx: Transaction, event_id: str, *, by: Principal) -> dict[str, Json]:
        """Return a draft of a trigger that would match events like this one."""
        by.require(Permission.READ_PEOPLE)
        event = tx.trigger_events.get(event_id, project=by.project)
        taken = {each.name for each in tx.triggers.in_project(by.project)}
        return sketched(event, self._processes, taken=taken)


def _record(tx: Transaction, act: str, firing: Firing, state: str) -> None:
    before = {"state": firing.state.value}
    tx.admin_log.record(act, f"firing:{firing.id}", project=firing.project, before=before, after={"state": state})


def _has_no_key(trigger: Trigger, event: TriggerEvent) -> bool:
    return trigger.once is not None and event.replay_for is None and once_of(trigger, event) is None
