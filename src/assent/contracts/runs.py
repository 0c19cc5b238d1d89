"""JSON models of processes and runs."""

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from assent.contracts.words import Name, Strict

RunStateName = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
ProcessName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class StartRun(Strict):
    process: ProcessName
    """Name of the process to run."""
    inputs: Any = None
    """Inputs of the run (any JSON value). Default: `{}`."""
    agent_id: Name | None = None
    """Agent ID for the run's breakpoints. Default: the name of the process."""


class CauseView(Strict):
    """The event and trigger that started a run, and how many runs precede it."""

    event_id: str
    trigger: str
    depth: int
    """Number of other runs between the original external event and this run."""


class RunSummary(Strict):
    id: str
    process: str
    state: RunStateName
    """State of the run."""
    agent_id: str
    started_by: str
    cause: CauseView | None = None
    """Event and trigger that started the run, if any."""
    created_at: str
    updated_at: str
    ended_at: str | None = None
    error: dict[str, Any] | None = None


class RunPage(Strict):
    items: list[RunSummary]
    next_cursor: str | None = None


class StepView(Strict):
    path: str
    """Position of the step in the process. For steps inside a `gather`, the position contains dots."""
    kind: Literal["task", "breakpoint", "sleep", "file"]
    """Kind of the step."""
    name: str
    state: Literal["running", "retrying", "waiting", "answered", "done", "failed"]
    """State of the step."""
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
    """Steps of the run, in order."""
    files: list[RunFileView]
    """Files in the run directory."""


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
    """Hash of the file that defines the process."""
    description: str
    problem: str | None = None
    """Why the process cannot run."""


class ProcessList(Strict):
    items: list[ProcessView]
