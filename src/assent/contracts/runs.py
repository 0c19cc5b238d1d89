"""Shapes of processes and runs."""

from typing import Annotated, Any, Literal

from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import Name

RunStateName = Literal["queued", "running", "suspended", "done", "failed", "cancelled"]
ProcessName = Annotated[str, Limits(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class StartRun(Shape, frozen=True, kw_only=True):
    process: ProcessName
    """Name of the process to run."""
    inputs: Any = None
    """Inputs of the run (any JSON value). Default: `{}`."""
    agent_id: Name | None = None
    """Agent ID for the run's breakpoints. Default: the name of the process."""


class Cause(Shape, frozen=True, kw_only=True):
    """The event and trigger that started a run, and how many runs precede it."""

    event_id: str
    trigger: str
    depth: int
    """Number of other runs between the original external event and this run."""


class RunSummary(Shape, frozen=True, kw_only=True):
    id: str
    process: str
    state: RunStateName
    """State of the run."""
    agent_id: str
    started_by: str
    cause: Cause | None = None
    """Event and trigger that started the run, if any."""
    created_at: str
    updated_at: str
    ended_at: str | None = None
    error: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        return self.state in {"done", "failed", "cancelled"}


class RunPage(Shape, frozen=True, kw_only=True):
    items: list[RunSummary]
    next_cursor: str | None = None


class RunStep(Shape, frozen=True, kw_only=True):
    path: str
    """Position of the step in the process. For steps inside a `gather`, the position contains dots."""
    kind: Annotated[str, DocumentedAs(Literal["task", "breakpoint", "sleep", "file"])]
    """Kind of the step."""
    name: str
    state: Annotated[str, DocumentedAs(Literal["running", "retrying", "waiting", "answered", "done", "failed"])]
    """State of the step."""
    attempts: int
    started_at: str
    ended_at: str | None = None
    breakpoint_id: str | None = None
    outcome: Any = None
    error: dict[str, Any] | None = None


class RunFile(Shape, frozen=True, kw_only=True):
    path: str
    sha256: str
    size: int


class Run(RunSummary, frozen=True, kw_only=True):
    version: str
    inputs: Any = None
    output: Any = None
    steps: list[RunStep]
    """Steps of the run, in order."""
    files: list[RunFile]
    """Files in the run directory."""


class JournalLine(Shape, frozen=True, kw_only=True):
    seq: int
    at: str
    type: str
    path: str | None = None
    data: dict[str, Any]


class JournalPage(Shape, frozen=True, kw_only=True):
    items: list[JournalLine]


class ProcessInfo(Shape, frozen=True, kw_only=True):
    name: str
    file: str
    version: str
    """Hash of the file that defines the process."""
    description: str
    problem: str | None = None
    """Why the process cannot run."""


class ProcessList(Shape, frozen=True, kw_only=True):
    items: list[ProcessInfo]
