"""Every event for a run is processed, no run is woken endlessly, and only the current worker can write."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.platform.worker import CONCURRENCY
from assent.runs.model import Line, RunState, Step, StepKind, StepState, Superseded
from assent.runs.runner import MOST_STARTS
from assent.runs.store import SELECT_NEXT_DUE, Runs
from assent.runs.usecases.leases import Desk
from tests.runs.conftest import Works
from tests.support.nodes import running_node

ASKING = "@process\nasync def asking(inputs, ctx):\n    return (await ctx.breakpoint('Well?')).approved\n"


async def _rows(works: Works, statement: str) -> list[Any]:
    return list(await works.node.assent.database.fetch(statement, {}))


def _desk(works: Works) -> Desk:
    assent = works.node.assent
    return Desk(assent.database, assent[BreakpointService], assent.clock)


async def _wake_all(works: Works, *, after: int) -> int:
    """Wake all runs that will be due after this delay, as the scheduler would."""

    def use_case(tx: Transaction) -> int:
        return tx[Runs].wake_due(tx.now() + after, limit=1000)

    return await works.node.assent.database.write(use_case)


@pytest.mark.parametrize("end", ["cancel", "fail", "finish"])
async def test_an_ended_run_is_never_woken(works: Works, end: str) -> None:
    works.write(
        "ending",
        """
        @task(retries=9, backoff=3000)
        def flaky():
            raise ValueError

        def bad(how):
            if how == "fail":
                raise ValueError

        async def ends(ctx, how):
            await ctx.task(bad, how)
            await ctx.breakpoint("End?")
            return how

        @process
        async def ending(inputs, ctx):
            await ctx.sleep(0)
            branches = [ctx.breakpoint("Open?"), ctx.sleep(3000), ctx.task(flaky)]
            left = [asyncio.create_task(each) for each in branches]
            await ends(ctx, inputs)
        """,
    )
    run_id = await works.start("ending", end)
    if end != "fail":
        steps = await works.asked(run_id, 2)
        if end == "finish":
            await works.answer(next(each for each in steps if each["name"].startswith("end")))
        else:
            await works.until(run_id, lambda run: run["state"] == "suspended")
            assert (await works.node.call("POST", f"/api/runs/{run_id}/cancel", works.agent)).status_code == 200
    await works.ended(run_id)
    await _wake_all(works, after=4000 * 1_000_000)
    assert await _wake_all(works, after=9000 * 1_000_000) == 0
    assert await _rows(works, SELECT_NEXT_DUE) == []


async def test_recording_a_comment_does_not_discard_an_answer(works: Works) -> None:
    works.write("asking", ASKING)
    run_id = await works.start("asking")
    (step,) = await works.asked(run_id)
    await works.until(run_id, lambda run: run["state"] == "suspended")

    def use_case(tx: Transaction) -> StepState:
        (stale,) = tx[Runs].steps(run_id)
        tx[Runs].answered([step["breakpointId"]], now=tx.now())
        tx[Runs].heard(run_id, replace(stale, heard=1))
        (after,) = tx[Runs].steps(run_id)
        assert after.heard == 1
        return after.state

    assert await works.node.assent.database.write(use_case) is StepState.ANSWERED


async def test_a_comment_that_arrives_during_the_reply_to_another_is_processed(works: Works, tmp_path: Path) -> None:
    works.write(
        "hearing",
        f"""
        async def reply(said):
            Path({str(tmp_path)!r}, said.comment).touch()
            while said.comment == "first" and not Path({str(tmp_path / "go")!r}).exists():
                await asyncio.sleep(0.01)

        @process
        async def hearing(inputs, ctx):
            return (await ctx.breakpoint("Well?", on_comment=reply)).approved
        """,
    )
    run_id = await works.start("hearing")
    (step,) = await works.asked(run_id)
    await works.node.feedback(step["breakpointId"], works.reviewer, comment="first")
    await _appears(tmp_path / "first")
    await works.node.feedback(step["breakpointId"], works.reviewer, comment="second")
    (tmp_path / "go").touch()
    await _appears(tmp_path / "second")
    await works.until(run_id, lambda run: run["state"] == "suspended")
    rows = await _rows(works, "SELECT due_at FROM assent_run_steps")
    assert rows[0][0] is None
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True


async def _appears(path: Path) -> None:
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110  # a new file does not send a notification
            await asyncio.sleep(0.01)


async def test_a_run_that_never_makes_progress_fails_as_abandoned(works: Works) -> None:
    works.write("asking", ASKING)
    run_id = await works.start("asking")
    (step,) = await works.asked(run_id)
    await works.until(run_id, lambda run: run["state"] == "suspended")
    desk = _desk(works)
    turn = -1
    for _ in range(MOST_STARTS):
        taken = await desk.take(run_id, mine=turn)
        assert taken is not None
        turn = taken.run.turn
    await works.node.assent.database.write(lambda tx: tx[Runs].abandon(now=tx.now()))
    failed = await works.ended(run_id)
    assert (failed["state"], failed["error"]["type"]) == ("failed", "Abandoned")
    asked = await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)
    assert asked.json()["status"] == "cancelled"


async def test_only_the_latest_worker_of_a_run_can_write(works: Works) -> None:
    works.write("asking", ASKING)
    run_id = await works.start("asking")
    await works.asked(run_id)
    await works.until(run_id, lambda run: run["state"] == "suspended")
    desk = _desk(works)
    found = await asyncio.gather(*(desk.take(run_id, mine=-1) for _ in range(8)))
    first = [each for each in found if each is not None]
    assert len(first) == 1
    again = await desk.take(run_id, mine=first[0].run.turn)
    assert again is not None
    old = first[0].run
    step = Step(path="9", kind=StepKind.TASK, name="x", fingerprint=None, state=StepState.RUNNING)
    for late in (
        desk.hold(old),
        desk.record(old, step, [Line("task_started")], {"x": b"y"}),
        desk.ask(old, step, {"agentId": "a", "payload": {"question": "Late?"}}, []),
        desk.leave(replace(old, state=RunState.DONE), []),
    ):
        with pytest.raises(Superseded):
            await late
    assert [each["path"] for each in (await works.get(run_id))["steps"]] == ["1"]
    assert await _rows(works, "SELECT sha256 FROM assent_files") == []


async def test_long_tasks_do_not_block_other_jobs(settings: Settings, tmp_path: Path) -> None:
    async with running_node(settings, worker=True) as node:
        works = Works(node, settings, await node.token("agent"), await node.token("reviewer"))
        works.write(
            "long",
            f"""
            async def build():
                while not Path({str(tmp_path / "go")!r}).exists():
                    await asyncio.sleep(0.01)

            @process
            async def long(inputs, ctx):
                await ctx.task(build)
            """,
        )
        ids = [await works.start("long") for _ in range(CONCURRENCY)]
        for run_id in ids:
            await works.until(run_id, lambda run: run["steps"])
        done = asyncio.Event()

        async def probe(_: Mapping[str, Any]) -> None:
            done.set()

        assert node.assent.worker is not None
        node.assent.worker.handlers["probe"] = probe
        await node.assent.database.write(lambda tx: tx.enqueue("probe", key="one", payload={}))
        async with asyncio.timeout(30):
            await done.wait()
        (tmp_path / "go").touch()
        assert {(await works.ended(run_id))["state"] for run_id in ids} == {"done"}
