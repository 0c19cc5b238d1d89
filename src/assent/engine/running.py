"""Goes on with runs: takes one up, plays a stretch of it, lets it go; user code gets a loop and threads of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from assent.domain.instants import SECOND
from assent.domain.runs import Line, Run, RunState, Superseded
from assent.engine.rundir import RunFolder
from assent.engine.segments import Segment, Stretch
from assent.ports import ProcessRegistry, RunDesk, Taken

HOLD_SECONDS = 8.0
UNKNOWN_SECONDS = 15.0
THREADS = 32
NO_TURN = -1
LEAVING_SECONDS = 5.0
_log = structlog.get_logger()


class Runner:
    """What a worker does for an `advance` job."""

    def __init__(self, desk: RunDesk, registry: ProcessRegistry, folder: Path) -> None:
        self._desk = desk
        self._registry = registry
        self._folder = folder
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: dict[str, Run] = {}
        """Those that are ours; also those in whose turn the database failed us, which nobody else can know."""

    async def advance(self, payload: Mapping[str, Any]) -> None:
        """Go on with a run for as long as there is something to do."""
        run_id: str = payload["run_id"]
        while taken := await self._desk.take(run_id, mine=self._turn_of(run_id)):
            self._held[run_id] = taken.run
            try:
                again = await self._stretch(taken)
            except Superseded:
                again = False
            self._held.pop(run_id, None)
            if not again:
                return

    def _turn_of(self, run_id: str) -> int:
        held = self._held.get(run_id)
        return held.turn if held is not None else NO_TURN

    async def _stretch(self, taken: Taken) -> bool:
        """Play one stretch; True when the run can go on at once."""
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
                holding.result()  # raises why the run is not ours any more
            stretch, lines = playing.result()
        finally:
            playing.cancel()
            holding.cancel()
            await asyncio.wait({holding})
        run = replace(taken.run, state=stretch.state, output=stretch.output, error=stretch.error, due_at=None)
        return await self._desk.leave(replace(run, version=found.version), [*changed, *lines, *_last_line(stretch)])

    async def _play(self, taken: Taken, function: Any) -> tuple[Stretch, list[Line]]:  # noqa: ANN401  # the process
        folder = RunFolder(self._folder / taken.run.id, taken.files, lambda path: self._desk.content(taken.run, path))
        await folder.restore()
        segment = Segment(taken, self._desk, folder)
        stretch = await segment.play(function)
        return stretch, segment.take_lines()

    async def _keep_hold(self, run: Run) -> None:
        """Say again and again that we are at it, whatever the process does meanwhile."""
        while True:
            await asyncio.sleep(HOLD_SECONDS)
            await self._desk.hold(run)

    async def _unknown(self, run: Run) -> bool:
        """Leave it to a node that knows the process, or to later."""
        _log.warning("process_unknown", run=run.id, process=run.process)
        error = {"type": "ProcessUnknown", "message": f"No node that was asked knows the process {run.process!r}."}
        later = self._desk.now() + round(UNKNOWN_SECONDS * SECOND)
        return await self._desk.leave(replace(run, state=RunState.QUEUED, error=error, due_at=later), [])

    def _theirs(self) -> asyncio.AbstractEventLoop:
        """The loop of the processes: one that does not return holds up its like, and not the server."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_turn, args=(self._loop,), name="assent-runs", daemon=True)
            self._thread.start()
        return self._loop

    async def stop(self) -> None:
        """Leave what is being run where it is: whoever takes it up next, which may be at once, goes on from there."""
        for run in self._held.values():
            with contextlib.suppress(Superseded):
                await self._desk.leave(replace(run, state=RunState.QUEUED, due_at=self._desk.now()), [])
        if self._loop is not None:
            loop, self._loop = self._loop, None
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(self._thread.join, LEAVING_SECONDS)


async def _leave_all() -> None:
    left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    """Turn the loop of the processes until it is stopped, and leave nothing open."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="assent-task")
    loop.set_default_executor(threads)
    loop.run_forever()
    loop.run_until_complete(_leave_all())
    threads.shutdown(wait=False, cancel_futures=True)
    loop.close()


def _last_line(stretch: Stretch) -> list[Line]:
    if stretch.state is RunState.DONE:
        return [Line("done")]
    if stretch.state is RunState.FAILED:
        return [Line("failed", data={"error": stretch.error})]
    return []
