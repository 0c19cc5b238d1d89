"""Shapes of sources, schedules, triggers, trigger events and firings."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from assent.contracts.runs import RunSummary
from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import Name

TriggerName = Annotated[str, Limits(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
SourceKindName = Annotated[str, Limits(min_length=1, max_length=40, pattern=r"^[a-z0-9_-]+$")]
EventPattern = Annotated[str, Limits(min_length=1, max_length=4000)]
Process = Annotated[str, Limits(min_length=1, max_length=120)]
Template = Annotated[str, Limits(min_length=1, max_length=500)]
Length = Annotated[str, Limits(min_length=2, max_length=20, pattern=r"^[0-9dhms]+$")]
Remark = Annotated[str, Limits(min_length=1, max_length=500)]
Enabled = bool | Literal["suspended"]
EventStateName = Literal["received", "matched", "unmatched", "failed"]
FiringStateName = Literal["held", "started", "skipped", "dead"]


class CreateSource(Shape, frozen=True, kw_only=True):
    name: TriggerName
    """Name of the source. It can contain `a-z`, digits, `.`, `_` and `-`."""
    kind: SourceKindName
    """Kind of the source, such as `github`, `gitlab`, `webhook`, `files`, `git` or `schedule`."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Settings for this kind of source. Secrets must be references in the form `env:NAME` or `file:PATH`."""
    enabled: bool = True
    """Whether the source is enabled."""


class ChangeSource(Shape, frozen=True, kw_only=True):
    settings: dict[str, Any] | UnsetType | None = UNSET
    """Settings to change. To remove a setting, set it to null."""
    enabled: bool | UnsetType | None = UNSET
    """Whether the source is enabled. If you enable a schedule again, the times that it missed are skipped."""


class Source(Shape, frozen=True, kw_only=True):
    """A source."""

    id: str
    name: str
    kind: str
    settings: dict[str, Any] | None = None
    """Settings of the source. Only admins can see them. Secrets are shown as references."""
    enabled: bool
    origin: str
    """`file` if the source is defined in `assent.yaml`. Such sources cannot be edited through the API."""
    address: str | None = None
    """URL to which the sender posts events, if the source receives them over HTTP."""
    problem: str | None = None
    """Why the source does not work. Only admins can see this."""
    heard_at: str | None = None
    """Time at which the last event arrived."""
    age: int | None = None
    """Number of seconds since the last event."""
    refused: int
    """Number of requests that were rejected."""
    refused_at: str | None = None
    last_refusal: str | None = None
    silent: bool
    """`true` if no event has arrived within the time set in `expect_every`."""
    silent_at: str | None = None
    """Time at which reviewers are alerted if no event arrives before then."""
    alarm_id: str | None = None
    """ID of the breakpoint that was created to alert reviewers."""
    next_at: str | None = None
    """Next time at which the schedule fires."""
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str


class Sources(Shape, frozen=True, kw_only=True):
    items: list[Source]


class Schedule(Shape, frozen=True, kw_only=True):
    """The next times at which a schedule fires, in its own time zone."""

    source_id: str
    source: str
    cron: str
    timezone: str
    enabled: bool
    problem: str | None = None
    next: list[str]
    """Next times at which the schedule fires, with the UTC offset of its time zone."""


class Schedules(Shape, frozen=True, kw_only=True):
    items: list[Schedule]


class DebounceBody(Shape, frozen=True, kw_only=True):
    quiet: Length
    """Period without further events after which the run starts, such as `30s`."""
    max: Length | None = None
    """Maximum delay until the run starts, even if events continue to arrive."""
    key: Template | None = None
    """Template for a key. Events with different keys are handled independently of each other."""


class ConcurrencyBody(Shape, frozen=True, kw_only=True):
    limit: Annotated[int, Limits(ge=1, le=1000)] | None = None
    """Maximum number of concurrent runs."""
    when_full: Literal["queue", "skip", "replace", "cancel"] | None = None
    """What to do when the limit is reached: queue the event, skip it, replace queued events, or cancel active runs."""
    key: Template | None = None
    """Template for a key. Events with different keys are handled independently of each other."""


class HoldBody(Shape, frozen=True, kw_only=True):
    gate: Annotated[str, Limits(min_length=1, max_length=200)] | None = None
    """Name of the gate."""
    question: Template | None = None
    """Question for the reviewers. It can contain templates."""
    expert: Name | Annotated[list[Name], Limits(max_length=50)] | None = None
    """People or groups that must answer, or `owner`."""
    when: EventPattern | None = None
    """Pattern that matches the events that require approval. By default, all events do."""


class BreakerBody(Shape, frozen=True, kw_only=True):
    limit: Annotated[int, Limits(ge=1, le=1_000_000)] | None = None
    """Number of firings after which the trigger is suspended and reviewers are alerted. Default: `100`."""
    within: Length | None = None
    """Time window in which firings are counted. Default: `1m`."""
    echoes: Annotated[int, Limits(ge=0, le=1_000)] | None = None
    """Number of consecutive firings caused by the trigger's own runs after which the trigger is suspended. `0` disables
    this check. Default: `20`.
    """


class TriggerFields(Shape, frozen=True, kw_only=True):
    inputs: dict[str, Any] | UnsetType | None = UNSET
    """Inputs of the run. They can contain templates such as `{{ event.sha }}`. The event itself is always included."""
    once: Template | UnsetType | None = UNSET
    """Template for a key. The trigger fires only once for each value of the key."""
    debounce: Length | DebounceBody | UnsetType | None = UNSET
    """Period without further events after which the run starts, such as `30s`, or an object with more options."""
    concurrency: Annotated[int, Limits(ge=1, le=1000)] | ConcurrencyBody | UnsetType | None = UNSET
    """Maximum number of concurrent runs, or an object with more options."""
    hold: bool | HoldBody | UnsetType | None = UNSET
    """Whether each run requires approval before it starts, or an object with more options."""
    breaker: BreakerBody | UnsetType | None = UNSET
    """Limits at which the trigger is suspended automatically."""
    max_depth: Annotated[int, Limits(ge=0, le=20)] | UnsetType | None = UNSET
    """Maximum number of runs between the original external event and this event. Default: `3`."""
    agent_id: Name | UnsetType | None = UNSET
    """Agent ID for the run's breakpoints. Default: `trigger/NAME`."""
    enabled: Enabled | UnsetType | None = UNSET
    """Whether the trigger is enabled. If `false`, events are ignored; if `suspended`, they are queued. Default: `true`.
    """
    note: Remark | UnsetType | None = UNSET
    """Note about the trigger."""


class CreateTrigger(TriggerFields, frozen=True, kw_only=True):
    name: TriggerName
    """Name of the trigger. It can contain `a-z`, digits, `.`, `_` and `-`."""
    on: EventPattern
    """Pattern that matches the events that fire the trigger, such as `github.push(branch = 'main')`."""
    run: Process
    """Name of the process to start."""


class ChangeTrigger(TriggerFields, frozen=True, kw_only=True):
    on: EventPattern | UnsetType | None = UNSET
    run: Process | UnsetType | None = UNSET


class SuspendTrigger(Shape, frozen=True, kw_only=True):
    because: Remark | None = None
    """Reason for the suspension."""


class TriggerBody(Shape, frozen=True, kw_only=True):
    """The definition of a trigger."""

    name: str
    on: str
    run: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    once: str | None = None
    debounce: Annotated[dict[str, Any], DocumentedAs(DebounceBody)] | None = None
    concurrency: Annotated[dict[str, Any], DocumentedAs(ConcurrencyBody)] | None = None
    hold: Annotated[bool | dict[str, Any], DocumentedAs(bool | HoldBody)] | None = None
    """Whether each run requires approval before it starts, or an object with more options."""
    breaker: Annotated[dict[str, Any], DocumentedAs(BreakerBody)] | None = None
    max_depth: int | None = None
    agent_id: str | None = None
    enabled: Annotated[bool | str, DocumentedAs(Enabled)] = True
    """Whether the trigger is enabled. If `false`, events are ignored; if `suspended`, they are queued."""
    note: str | None = None

    @property
    def state(self) -> str:
        return self.enabled if isinstance(self.enabled, str) else "enabled" if self.enabled else "disabled"


class Trigger(TriggerBody, frozen=True, kw_only=True):
    id: str
    because: str | None = None
    """Why the trigger is suspended."""
    problem: str | None = None
    """Why the trigger's process cannot be started."""
    version: int
    origin: str
    """`file` if the trigger is defined in `assent.yaml`. Such triggers can be suspended and resumed through the API,
    but not edited.
    """
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    fired_at: str | None = None
    alarm_id: str | None = None
    """ID of the breakpoint that the breaker created to alert reviewers."""


class Triggers(Shape, frozen=True, kw_only=True):
    """Triggers, and the reasons why the current assent.yaml was not applied."""

    items: list[Trigger]
    """Triggers of the project."""
    problems: list[str] | None = None
    """Why this node did not apply the current `assent.yaml`. Only admins with access to all projects can see this."""


class Finding(Shape, frozen=True, kw_only=True):
    """A part of a pattern, the value in the event, and whether it matches."""

    part: str
    """Part of the pattern."""
    actual: Any = None
    """Value in the event."""
    held: bool | None = None
    """Whether the value matches. Omitted if this is unknown."""
    note: str | None = None


class Trace(Shape, frozen=True, kw_only=True):
    trigger: str
    matched: bool
    findings: list[Finding]
    """Result for each part of the pattern."""
    note: str | None = None
    problem: str | None = None


class TriggerEventSummary(Shape, frozen=True, kw_only=True):
    id: str
    type: str
    subject: str | None = None
    source: str
    source_id: str
    state: Annotated[str, DocumentedAs(EventStateName)]
    """State of the event."""
    duplicates: int
    """Number of times that the sender delivered the event again."""
    trust: Annotated[str, DocumentedAs(Literal["untrusted", "trusted"])]
    """Trust level of the event's content."""
    verified: str
    """Method by which the sender was verified."""
    depth: int
    replay_of: str | None = None
    error: str | None = None
    received_at: str
    handled_at: str | None = None
    view: dict[str, Any]
    """Normalized values of the event, such as `repo`, `branch`, `sha` and `actor`."""


class TriggerEventPage(Shape, frozen=True, kw_only=True):
    items: list[TriggerEventSummary]
    next_cursor: str | None = None


class Firing(Shape, frozen=True, kw_only=True):
    id: str
    event_id: str
    trigger_id: str
    trigger: str
    trigger_version: int
    state: Annotated[str, DocumentedAs(FiringStateName)]
    """State of the firing."""
    because: str | None = None
    """Reason for the state. Held firings: `debounce`, `suspended`, `approval`, `room` or `retry`. Skipped firings:
    `once`, `busy`, `replaced`, `merged`, `loop`, `not-approved` or `discarded`.
    """
    gathered: list[str]
    """IDs of earlier events that this firing also covers."""
    beyond: int
    """Number of further events that this firing covers but that are not listed."""
    breakpoint_id: str | None = None
    run_id: str | None = None
    attempts: int
    next_at: str | None = None
    error: str | None = None
    created_at: str
    updated_at: str


class FiringCount(Shape, frozen=True, kw_only=True):
    state: Annotated[str, DocumentedAs(FiringStateName)]
    because: str | None = None
    count: int


class FiringPage(Shape, frozen=True, kw_only=True):
    items: list[Firing]
    """Firings on this page."""
    next_cursor: str | None = None
    counts: list[FiringCount]
    """Number of held firings for each reason, and number of dead firings."""


class TriggerEvent(TriggerEventSummary, frozen=True, kw_only=True):
    """An event with all details."""

    attempts: int
    causation_id: str | None = None
    """ID of the run that caused the event, or of the event that this event replays."""
    correlation_id: str
    """ID of the first event in the event's chain."""
    envelope: dict[str, Any]
    """The event in CloudEvents 1.0 format, with the complete body."""
    headers: dict[str, str]
    """Headers of the request, without credentials and signatures, which are never stored."""
    trace: list[Trace] | None = None
    """How each trigger evaluated the event. Set once the event has been evaluated."""
    firings: list[Firing]
    """Firings of the event."""
    runs: list[RunSummary]
    """Runs that the event started."""
    chain: list[TriggerEventSummary]
    """Events in the same chain, oldest first."""


class ReplayEvent(Shape, frozen=True, kw_only=True):
    trigger: Name | None = None
    """Name of the only trigger to evaluate. Its `once` key is ignored. By default, all triggers are evaluated."""


class TestTriggers(Shape, frozen=True, kw_only=True):
    event_id: Annotated[str, Limits(min_length=1, max_length=64)] | None = None
    """ID of an event that was received."""
    event: dict[str, Any] | None = None
    """Hypothetical event, as a CloudEvents envelope or as `{type, view, data}`. Set either this field or `eventId`."""
    trigger: CreateTrigger | Name | None = None
    """Name of the trigger to test, or a draft of a trigger. Default: all triggers."""


class Trial(Shape, frozen=True, kw_only=True):
    """What a trigger would do with an event."""

    trigger: str
    matched: bool
    would: str
    """Description of the outcome in one sentence."""
    findings: list[Finding]
    """Result for each part of the pattern."""
    inputs: Any = None
    problem: str | None = None


class Trials(Shape, frozen=True, kw_only=True):
    items: list[Trial]
