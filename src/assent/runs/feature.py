"""Runs: durable executions of process functions."""

import asyncio
from functools import partial

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.platform.due_jobs import DueJob
from assent.platform.registry import Registry
from assent.runs.processes import FolderOfProcesses
from assent.runs.runner import Runner
from assent.runs.store import JOB, SELECT_NEXT_DUE
from assent.runs.usecases.leases import Desk
from assent.runs.usecases.runs import WAKE_BATCH, RunService

PROCESSES_SECONDS = 1.0


def register(node: Registry) -> None:
    lifecycle = node[BreakpointService]
    service = node.add(RunService(lifecycle))
    processes = node.add(FolderOfProcesses(node.settings.process_folder))
    runner = node.add(Runner(Desk(node.database, lifecycle, node.clock), processes, node.settings.data_dir / "runs"))
    node.due_jobs.append(DueJob("runs", service.wake_due, batch=WAKE_BATCH, next_due=SELECT_NEXT_DUE))
    node.handlers[JOB] = runner.advance
    node.loops.append(partial(_load_processes, node, processes))
    # With SQLite, only one server process executes runs, so no run can still be active when that process starts.
    if node.database.dialect == "sqlite":
        node.before_worker.append(partial(node.database.write, service.abandon))
    node.on_stop.append(runner.stop)


async def _load_processes(node: Registry, processes: FolderOfProcesses) -> None:
    """Load changed processes in a thread, so that a run does not have to wait until its process is loaded."""
    while True:
        with node.patient("processes"):
            await asyncio.to_thread(processes.every)
        await asyncio.sleep(PROCESSES_SECONDS)
