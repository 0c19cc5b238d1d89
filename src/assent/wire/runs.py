"""Processes and their runs."""

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from assent.wire.words import Name, Strict

RunStateName = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
ProcessName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class StartRun(Strict):
    process: ProcessName
    inputs: Any = None
    agent_id: Name | None = None


class CauseView(Strict):
    """The event that started a run, by which trigger, and how many runs lie before it."""

    event_id: str
    trigger: str
    depth: int


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
    description: str
    problem: str | None = None


class ProcessList(Strict):
    items: list[ProcessView]
