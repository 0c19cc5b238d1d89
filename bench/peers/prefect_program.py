"""Prefect: a flow run that pauses and a client that resumes it, through a Prefect server on this machine."""

import asyncio
import time
from importlib.metadata import version
from uuid import UUID

from prefect import flow  # type: ignore[import-not-found]  # installed only in this peer's environment
from prefect.client.orchestration import get_client  # type: ignore[import-not-found]
from prefect.context import get_run_context  # type: ignore[import-not-found]
from prefect.flow_runs import apause_flow_run, aresume_flow_run  # type: ignore[import-not-found]

from bench.peers import cycles

LOOK = 0.02
"""Seconds between checks for the pause: the server rejects resuming a run before it has recorded the pause."""


@flow  # type: ignore[untyped-decorator]
async def agent(started: "asyncio.Future[UUID]", poll: float) -> float:
    started.set_result(get_run_context().flow_run.id)
    await apause_flow_run(timeout=120, poll_interval=poll)
    return time.perf_counter()


async def _paused(run_id: UUID) -> None:
    async with get_client() as client:
        while True:
            state = (await client.read_flow_run(run_id)).state
            if state is not None and state.is_paused():
                return
            await asyncio.sleep(LOOK)


async def main() -> None:
    plan = cycles.given()

    async def cycle(pause: float) -> float:
        began = time.perf_counter()
        run_id: asyncio.Future[UUID] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(agent(run_id, plan.poll))
        await _paused(await run_id)
        asking = time.perf_counter() - began
        await asyncio.sleep(pause)
        released = time.perf_counter()
        await aresume_flow_run(run_id.result())
        resumed: float = await running
        return asking + resumed - released

    await cycles.in_tasks(plan, cycle, version("prefect"))


if __name__ == "__main__":
    asyncio.run(main())
