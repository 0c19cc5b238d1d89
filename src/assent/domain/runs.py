"""Runs: the states of a run and of its steps, and what a replay may expect of the journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from assent.domain.access import Principal
from assent.domain.canonical import Json
from assent.domain.errors import AssentError


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({RunState.DONE, RunState.FAILED, RunState.CANCELLED})


class StepKind(StrEnum):
    TASK = "task"
    BREAKPOINT = "breakpoint"
    SLEEP = "sleep"
    FILE = "file"


class StepState(StrEnum):
    RUNNING = "running"
    RETRYING = "retrying"
    WAITING = "waiting"
    ANSWERED = "answered"
    DONE = "done"
    FAILED = "failed"


SETTLED = frozenset({StepState.DONE, StepState.FAILED})


class Superseded(AssentError):
    """Somebody else has taken this run up, or it was cancelled: what we did since does not count."""

    code = "superseded"
    title = "The run continues on another worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a run did or waits for; `path` is its place in the process, the same at every replay."""

    path: str
    kind: StepKind
    name: str
    fingerprint: str | None
    state: StepState
    attempts: int = 0
    breakpoint_id: str | None = None
    due_at: int | None = None
    """When somebody must look after it: a sleeper's time, a retry's, or that of an answer not yet followed."""
    heard: int | None = None
    """How many comments were listened to, where the process listens at all."""
    outcome: Json = None
    error: Mapping[str, Json] | None = None
    started_at: int = 0
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What started a run, where an event did."""

    event_id: str
    trigger: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    project: str
    process: str
    version: str
    state: RunState
    inputs: Json
    output: Json = None
    error: Mapping[str, Json] | None = None
    agent_id: str
    started_by: str
    principal: Principal
    """Who started it: what it raises is raised by them, within their limits, and never decided by them."""
    turn: int = 0
    """Counts who has taken it up: only the last one may write."""
    starts: int = 0
    """How often it was taken up since it last got anywhere."""
    lines: int = 0
    created_at: int
    updated_at: int
    ended_at: int | None = None
    due_at: int | None = None
    cause: Cause | None = None

    @property
    def depth(self) -> int:
        """How many runs lie between this one and the outside world."""
        return self.cause.depth if self.cause is not None else 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal."""

    type: str
    path: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Written:
    """A line as it stands in the journal."""

    seq: int
    at: int
    type: str
    path: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunFile:
    path: str
    sha256: str
    size: int


def difference(step: Step, kind: StepKind, name: str, fingerprint: str | None) -> str | None:
    """Say how what a process does now differs from what it did at this step; None if it does not."""
    then, now = f"the {step.kind} {step.name!r}", f"the {kind} {name!r}"
    if step.kind is not kind or step.name != name:
        return f"Step {step.path} was recorded as {then}, but is now {now}."
    if step.fingerprint is not None and fingerprint is not None and step.fingerprint != fingerprint:
        what = (
            "has changed since it was recorded"
            if kind is StepKind.BREAKPOINT
            else "is called with different arguments than when it was recorded"
        )
        return f"Step {step.path} ({now}) {what}."
    return None


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Sort steps as a person reads them: 2 before 10, and what was done side by side under its own number."""
    return sorted(steps, key=lambda step: [int(part) for part in step.path.split(".")])
