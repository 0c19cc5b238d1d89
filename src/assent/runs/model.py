"""Runs, their states and steps, and how a replay can differ from the journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from assent.core.access import Principal
from assent.core.canonical import Json
from assent.core.errors import AssentError


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
    """Another worker has claimed this run or it was cancelled, so results from this worker are discarded."""

    code = "superseded"
    title = "The run continues on another worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action of a run, or an event that the run waits for. `path` is its position, the same in every replay."""

    path: str
    kind: StepKind
    name: str
    fingerprint: str | None
    state: StepState
    attempts: int = 0
    breakpoint_id: str | None = None
    due_at: int | None = None
    """When a worker must continue the step: a sleep ends, a retry is due, or an answer has not been processed."""
    heard: int | None = None
    """The number of comments that have been processed, if the process handles comments."""
    outcome: Json = None
    error: Mapping[str, Json] | None = None
    started_at: int = 0
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The event and trigger that started a run."""

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
    """The principal that started the run. Breakpoints are created on its behalf, and it cannot answer them."""
    turn: int = 0
    """Incremented by every claim; only the latest claim may write."""
    starts: int = 0
    """The number of claims since the run last made progress."""
    lines: int = 0
    created_at: int
    updated_at: int
    ended_at: int | None = None
    due_at: int | None = None
    cause: Cause | None = None

    @property
    def depth(self) -> int:
        """The number of runs that led to this run through events; 0 if a person or an agent started it."""
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
    """A stored line of the journal."""

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
    """Explain how a step of a process differs from the recorded one, or return None if it does not."""
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
    """Sort steps for display: 2 before 10, and concurrent steps below their common parent."""
    return sorted(steps, key=lambda step: [int(part) for part in step.path.split(".")])


MARK = "assent-run:"
"""Prefix of a run's mark. A run marks what it writes, so an event that contains its mark was caused by that run."""
