"""Runs and processes as returned by the server."""

from typing import Any, Literal, TypeAlias

from assent.sdk.values import Value

RunStateName: TypeAlias = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]


class Cause(Value, frozen=True, kw_only=True):
    """The event and the trigger that started a run, and how many runs precede it."""

    event_id: str
    trigger: str
    depth: int


class RunSummary(Value, frozen=True, kw_only=True):
    """A run as it appears in a list."""

    id: str
    process: str
    state: RunStateName
    agent_id: str
    started_by: str
    created_at: str
    updated_at: str
    ended_at: str | None = None
    error: dict[str, Any] | None = None
    cause: Cause | None = None

    @property
    def ended(self) -> bool:
        return self.state in {"done", "failed", "cancelled"}


class RunStep(Value, frozen=True, kw_only=True):
    path: str
    kind: str
    name: str
    state: str
    attempts: int
    started_at: str
    ended_at: str | None = None
    breakpoint_id: str | None = None
    outcome: Any = None
    error: dict[str, Any] | None = None


class RunFile(Value, frozen=True, kw_only=True):
    path: str
    sha256: str
    size: int


class Run(RunSummary, frozen=True, kw_only=True):
    """A run with all fields."""

    version: str
    steps: list[RunStep]
    files: list[RunFile]
    inputs: Any = None
    output: Any = None


class RunPage(Value, frozen=True, kw_only=True):
    items: list[RunSummary]
    next_cursor: str | None = None


class JournalLine(Value, frozen=True, kw_only=True):
    seq: int
    at: str
    type: str
    data: dict[str, Any]
    path: str | None = None


class JournalPage(Value, frozen=True, kw_only=True):
    items: list[JournalLine]


class ProcessInfo(Value, frozen=True, kw_only=True):
    """A process that a server can run, or the reason why it cannot."""

    name: str
    file: str
    version: str
    description: str
    problem: str | None = None


class ProcessList(Value, frozen=True, kw_only=True):
    items: list[ProcessInfo]
