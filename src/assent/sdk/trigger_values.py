"""Sources, triggers, trigger events and firings as returned by the server."""

from typing import Any

import msgspec

from assent.sdk.run_values import RunSummary
from assent.sdk.values import Value


class Source(Value, frozen=True, kw_only=True):
    id: str
    name: str
    kind: str
    enabled: bool
    origin: str
    refused: int
    silent: bool
    """Whether the source has been silent for longer than expected."""
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    settings: dict[str, Any] | None = None
    """Visible to admins only; secrets are shown as references."""
    address: str | None = None
    """The URL that receives its webhooks, if any."""
    problem: str | None = None
    heard_at: str | None = None
    age: int | None = None
    """Seconds since its last event."""
    refused_at: str | None = None
    last_refusal: str | None = None
    silent_at: str | None = None
    alarm_id: str | None = None
    next_at: str | None = None


class Sources(Value, frozen=True, kw_only=True):
    items: list[Source]


class Schedule(Value, frozen=True, kw_only=True):
    source_id: str
    source: str
    cron: str
    timezone: str
    enabled: bool
    next: list[str]
    """The upcoming times, with the UTC offset that applies at each."""
    problem: str | None = None


class Schedules(Value, frozen=True, kw_only=True):
    items: list[Schedule]


class TriggerBody(Value, frozen=True, kw_only=True):
    """The definition of a trigger."""

    name: str
    on: str
    run: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    once: str | None = None
    debounce: dict[str, Any] | None = None
    concurrency: dict[str, Any] | None = None
    hold: bool | dict[str, Any] | None = None
    breaker: dict[str, Any] | None = None
    max_depth: int | None = None
    agent_id: str | None = None
    enabled: bool | str = True
    """True, False, or "suspended", in which case events are queued."""
    note: str | None = None

    @property
    def state(self) -> str:
        return self.enabled if isinstance(self.enabled, str) else "enabled" if self.enabled else "disabled"


class Trigger(TriggerBody, frozen=True, kw_only=True):
    id: str
    version: int
    origin: str
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    because: str | None = None
    """Why it was suspended."""
    problem: str | None = None
    fired_at: str | None = None
    alarm_id: str | None = None


class Triggers(Value, frozen=True, kw_only=True):
    items: list[Trigger]


class Finding(Value, frozen=True, kw_only=True):
    """A part of a pattern, the event's value for it, and whether it matches; None if unknown."""

    part: str
    actual: Any = None
    held: bool | None = None
    note: str | None = None


class Trace(Value, frozen=True, kw_only=True):
    """Why a trigger did or did not match."""

    trigger: str
    matched: bool
    findings: list[Finding]
    note: str | None = None
    """The outcome in a few words."""
    problem: str | None = None


class Trial(Value, frozen=True, kw_only=True):
    """The result of testing an event against a trigger."""

    trigger: str
    matched: bool
    would: str
    findings: list[Finding]
    inputs: Any = None
    problem: str | None = None


class Trials(Value, frozen=True, kw_only=True):
    items: list[Trial]


class TriggerEventSummary(Value, frozen=True, kw_only=True):
    id: str
    type: str
    source: str
    source_id: str
    state: str
    duplicates: int
    trust: str
    verified: str
    depth: int
    received_at: str
    view: dict[str, Any]
    subject: str | None = None
    replay_of: str | None = None
    error: str | None = None
    handled_at: str | None = None


class TriggerEventPage(Value, frozen=True, kw_only=True):
    items: list[TriggerEventSummary]
    next_cursor: str | None = None


class Firing(Value, frozen=True, kw_only=True):
    """A match of a trigger with an event, which may start a run."""

    id: str
    event_id: str
    trigger_id: str
    trigger: str
    trigger_version: int
    state: str
    attempts: int
    created_at: str
    updated_at: str
    gathered: list[str] = msgspec.field(default_factory=list[str])
    """Earlier events that were merged into this firing; `beyond` counts those that are not listed."""
    beyond: int = 0
    because: str | None = None
    breakpoint_id: str | None = None
    run_id: str | None = None
    next_at: str | None = None
    error: str | None = None


class FiringCount(Value, frozen=True, kw_only=True):
    state: str
    count: int
    because: str | None = None


class FiringPage(Value, frozen=True, kw_only=True):
    items: list[Firing]
    counts: list[FiringCount]
    """How many of the project's firings are held, by reason, and how many are dead."""
    next_cursor: str | None = None


class TriggerEvent(TriggerEventSummary, frozen=True, kw_only=True):
    """An event with all fields."""

    attempts: int
    correlation_id: str
    envelope: dict[str, Any]
    headers: dict[str, str]
    firings: list[Firing]
    runs: list[RunSummary]
    chain: list[TriggerEventSummary]
    trace: list[Trace] | None = None
    """None until the triggers have been evaluated."""
    causation_id: str | None = None
