"""Processes and their runs."""

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from assent.wire.words import Name, Strict

RunStateName = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
ProcessName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class StartRun(Strict):
    process: ProcessName
    """Process name."""
    inputs: Any = None
    """Any JSON value. Default: `{}`."""
    agent_id: Name | None = None
    """Agent of the run's breakpoints. Default: the process name."""


class CauseView(Strict):
    """The event and trigger that started a run, and how many runs precede it."""

    event_id: str
    trigger: str
    depth: int
    """Number of runs between this run and the original external event."""


class RunSummary(Strict):
    id: str
    process: str
    state: RunStateName
    agent_id: str
    started_by: str
    cause: CauseView | None = None
    created_at: str
    updated_at: str
    ended_at: str | None = None
    error: dict[str, Any] | None = None


class RunPage(Strict):
    items: list[RunSummary]
    next_cursor: str | None = None


class StepView(Strict):
    path: str
    """Position in the process. Contains dots for steps inside a gather."""
    kind: Literal["task", "breakpoint", "sleep", "file"]
    name: str
    state: Literal["running", "retrying", "waiting", "answered", "done", "failed"]
    attempts: int
    started_at: str
    ended_at: str | None = None
    breakpoint_id: str | None = None
    outcome: Any = None
    error: dict[str, Any] | None = None


class RunFileView(Strict):
    path: str
    sha256: str
    size: int


class RunView(RunSummary):
    version: str
    inputs: Any = None
    output: Any = None
    steps: list[StepView]
    files: list[RunFileView]


class JournalLine(Strict):
    seq: int
    at: str
    type: str
    path: str | None = None
    data: dict[str, Any]


class JournalPage(Strict):
    items: list[JournalLine]


class ProcessView(Strict):
    name: str
    file: str
    version: str
    """File hash."""
    description: str
    problem: str | None = None
    """Why the process cannot run."""


class ProcessList(Strict):
    items: list[ProcessView]
