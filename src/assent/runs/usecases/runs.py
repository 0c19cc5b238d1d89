"""Starts, reads, cancels and retries runs, and wakes those that are due."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assent.breakpoints.store.idempotency import Idempotency
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.access import Kind, Permission, Principal, Role
from assent.core.canonical import Json
from assent.core.errors import AlreadyEnded, Conflict, Forbidden, NotFound
from assent.core.patterns.globs import glob_matches
from assent.db.transaction import Transaction
from assent.people.store.projects import Projects
from assent.platform.admin_log import AdminLog
from assent.runs.model import Cause, Line, Run, RunFile, RunState, Step, StepKind, StepState, Written, in_order
from assent.runs.store import HEAL, Runs

WAKE_BATCH = 200


@dataclass(frozen=True, slots=True)
class NewRun:
    process: str
    version: str
    inputs: Json
    agent_id: str
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class WholeRun:
    run: Run
    steps: Sequence[Step]
    files: Sequence[RunFile]


class RunService:
    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def start(self, tx: Transaction, new: NewRun, *, by: Principal, once: Once | None) -> Run:
        """Queue a new run for a worker; repeating an idempotency key does not start another run."""
        by.require(Permission.CREATE)
        if not any(glob_matches(pattern, new.agent_id) for pattern in by.agent_ids):
            msg = f"This token cannot act for agent {new.agent_id!r}; it is limited to {', '.join(by.agent_ids)}."
            raise Forbidden(msg)
        by.require_starts(new.process)
        tx[Projects].get_open(by.project)
        now = tx.now()
        run = Run(
            id=tx.new_id("run"),
            project=by.project,
            process=new.process,
            version=new.version,
            state=RunState.QUEUED,
            inputs=new.inputs,
            agent_id=new.agent_id,
            started_by=str(by.actor),
            principal=by,
            lines=1,
            created_at=now,
            updated_at=now,
            # If the job is lost, `wake_due` queues the run again at this time.
            due_at=now + HEAL,
            cause=new.cause,
        )
        if once is not None:
            claimed = tx[Idempotency].claim(
                by.id, once.key, fingerprint=once.fingerprint, breakpoint_id=run.id, now=now
            )
            if claimed is not None:
                return self._visible(tx, claimed, by)
        tx[Runs].add(run)
        why = {"event": new.cause.event_id} if new.cause is not None else {}
        line = Line("started", data={"by": run.started_by, "process": new.process, **why})
        tx[Runs].first_line(run.id, line, now=now)
        tx[Runs].enqueue(run.id, "turn:0")
        return run

    def get(self, tx: Transaction, run_id: str, *, by: Principal) -> WholeRun:
        run = self._visible(tx, run_id, by)
        return WholeRun(run, in_order(tx[Runs].steps(run_id)), tx[Runs].files(run_id))

    def page(
        self, tx: Transaction, filters: Mapping[str, str], *, by: Principal, before: str | None, limit: int
    ) -> list[Run]:
        by.require(Permission.READ)
        mine = {"started_by_id": by.id} if by.kind is Kind.AGENT else {}
        return tx[Runs].page(by.project, {**filters, **mine}, before=before, limit=limit)

    def journal(self, tx: Transaction, run_id: str, *, by: Principal, after: int, limit: int) -> list[Written]:
        self._visible(tx, run_id, by)
        return tx[Runs].journal(run_id, after=after, limit=limit)

    def content(self, tx: Transaction, run_id: str, path: str, *, by: Principal) -> bytes:
        self._visible(tx, run_id, by)
        return tx[Runs].content(run_id, path, project=by.project)

    def cancel(self, tx: Transaction, run_id: str, *, by: Principal) -> None:
        """Cancel a run and its pending breakpoints; only the principal that started it and admins can do this."""
        run = self._controlled(tx, run_id, by)
        if not tx[Runs].cancel(run_id, Line("cancelled", data={"by": str(by.actor)}), now=tx.now()):
            msg = f"This run is already {run.state}."
            raise Conflict(msg)
        _record(tx, "run-cancelled", run, "cancelled", by)
        withdraw(tx, self._breakpoints, run)

    def retry(self, tx: Transaction, run_id: str, *, by: Principal) -> None:
        """Resume a failed run from the step that failed; finished steps are not repeated."""
        run = self._controlled(tx, run_id, by)
        by.require_starts(run.process)
        now = tx.now()
        if not tx[Runs].revive(run_id, Line("retried", data={"by": str(by.actor)}), now=now):
            msg = f"This run is {run.state}. Only failed runs can be retried."
            raise Conflict(msg)
        _record(tx, "run-retried", run, "queued", by)
        step = (run.error or {}).get("step")
        if isinstance(step, str):
            # Once the recorded failure is deleted, the replay executes the step again.
            tx[Runs].forget_failure(run_id, step)
        tx[Runs].enqueue(run_id, f"retry:{run.lines}")

    def wake_due(self, tx: Transaction) -> int:
        """Queue runs that are due, and runs that no worker has continued."""
        return tx[Runs].wake_due(tx.now(), limit=WAKE_BATCH)

    def abandon(self, tx: Transaction) -> int:
        """Release all runs when the only server process starts, because none of them can still be running."""
        return tx[Runs].abandon(now=tx.now())

    def _controlled(self, tx: Transaction, run_id: str, by: Principal) -> Run:
        by.require(Permission.CANCEL)
        run = self._visible(tx, run_id, by)
        if not controls(run, by):
            msg = "Only an admin, or the person or agent that started this run, can do this."
            raise Forbidden(msg)
        return run

    def _visible(self, tx: Transaction, run_id: str, by: Principal) -> Run:
        """Return a run; agents can see only their own."""
        by.require(Permission.READ)
        run = tx[Runs].get(run_id, project=by.project)
        if by.kind is Kind.AGENT and run.principal.id != by.id:
            msg = f"Run {run_id} not found in this project."
            raise NotFound(msg)
        return run


def _record(tx: Transaction, act: str, run: Run, state: str, by: Principal) -> None:
    """Record an admin event, unless the principal acts on its own run: the run's journal already records that."""
    if run.principal.id != by.id:
        tx.acting(by)
        before = {"state": run.state.value}
        tx[AdminLog].record(act, f"run:{run.id}", project=by.project, before=before, after={"state": state})


def controls(run: Run, by: Principal) -> bool:
    """Return whether a principal can cancel and retry a run, because it started the run or is an admin."""
    return by.may(Permission.CANCEL) and (run.principal.id == by.id or Role.ADMIN in by.roles)


def withdraw(tx: Transaction, breakpoints: BreakpointService, run: Run) -> None:
    """Cancel the pending breakpoints of a run that has ended."""
    waiting = [
        step.breakpoint_id
        for step in tx[Runs].open_steps(run.id)
        if step.kind is StepKind.BREAKPOINT and step.state is StepState.WAITING and step.breakpoint_id is not None
    ]
    # Sorted, so that concurrent transactions lock breakpoints in the same order and never deadlock.
    for breakpoint_id in sorted(waiting):
        with contextlib.suppress(AlreadyEnded):
            breakpoints.cancel(tx, breakpoint_id, by=run.principal)


def failure(error: BaseException, *, step: str | None = None, trace: str = "") -> dict[str, Any]:
    """Return what the journal stores about an exception."""
    kept = {"type": type(error).__name__, "message": str(error)[:2000], "step": step, "trace": trace[:4000]}
    return {name: value for name, value in kept.items() if value}
