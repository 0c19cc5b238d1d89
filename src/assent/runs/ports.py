"""Ports for runs: claimed runs, and the processes available on a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assent.core.canonical import Json
from assent.runs.model import Line, Run, RunFile, Step
from assent.sdk.context import Process


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed run with everything needed for its replay."""

    run: Run
    steps: Mapping[str, Step]
    said: frozenset[tuple[str, str]]
    """The type and path of each line that the process itself has written to the journal."""
    times: Mapping[str, int]
    """The times that the process has read, in microseconds, by path."""
    files: Sequence[RunFile]


@dataclass(frozen=True, slots=True)
class Comment:
    n: int
    """The comment's position on its breakpoint, starting at 1."""
    id: str
    author: str
    comment: str
    at: int


class RunDesk(Protocol):
    """Reads and writes a claimed run; raises Superseded once the claim is lost."""

    async def take(self, run_id: str, *, mine: int) -> Taken | None: ...

    async def hold(self, run: Run, lines: Sequence[Line] = ()) -> None: ...

    async def record(
        self, run: Run, step: Step, lines: Sequence[Line], files: Mapping[str, bytes] | None = None
    ) -> Step: ...

    async def ask(self, run: Run, step: Step, body: Mapping[str, Json], lines: Sequence[Line]) -> Step: ...

    async def comments(self, run: Run, step: Step) -> Sequence[Comment]: ...

    async def reply(self, run: Run, step: Step, comment: Comment, text: str | None) -> Step: ...

    async def writes(self, run: Run, paths: Sequence[str], lines: Sequence[Line]) -> None: ...

    async def leave(self, run: Run, lines: Sequence[Line]) -> bool: ...

    async def content(self, run: Run, path: str) -> bytes: ...

    def now(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A process found by a node. If its file cannot be loaded, it has a problem instead of a function."""

    name: str
    file: str
    version: str
    description: str = ""
    problem: str | None = None
    process: Process | None = None


class ProcessRegistry(Protocol):
    """The processes that this node can run."""

    def find(self, name: str) -> FoundProcess | None: ...

    def every(self) -> Sequence[FoundProcess]: ...

    def problem(self, name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
        """Explain why a process cannot be run with these inputs, or return None if it can.

        If the inputs are not complete, templates represent values that are not known yet.
        """
        ...
