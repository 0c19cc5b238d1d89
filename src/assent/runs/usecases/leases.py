"""Claims, updates and releases runs for a worker, with one transaction per operation."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.files import Files
from assent.breakpoints.usecases.create import check_size, checked
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.breakpoint import Status
from assent.core.canonical import Json, sha256
from assent.core.draft import draft
from assent.core.errors import AlreadyEnded
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database
from assent.people.store.projects import Projects
from assent.runs.model import Line, Run, RunFile, RunState, Step, StepKind, StepState
from assent.runs.ports import Comment, Taken
from assent.runs.store import Runs
from assent.runs.usecases.runs import withdraw

LEASE = 30 * SECOND
"""How long a worker can go without renewing its lease before another worker can claim the run."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Implements RunDesk with the database."""

    database: Database[Transaction]
    breakpoints: BreakpointService
    clock: Clock

    async def take(self, run_id: str, *, mine: int) -> Taken | None:
        return await self.database.write(partial(self._take, run_id=run_id, mine=mine), locks=run_id)

    def _take(self, tx: Transaction, *, run_id: str, mine: int) -> Taken | None:
        now = tx.now()
        run = tx[Runs].take(run_id, mine=mine, now=now, lease=now + LEASE)
        if run is None:
            return None
        tx[Runs].listening(run_id)
        lines: list[Line] = []
        steps: dict[str, Step] = {}
        for step in tx[Runs].steps(run_id):
            steps[step.path] = came = self._brought_up_to_date(tx, run, step, now)
            if came is not step:
                tx[Runs].put_step(run_id, came)
                lines.append(Line(_ENDING[came.kind], came.path, {"name": came.name, **_short(came)}))
        tx[Runs].hold(run, lines, now=now, lease=now + LEASE)
        own = tx[Runs].own_lines(run_id)
        said = frozenset((line.type, line.path or "") for line in own)
        times = {line.path or "": line.data["micros"] for line in own if line.type == "now"}
        return Taken(run, steps, said, times, tx[Runs].files(run_id))

    def _brought_up_to_date(self, tx: Transaction, run: Run, step: Step, now: int) -> Step:
        """Return the step, updated if the event it was waiting for has occurred."""
        if step.kind is StepKind.SLEEP and step.state is StepState.WAITING and step.outcome <= now:
            return replace(step, state=StepState.DONE, due_at=None, ended_at=now)
        if step.breakpoint_id is None or step.state not in {StepState.WAITING, StepState.ANSWERED}:
            return step
        asked = tx[Breakpoints].look(step.breakpoint_id, project=run.project)
        if asked.status is Status.WAITING:
            return step
        return replace(step, state=StepState.DONE, due_at=None, outcome=asked.result, ended_at=asked.ended_at)

    async def hold(self, run: Run, lines: Sequence[Line] = ()) -> None:
        await self.database.write(partial(self._hold, run=run, lines=lines), locks=run.id)

    def _hold(self, tx: Transaction, *, run: Run, lines: Sequence[Line]) -> int:
        now = tx.now()
        tx[Runs].hold(run, lines, now=now, lease=now + LEASE)
        return now

    async def record(
        self, run: Run, step: Step, lines: Sequence[Line], files: Mapping[str, bytes] | None = None
    ) -> Step:
        """Record the state of a step, with the files that it produced."""
        return await self.database.write(
            partial(self._record, run=run, step=step, lines=lines, files=files or {}), locks=run.id
        )

    def _record(
        self, tx: Transaction, *, run: Run, step: Step, lines: Sequence[Line], files: Mapping[str, bytes]
    ) -> Step:
        now = self._hold(tx, run=run, lines=lines)
        started = step.started_at or now
        step = replace(step, started_at=started, ended_at=now if step.state in _OVER else None)
        if step.state in {StepState.RETRYING, StepState.WAITING}:
            # The caller passes a duration in microseconds, which is stored as a point in time.
            step = replace(step, due_at=now + step.outcome, outcome=now + step.outcome)
        for content in files.values():
            tx[Files].put(run.project, sha256(content), content, at=now)
        tx[Runs].keep_files(run.id, [RunFile(path, sha256(data), len(data)) for path, data in files.items()], now=now)
        tx[Runs].put_step(run.id, step)
        return step

    async def ask(self, run: Run, step: Step, body: Mapping[str, Json], lines: Sequence[Line]) -> Step:
        """Create a breakpoint as the next step of the run, in one transaction."""
        return await self.database.write(partial(self._ask, run=run, step=step, body=body, lines=lines), locks=run.id)

    def _ask(self, tx: Transaction, *, run: Run, step: Step, body: Mapping[str, Json], lines: Sequence[Line]) -> Step:
        wanted = draft(checked(body))
        check_size(wanted)
        # The policy is not stored with the run, so that the project's current policy applies.
        by = replace(run.principal, policy=tx[Projects].get_open(run.project).policy)
        raised = self.breakpoints.create(tx, wanted, by=by, digest=wanted.digest(run.project), once=None)
        assert not isinstance(raised, str), "only a request with an idempotency key can return an ID"
        data = {"name": step.name, "breakpointId": raised.id, "status": raised.status}
        now = self._hold(tx, run=run, lines=[*lines, Line("asked", step.path, data)])
        answered = raised.status != Status.WAITING
        step = replace(
            step,
            state=StepState.DONE if answered else StepState.WAITING,
            breakpoint_id=raised.id,
            outcome=msgspec.json.decode(raised.result) if raised.result else None,
            started_at=now,
            ended_at=now if answered else None,
        )
        tx[Runs].put_step(run.id, step)
        return step

    async def comments(self, run: Run, step: Step) -> Sequence[Comment]:
        """Return the unhandled comments on a step's breakpoint, except those by the run itself."""

        def use_case(tx: Transaction) -> list[Comment]:
            assert step.breakpoint_id is not None, "only breakpoint steps have comments"
            said = tx[Breakpoints].comments(step.breakpoint_id)
            # A run must not handle its own replies as new comments.
            own = str(run.principal.actor)
            return [
                Comment(n, each.id, each.author, each.comment, each.at)
                for n, each in enumerate(said, 1)
                if n > (step.heard or 0) and each.author != own
            ]

        return await self.database.read(use_case)

    async def reply(self, run: Run, step: Step, comment: Comment, text: str | None) -> Step:
        """Record that a comment was handled, and add the process's reply, if any."""

        def use_case(tx: Transaction) -> Step:
            assert step.breakpoint_id is not None, "only breakpoint steps have comments"
            self._hold(tx, run=run, lines=[Line("heard", step.path, {"comment": comment.id, "reply": text})])
            heard = replace(step, heard=comment.n)
            if text:
                by = replace(run.principal, policy={})
                # The breakpoint may have ended while the process was preparing its reply.
                with contextlib.suppress(AlreadyEnded):
                    self.breakpoints.comment(tx, step.breakpoint_id, text, by=by, once=None)
            tx[Runs].heard(run.id, heard)
            return heard

        return await self.database.write(use_case, locks=run.id)

    async def writes(self, run: Run, paths: Sequence[str], lines: Sequence[Line]) -> None:
        """Record which files outside its folder the run writes, before it writes them."""

        def use_case(tx: Transaction) -> None:
            now = self._hold(tx, run=run, lines=lines)
            tx[Runs].writes(run.id, paths, now=now)

        await self.database.write(use_case, locks=run.id)

    async def leave(self, run: Run, lines: Sequence[Line]) -> bool:
        """Release a run in its current state; return True if it should be claimed again immediately."""
        return await self.database.write(partial(self._leave, run=run, lines=lines), locks=run.id)

    def _leave(self, tx: Transaction, *, run: Run, lines: Sequence[Line]) -> bool:
        now = tx.now()
        tx[Runs].leave(replace(run, ended_at=now if run.ended else None), lines, now=now)
        if run.ended:
            withdraw(tx, self.breakpoints, run)
            return False
        if run.state is RunState.QUEUED:
            return False
        return any(_has_come(step, run.updated_at, now) for step in tx[Runs].open_steps(run.id))

    async def content(self, run: Run, path: str) -> bytes:
        return await self.database.read(lambda tx: tx[Runs].content(run.id, path, project=run.project))

    def now(self) -> int:
        return self.clock.now()


_OVER = frozenset({StepState.DONE, StepState.FAILED})
_ENDING = {StepKind.BREAKPOINT: "answered", StepKind.SLEEP: "woken"}


def _has_come(step: Step, since: int, now: int) -> bool:
    """Return whether an event for the step has arrived since its run was claimed."""
    if step.state is StepState.ANSWERED:
        return True
    if step.kind is StepKind.BREAKPOINT:
        return step.state is StepState.WAITING and step.due_at is not None
    # The process has already seen results from before the claim; a step that it no longer reaches keeps its state.
    return step.state in {StepState.RETRYING, StepState.WAITING} and since < step.outcome <= now


def _short(step: Step) -> dict[str, Any]:
    if step.kind is not StepKind.BREAKPOINT:
        return {}
    result: Mapping[str, Any] = step.outcome or {}
    told = {name: result.get(name) for name in ("status", "decision", "respondedBy", "auto")}
    return {"breakpointId": step.breakpoint_id} | {name: value for name, value in told.items() if value is not None}
