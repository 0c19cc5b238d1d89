"""The JSON shapes of sources, triggers, their events, firings and schedules; no behaviour."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from assent.wire.runs import RunSummary
from assent.wire.words import Name, Strict

TriggerName = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
SourceKindName = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9_-]+$")]
EventPattern = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Process = Annotated[str, StringConstraints(min_length=1, max_length=120)]
Template = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Length = Annotated[str, StringConstraints(min_length=2, max_length=20, pattern=r"^[0-9dhms]+$")]
Remark = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Enabled = bool | Literal["suspended"]
EventStateName = Literal["received", "matched", "unmatched", "failed"]
FiringStateName = Literal["held", "started", "skipped", "dead"]


class CreateSource(Strict):
    name: TriggerName
    kind: SourceKindName
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    enabled: bool = True


class ChangeSource(Strict):
    settings: dict[str, Any] | None = None
    enabled: bool | None = None


class SourceView(Strict):
    """`settings` are for admins only, and secrets stand there as references."""

    id: str
    name: str
    kind: str
    settings: dict[str, Any] | None = None
    enabled: bool
    origin: str
    address: str | None = None
    problem: str | None = None
    heard_at: str | None = None
    age: int | None = None
    refused: int
    refused_at: str | None = None
    last_refusal: str | None = None
    silent: bool
    silent_at: str | None = None
    alarm_id: str | None = None
    next_at: str | None = None
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str


class SourcePage(Strict):
    items: list[SourceView]


class ScheduleView(Strict):
    """When a schedule ticks next, as its own clocks show it."""

    source_id: str
    source: str
    cron: str
    timezone: str
    enabled: bool
    problem: str | None = None
    next: list[str]


class SchedulePage(Strict):
    items: list[ScheduleView]


class DebounceBody(Strict):
    quiet: Length
    max: Length | None = None
    key: Template | None = None


class ConcurrencyBody(Strict):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    when_full: Literal["queue", "skip", "replace", "cancel"] | None = None
    key: Template | None = None


class HoldBody(Strict):
    gate: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    question: Template | None = None
    expert: Name | Annotated[list[Name], Field(max_length=50)] | None = None
    when: EventPattern | None = None


class BreakerBody(Strict):
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    within: Length | None = None
    echoes: Annotated[int, Field(ge=0, le=1_000)] | None = None


class TriggerFields(Strict):
    inputs: dict[str, Any] | None = None
    once: Template | None = None
    debounce: Length | DebounceBody | None = None
    concurrency: Annotated[int, Field(ge=1, le=1000)] | ConcurrencyBody | None = None
    hold: bool | HoldBody | None = None
    breaker: BreakerBody | None = None
    max_depth: Annotated[int, Field(ge=0, le=20)] | None = None
    agent_id: Name | None = None
    enabled: Enabled | None = None
    note: Remark | None = None


class CreateTrigger(TriggerFields):
    name: TriggerName
    on: EventPattern
    run: Process


class ChangeTrigger(TriggerFields):
    on: EventPattern | None = None
    run: Process | None = None


class SuspendTrigger(Strict):
    because: Remark | None = None


class TriggerBody(Strict):
    """A trigger as it is written."""

    name: str
    on: str
    run: str
    inputs: dict[str, Any] | None = None
    once: str | None = None
    debounce: DebounceBody | None = None
    concurrency: ConcurrencyBody | None = None
    hold: bool | HoldBody | None = None
    breaker: BreakerBody | None = None
    max_depth: int | None = None
    agent_id: str | None = None
    enabled: Enabled = True
    note: str | None = None


class TriggerView(TriggerBody):
    id: str
    because: str | None = None
    problem: str | None = None
    version: int
    origin: str
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    fired_at: str | None = None
    alarm_id: str | None = None


class TriggerPage(Strict):
    """`problems` tell why assent.yaml, as it is now, was not taken over."""

    items: list[TriggerView]
    problems: list[str] | None = None


class FindingView(Strict):
    """A part of a pattern, what the event has there, and whether it holds; null is unknown."""

    part: str
    actual: Any = None
    held: bool | None = None
    note: str | None = None


class TraceView(Strict):
    trigger: str
    matched: bool
    findings: list[FindingView]
    note: str | None = None
    problem: str | None = None


class TriggerEventSummary(Strict):
    id: str
    type: str
    subject: str | None = None
    source: str
    source_id: str
    state: EventStateName
    duplicates: int
    trust: Literal["untrusted", "trusted"]
    verified: str
    depth: int
    replay_of: str | None = None
    error: str | None = None
    received_at: str
    handled_at: str | None = None
    view: dict[str, Any]


class TriggerEventPage(Strict):
    items: list[TriggerEventSummary]
    next_cursor: str | None = None


class FiringView(Strict):
    id: str
    event_id: str
    trigger_id: str
    trigger: str
    trigger_version: int
    state: FiringStateName
    because: str | None = None
    gathered: list[str]
    beyond: int
    breakpoint_id: str | None = None
    run_id: str | None = None
    attempts: int
    next_at: str | None = None
    error: str | None = None
    created_at: str
    updated_at: str


class FiringCount(Strict):
    state: FiringStateName
    because: str | None = None
    count: int


class FiringPage(Strict):
    items: list[FiringView]
    next_cursor: str | None = None
    counts: list[FiringCount]


class TriggerEventView(TriggerEventSummary):
    """One event with everything that is known of it; `trace` is there once it was looked at."""

    attempts: int
    causation_id: str | None = None
    correlation_id: str
    envelope: dict[str, Any]
    headers: dict[str, str]
    trace: list[TraceView] | None = None
    firings: list[FiringView]
    runs: list[RunSummary]
    chain: list[TriggerEventSummary]


class ReplayEvent(Strict):
    trigger: Name | None = None


class TestTriggers(Strict):
    event_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    event: dict[str, Any] | None = None
    trigger: CreateTrigger | Name | None = None


class TrialView(Strict):
    """What would become of an event at one trigger."""

    trigger: str
    matched: bool
    would: str
    findings: list[FindingView]
    inputs: Any = None
    problem: str | None = None


class TrialPage(Strict):
    items: list[TrialView]
