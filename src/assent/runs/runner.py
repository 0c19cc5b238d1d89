"""Executes runs: claims, replays and releases them. User code runs in a separate event loop and separate threads."""

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from assent.core.errors import Unavailable
from assent.core.plurals import plural
from assent.core.timestamps import SECOND
from assent.runs.model import Line, Run, RunState, Superseded
from assent.runs.ports import ProcessRegistry, RunDesk, Taken
from assent.runs.replay import Segment, Stretch
from assent.runs.workspace import RunFolder

HOLD_SECONDS = 8.0
UNKNOWN_SECONDS = 15.0
THREADS = 32
NO_TURN = -1
LEAVING_SECONDS = 5.0
MOST_STARTS = 20
"""The maximum number of claims without progress."""
_log = structlog.get_logger()


class Runner:
    """Handles `advance` jobs."""

    def __init__(self, desk: RunDesk, registry: ProcessRegistry, folder: Path) -> None:
        self._desk = desk
        self._registry = registry
        self._folder = folder
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[str, Run] = {}
        self._lost: dict[str, Run] = {}
        """Runs whose replay failed, for example because of a database error. This worker still holds their claims, but
        is not executing them.
        """

    async def advance(self, payload: Mapping[str, Any]) -> None:
        """Advance a run until it ends or has to wait."""
        run_id: str = payload["run_id"]
        while taken := await self._desk.take(run_id, mine=self._turn_lost(run_id)):
            if not await self._turned(taken):
                return
        self._lost.pop(run_id, None)

    async def _turned(self, taken: Taken) -> bool:
        run = taken.run
        self._lost.pop(run.id, None)
        self._held[run.id] = run
        try:
            return await self._stretch(taken)
        except Superseded:
            return False
        except BaseException:
            self._lost[run.id] = run
            raise
        finally:
            # Another job may have claimed the run again in the meantime.
            if self._held.get(run.id) is run:
                del self._held[run.id]

    def _turn_lost(self, run_id: str) -> int:
        """Return the turn of a lost run, unless another job is replaying the run on this node."""
        lost = self._lost.get(run_id) if run_id not in self._held else None
        return lost.turn if lost is not None else NO_TURN

    async def _stretch(self, taken: Taken) -> bool:
        """Replay the run once; return True if it can continue immediately."""
        if taken.run.starts > MOST_STARTS:
            return await self._given_up(taken.run)
        found = await asyncio.to_thread(self._registry.find, taken.run.process)
        if found is None or found.process is None:
            return await self._unknown(taken.run)
        same = found.version == taken.run.version
        changed = [] if same else [Line("process_changed", data={"version": found.version})]
        playing: asyncio.Future[tuple[Stretch, list[Line]]] = asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._play(taken, found.process.function), self._theirs())
        )
        holding = asyncio.create_task(self._keep_hold(taken.run))
        try:
            both: set[asyncio.Future[Any]] = {playing, holding}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                playing.cancel()
                holding.result()  # raises the reason why this worker lost the run
            stretch, lines = playing.result()
        finally:
            playing.cancel()
            holding.cancel()
            await asyncio.wait({holding})
        run = replace(taken.run, state=stretch.state, output=stretch.output, error=stretch.error, due_at=None)
        return await self._desk.leave(replace(run, version=found.version), [*changed, *lines, *_last_line(stretch)])

    async def _play(self, taken: Taken, function: Any) -> tuple[Stretch, list[Line]]:  # noqa: ANN401  # any process function
        folder = RunFolder(self._folder / taken.run.id, taken.files, lambda path: self._desk.content(taken.run, path))
        await folder.restore()
        segment = Segment(taken, self._desk, folder)
        stretch = await segment.play(function)
        return stretch, segment.take_lines()

    async def _keep_hold(self, run: Run) -> None:
        """Renew the lease on a run, regardless of what its process is doing."""
        while True:
            await asyncio.sleep(HOLD_SECONDS)
            await self._desk.hold(run)

    async def _unknown(self, run: Run) -> bool:
        """Release the run for a node that has the process, or for a later attempt."""
        _log.warning("process_unknown", run=run.id, process=run.process)
        error = {"type": "ProcessUnknown", "message": f"No active node provides the process {run.process!r}."}
        later = self._desk.now() + round(UNKNOWN_SECONDS * SECOND)
        return await self._desk.leave(replace(run, state=RunState.QUEUED, error=error, due_at=later), [])

    async def _given_up(self, run: Run) -> bool:
        """Fail a run that crashes its worker on every attempt, or whose results can never be stored."""
        message = f"The run was started {plural(run.starts - 1, 'time')} without making progress. See the server log."
        stretch = Stretch(RunState.FAILED, error={"type": "Abandoned", "message": message})
        return await self._desk.leave(replace(run, state=stretch.state, error=stretch.error), _last_line(stretch))

    def _theirs(self) -> asyncio.AbstractEventLoop:
        """Return the event loop for processes. A process that blocks it delays other processes, but not the server."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_turn, args=(self._loop,), name="assent-runs", daemon=True)
            self._thread.start()
        return self._loop

    async def stop(self) -> None:
        """Release the active runs, so that other workers can claim and continue them immediately."""
        for run in [*self._lost.values(), *self._held.values()]:
            with contextlib.suppress(Superseded, Unavailable):
                await self._desk.leave(replace(run, state=RunState.QUEUED, due_at=self._desk.now()), [])
        if self._loop is not None:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(self._thread.join, LEAVING_SECONDS)


async def _leave_all() -> None:
    left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left, timeout=LEAVING_SECONDS)


def _stopped(loop: asyncio.AbstractEventLoop) -> bool:
    """Run the loop; return False if a process raised SystemExit or KeyboardInterrupt, which must not end the server."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):
        return False
    return True


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    """Run the event loop for processes until it is stopped, then close it and its threads."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="assent-task")
    loop.set_default_executor(threads)
    while not _stopped(loop):
        _log.warning("process_called_exit")
    loop.run_until_complete(_leave_all())
    # User code in threads cannot be interrupted, and must not delay the shutdown.
    threads.shutdown(wait=False, cancel_futures=True)
    loop.close()


def _last_line(stretch: Stretch) -> list[Line]:
    if stretch.state is RunState.DONE:
        return [Line("done")]
    if stretch.state is RunState.FAILED:
        return [Line("failed", data={"error": stretch.error})]
    return []
