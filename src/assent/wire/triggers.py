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
    """Allowed characters: `a-z`, digits, `.`, `_` and `-`."""
    kind: SourceKindName
    """`github`, `gitlab`, `webhook`, `files`, `git`, `schedule` …"""
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings for this kind of source. Secrets must be references: `env:NAME` or `file:PATH`."""
    enabled: bool = True


class ChangeSource(Strict):
    settings: dict[str, Any] | None = None
    """Settings to change. To remove a setting, set it to null."""
    enabled: bool | None = None
    """When a schedule is enabled again, the ticks that it missed are skipped."""


class SourceView(Strict):
    """A source. Only admins see `settings`, in which secrets are references."""

    id: str
    name: str
    kind: str
    settings: dict[str, Any] | None = None
    """Shown to admins only. Secrets are shown as references."""
    enabled: bool
    origin: str
    """`file` for sources defined in assent.yaml, which cannot be edited here."""
    address: str | None = None
    """URL to which the sender posts events, if any."""
    problem: str | None = None
    """Shown to admins only."""
    heard_at: str | None = None
    """Time of the last event."""
    age: int | None = None
    """Seconds since the last event."""
    refused: int
    """Number of rejected requests."""
    refused_at: str | None = None
    last_refusal: str | None = None
    silent: bool
    """True if no event has arrived within expect_every."""
    silent_at: str | None = None
    """Time at which an alert is sent if no event arrives before then."""
    alarm_id: str | None = None
    """ID of the breakpoint created for the alert."""
    next_at: str | None = None
    """Next time the schedule runs."""
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str


class SourcePage(Strict):
    items: list[SourceView]


class ScheduleView(Strict):
    """The next times a schedule runs, in its own time zone."""

    source_id: str
    source: str
    cron: str
    timezone: str
    enabled: bool
    problem: str | None = None
    next: list[str]
    """Next times, with the time zone's UTC offset."""


class SchedulePage(Strict):
    items: list[ScheduleView]


class DebounceBody(Strict):
    quiet: Length
    """How long the trigger waits after the last event before it starts the run."""
    max: Length | None = None
    """Maximum time to wait before the run starts."""
    key: Template | None = None
    """Template for a key. Events with different keys are handled separately."""


class ConcurrencyBody(Strict):
    limit: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Maximum number of concurrent runs."""
    when_full: Literal["queue", "skip", "replace", "cancel"] | None = None
    """What to do at the limit: queue the event, skip it, replace queued events, or cancel active runs."""
    key: Template | None = None
    """Template for a key. Events with different keys are handled separately."""


class HoldBody(Strict):
    gate: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    question: Template | None = None
    expert: Name | Annotated[list[Name], Field(max_length=50)] | None = None
    when: EventPattern | None = None
    """Pattern that matches the events that require approval."""


class BreakerBody(Strict):
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of firings after which the trigger is suspended and reviewers are alerted. Default: 100."""
    within: Length | None = None
    """Time window for `limit`. Default: `1m`."""
    echoes: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """Number of consecutive firings caused by its own runs after which the trigger is suspended. Default: 20; 0 means
    never.
    """


class TriggerFields(Strict):
    inputs: dict[str, Any] | None = None
    """Run inputs, which can contain templates such as `{{ event.sha }}`. The event is always included."""
    once: Template | None = None
    """Template for a key. The trigger fires only once for each value."""
    debounce: Length | DebounceBody | None = None
    """Quiet period, such as `30s`, or an object."""
    concurrency: Annotated[int, Field(ge=1, le=1000)] | ConcurrencyBody | None = None
    """Maximum number of concurrent runs, or an object."""
    hold: bool | HoldBody | None = None
    """If true, each run requires approval before it starts."""
    breaker: BreakerBody | None = None
    """Limits that suspend the trigger."""
    max_depth: Annotated[int, Field(ge=0, le=20)] | None = None
    """Maximum number of runs between the event and the original external event. Default: 3."""
    agent_id: Name | None = None
    """Agent of the run's breakpoints. Default: `trigger/NAME`."""
    enabled: Enabled | None = None
    """Default: true. If false, events are ignored; if `suspended`, they are queued."""
    note: Remark | None = None


class CreateTrigger(TriggerFields):
    name: TriggerName
    """Allowed characters: `a-z`, digits, `.`, `_` and `-`."""
    on: EventPattern
    """Event pattern, such as `github.push(branch = 'main')`."""
    run: Process
    """Process to start."""


class ChangeTrigger(TriggerFields):
    on: EventPattern | None = None
    run: Process | None = None


class SuspendTrigger(Strict):
    because: Remark | None = None
    """Reason for the suspension."""


class TriggerBody(Strict):
    """The definition of a trigger."""

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
    """Why the trigger is suspended."""
    problem: str | None = None
    """Why the trigger's process could not be started."""
    version: int
    origin: str
    """`file` for triggers defined in assent.yaml. They can be suspended and resumed here, but not edited."""
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    fired_at: str | None = None
    alarm_id: str | None = None
    """ID of the breakpoint that the breaker created to alert reviewers."""


class TriggerPage(Strict):
    """Triggers. `problems` explains why the current assent.yaml was not applied."""

    items: list[TriggerView]
    problems: list[str] | None = None
    """Why this node did not apply the current assent.yaml. Shown only to admins of all projects."""


class FindingView(Strict):
    """A part of a pattern, the value in the event, and whether it matches (null: unknown)."""

    part: str
    """Part of the pattern."""
    actual: Any = None
    """Value in the event."""
    held: bool | None = None
    """Whether it matches. Omitted if unknown."""
    note: str | None = None


class TraceView(Strict):
    trigger: str
    matched: bool
    findings: list[FindingView]
    """Parts of the pattern."""
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
    """Number of times the event was delivered again."""
    trust: Literal["untrusted", "trusted"]
    """Trust level of the event's content."""
    verified: str
    """How the sender was verified."""
    depth: int
    replay_of: str | None = None
    error: str | None = None
    received_at: str
    handled_at: str | None = None
    view: dict[str, Any]
    """Normalized values: `repo`, `branch`, `sha`, `actor` …"""


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
    """Held: `debounce`, `suspended`, `approval`, `room` or `retry`. Skipped: `once`, `busy`, `replaced`, `merged`,
    `loop`, `not-approved` or `discarded`.
    """
    gathered: list[str]
    """Earlier events that this firing also covers."""
    beyond: int
    """Number of further events that are not listed."""
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
    """Number of held firings by reason, and number of dead firings."""


class TriggerEventView(TriggerEventSummary):
    """An event with all details. `trace` is set once the event has been evaluated."""

    attempts: int
    causation_id: str | None = None
    """Run that caused the event, or event that it replays."""
    correlation_id: str
    """First event in its chain."""
    envelope: dict[str, Any]
    """The event in CloudEvents 1.0 format, with the complete body."""
    headers: dict[str, str]
    """Stored headers. Credentials and signatures are never stored."""
    trace: list[TraceView] | None = None
    """How each trigger evaluated the event."""
    firings: list[FiringView]
    runs: list[RunSummary]
    """Runs that the event started."""
    chain: list[TriggerEventSummary]
    """Events in its chain, oldest first."""


class ReplayEvent(Strict):
    trigger: Name | None = None
    """Evaluate only this trigger, ignoring its `once` key."""


class TestTriggers(Strict):
    event_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """ID of a received event."""
    event: dict[str, Any] | None = None
    """Hypothetical event, instead of eventId: a CloudEvents envelope or `{type, view, data}`."""
    trigger: CreateTrigger | Name | None = None
    """Trigger to test: a name or a draft. Default: all triggers."""


class TrialView(Strict):
    """What one trigger would do with an event."""

    trigger: str
    matched: bool
    would: str
    """Outcome in one sentence."""
    findings: list[FindingView]
    inputs: Any = None
    problem: str | None = None


class TrialPage(Strict):
    items: list[TrialView]
