"""Asks a person about triggers that fire too often, and about sources that have gone silent."""

import contextlib

from assent.domain.access import Kind, Principal
from assent.domain.breakpoint import Status
from assent.domain.canonical import Json
from assent.domain.durations import duration
from assent.domain.errors import AssentError
from assent.domain.instants import SECOND, iso
from assent.domain.plurals import plural
from assent.domain.strategies import Decision
from assent.domain.triggers import TriggerState
from assent.services.breakpoints import BreakpointService
from assent.services.trigger_questions import agent_of, principal_of, raised, withdraw
from assent.store.sources import StoredSource
from assent.store.transaction import Transaction
from assent.store.triggers import StoredTrigger

BREAKER, SILENT = "assent.trigger-breaker", "assent.source-silent"
BREAKER_ACTOR = "system:breaker"
LOOK = 100
"""Maximum number of alarms in one transaction."""


def trip(tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, *, count: int) -> bool:
    """Suspend a trigger that fires too often, and ask whether to resume it; return False if already suspended."""
    breaker = stored.trigger.breaker
    within = duration(breaker.within)
    because = f"Fired {plural(count, 'time')} within {within}; the limit is {breaker.limit}."
    return _suspend(tx, breakpoints, stored, because=because, what=f"fired {plural(count, 'time')} within {within}")


def stop_loop(tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, *, count: int) -> bool:
    """Suspend a trigger that its own runs feed, and ask whether to resume it; return False if already suspended."""
    because = (
        f"Fired {plural(count, 'time')} in a row in response to changes made by its own runs. Have the process write "
        "to another location, exclude its output from the source, or declare the files with ctx.writes."
    )
    what = f"fired {plural(count, 'time')} in a row in response to changes that appear to come from its own runs"
    return _suspend(tx, breakpoints, stored, because=because, what=what)


def _suspend(
    tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, *, because: str, what: str
) -> bool:
    trigger = stored.trigger
    payload: dict[str, Json] = {
        "question": f"Trigger {stored.name} {what} and was suspended. Resume it?",
        "breakpointId": BREAKER,
        "context": {
            "trigger": stored.name,
            "on": trigger.on,
            "process": trigger.run,
            "why": because,
            "what happens": "Its events are queued. If you approve, the queued events are processed, oldest first.",
        },
        # A person has to look at this, so neither a rule nor consecutive approvals may approve it.
        "hardStop": True,
        "presentAlwaysApprove": False,
    }
    switched = tx.triggers.set_state(
        stored.id, TriggerState.SUSPENDED, because=because, alarm_id=None, now=tx.now(), by=BREAKER_ACTOR
    )
    if switched:
        tx.triggers.alarmed(stored.id, raised(tx, breakpoints, principal_of(stored), agent_of(stored), payload))
    return switched


def follow_alarms(tx: Transaction, breakpoints: BreakpointService) -> int:
    """Resume triggers that a person approved, and withdraw questions that were settled another way."""
    over = tx.triggers.answered(limit=LOOK)
    for stored in over:
        assert stored.alarm_id is not None, "the query returns only triggers with an alarm"
        asked = tx.breakpoints.look(stored.alarm_id, project=stored.project)
        ended_by = asked.ended_by
        if asked.status is Status.WAITING:
            withdraw(tx, breakpoints, stored.alarm_id, by=principal_of(stored))
        elif asked.decision is Decision.APPROVED and ended_by is not None and ended_by.kind is Kind.PERSON:
            _resume(tx, stored, str(ended_by))
        tx.triggers.alarmed(stored.id, None)
    return len(over)


def _resume(tx: Transaction, stored: StoredTrigger, by: str) -> None:
    if stored.removed_at is None and stored.state is TriggerState.SUSPENDED:
        tx.triggers.set_state(stored.id, TriggerState.ENABLED, because=None, alarm_id=None, now=tx.now(), by=by)


class SilenceService:
    """Alerts when a source sends no events within its expected interval, once for each silence."""

    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def look(self, tx: Transaction) -> int:
        """Create alarms that are due, and withdraw those that are over; one node at a time."""
        if not tx.trigger_events.alone():
            return 0
        now = tx.now()
        for source in tx.sources.with_alarm():
            # It has sent an event, or is no longer enabled.
            if source.silent_at is not None or not source.enabled or source.removed_at is not None:
                self._over(tx, source)
        silent = tx.sources.silent(now, limit=LOOK)
        for source in silent:
            alarm = raised(tx, self._breakpoints, _principal(source), f"source/{source.name}", _asked(source, now))
            tx.sources.alarmed(source.id, alarm_id=alarm, silent_at=None)
        return len(silent)

    def _over(self, tx: Transaction, source: StoredSource) -> None:
        assert source.alarm_id is not None, "the query returns only sources with an alarm"
        with contextlib.suppress(AssentError):
            withdraw(tx, self._breakpoints, source.alarm_id, by=_principal(source))
        tx.sources.alarmed(source.id, alarm_id=None, silent_at=source.silent_at)


def _principal(source: StoredSource) -> Principal:
    return Principal(kind=Kind.TRIGGER, id=source.id, name=f"source/{source.name}", project=source.project)


def _about(seconds: int) -> str:
    return duration(seconds - seconds % 60 if seconds > 60 else seconds)  # noqa: PLR2004  # a minute


def _asked(source: StoredSource, now: int) -> dict[str, Json]:
    every = str(source.settings.get("expect_every"))
    heard = source.heard_at
    since = f"for {_about((now - heard) // SECOND)}" if heard is not None else "since it was configured"
    return {
        "question": (
            f"No events from source {source.name} {since}; at least one was expected every {every}. Investigate?"
        ),
        "breakpointId": SILENT,
        "context": {
            "source": source.name,
            "kind": source.kind,
            "heard": iso(heard) if heard is not None else None,
            "what happens": (
                "Your answer records that you are investigating. This breakpoint is cancelled automatically "
                "when the source sends an event."
            ),
        },
        "hardStop": True,
        "presentAlwaysApprove": False,
    }
