"""Asks reviewers about triggers that fire too often and sources that have gone silent."""

import contextlib

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal
from assent.core.breakpoint import Status
from assent.core.canonical import Json
from assent.core.durations import duration
from assent.core.errors import AssentError
from assent.core.plurals import plural
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.triggers.model import TriggerState
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.run_approval import agent_of, principal_of, raised, withdraw

BREAKER, SILENT = "assent.trigger-breaker", "assent.source-silent"
BREAKER_ACTOR = "system:breaker"
LOOK = 100
"""Maximum number of alarms per transaction."""


def trip(tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, *, count: int) -> bool:
    """Suspend a trigger that fires too often, and ask whether to resume it; return False if already suspended."""
    breaker = stored.trigger.breaker
    within = duration(breaker.within)
    because = f"Fired {plural(count, 'time')} within {within}; the limit is {breaker.limit}."
    return _suspend(tx, breakpoints, stored, because=because, what=f"fired {plural(count, 'time')} within {within}")


def stop_loop(tx: Transaction, breakpoints: BreakpointService, stored: StoredTrigger, *, count: int) -> bool:
    """Suspend a trigger fired by its own runs, and ask whether to resume it; return False if already suspended."""
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
            "what happens": "New events are queued. If you approve, the queued events are processed, oldest first.",
        },
        # A reviewer must make this decision, so neither a rule nor consecutive approvals can make it automatically.
        "hardStop": True,
        "presentAlwaysApprove": False,
    }
    switched = tx[Triggers].set_state(
        stored.id, TriggerState.SUSPENDED, because=because, alarm_id=None, now=tx.now(), by=BREAKER_ACTOR
    )
    if switched:
        tx[Triggers].alarmed(stored.id, raised(tx, breakpoints, principal_of(stored), agent_of(stored), payload))
    return switched


def follow_alarms(tx: Transaction, breakpoints: BreakpointService) -> int:
    """Resume triggers whose alarm was approved, and cancel alarms that were settled in another way."""
    over = tx[Triggers].answered(limit=LOOK)
    for stored in over:
        assert stored.alarm_id is not None, "the query returns only triggers with an alarm"
        asked = tx[Breakpoints].look(stored.alarm_id, project=stored.project)
        ended_by = asked.ended_by
        if asked.status is Status.WAITING:
            withdraw(tx, breakpoints, stored.alarm_id, by=principal_of(stored))
        # Only an approval by a person resumes the trigger.
        elif asked.decision is Decision.APPROVED and ended_by is not None and ended_by.kind is Kind.PERSON:
            _resume(tx, stored, str(ended_by))
        tx[Triggers].alarmed(stored.id, None)
    return len(over)


def _resume(tx: Transaction, stored: StoredTrigger, by: str) -> None:
    if stored.removed_at is None and stored.state is TriggerState.SUSPENDED:
        tx[Triggers].set_state(stored.id, TriggerState.ENABLED, because=None, alarm_id=None, now=tx.now(), by=by)


class SilenceService:
    """Alerts when a source sends no events within its expected interval, once per silent period."""

    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def look(self, tx: Transaction) -> int:
        """Raise alarms that are due and cancel those that have ended, on one node at a time."""
        if not tx[TriggerEvents].alone():
            return 0
        now = tx.now()
        for source in tx[Sources].with_alarm():
            # The source has sent an event, or is no longer enabled.
            if source.silent_at is not None or not source.enabled or source.removed_at is not None:
                self._over(tx, source)
        silent = tx[Sources].silent(now, limit=LOOK)
        for source in silent:
            alarm = raised(tx, self._breakpoints, _principal(source), f"source/{source.name}", _asked(source, now))
            tx[Sources].alarmed(source.id, alarm_id=alarm, silent_at=None)
        return len(silent)

    def _over(self, tx: Transaction, source: StoredSource) -> None:
        assert source.alarm_id is not None, "the query returns only sources with an alarm"
        with contextlib.suppress(AssentError):
            withdraw(tx, self._breakpoints, source.alarm_id, by=_principal(source))
        tx[Sources].alarmed(source.id, alarm_id=None, silent_at=source.silent_at)


def _principal(source: StoredSource) -> Principal:
    return Principal(kind=Kind.TRIGGER, id=source.id, name=f"source/{source.name}", project=source.project)


def _about(seconds: int) -> str:
    return duration(seconds - seconds % 60 if seconds > 60 else seconds)  # noqa: PLR2004  # above a minute, seconds are not interesting


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
