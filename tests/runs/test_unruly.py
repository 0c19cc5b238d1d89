"""Misbehaving processes: their runs end, and other runs are not affected."""

from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import Works

WELL = "@process\nasync def well(inputs, ctx):\n    return await ctx.task(len, 'abc')\n"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("await ctx.task(sys.exit, 3)", "SystemExit"),
        ("await ctx.task(leaves)", "SystemExit"),
        ("await ctx.gather(leaves())", "SystemExit"),
        ("await asyncio.gather(leaves(), asyncio.sleep(60))", "SystemExit"),
        ("await ctx.task(gives_up)", "CancelledError"),
        ("await ctx.task(deep, 0)", "RecursionError"),
        ("await ctx.task(open, b'/no/\\xff')", "FileNotFoundError"),
        ("raise ValueError('\\udcff')", "ValueError"),
        ("await ctx.sleep(1e300)", "OverflowError"),
        ("await ctx.task(task(name='a\\x00b')(open), 'no such file')", "FileNotFoundError"),
        ("ctx.log('\\udcff', {'a': '\\udcff'}); raise NoText", "NoText"),
    ],
)
async def test_an_unusual_failure_does_not_affect_the_next_run(works: Works, does: str, said: str) -> None:
    works.write("well", WELL)
    works.write(
        "unruly",
        f"""
        import sys

        async def leaves():
            sys.exit("goodbye")

        async def gives_up():
            raise asyncio.CancelledError

        class NoText(Exception):
            def __str__(self):
                raise TypeError

        def deep(n):
            return deep(n + 1)

        @process
        async def unruly(inputs, ctx):
            {does}
        """,
    )
    failed = await works.ended(await works.start("unruly"))
    assert (failed["state"], failed["error"]["type"]) == ("failed", said)
    assert (await works.ended(await works.start("well")))["output"] == 3


async def test_a_process_that_catches_every_exception_does_not_block_others(works: Works) -> None:
    works.write("well", WELL)
    works.write(
        "clinging",
        """
        @process
        async def clinging(inputs, ctx):
            while True:
                try:
                    return (await ctx.breakpoint("Well?")).approved
                except BaseException:
                    pass
        """,
    )
    run_id = await works.start("clinging")
    (step,) = await works.asked(run_id)
    assert (await works.ended(await works.start("well")))["output"] == 3
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True


async def test_a_paused_run_leaves_no_tasks_in_memory(works: Works, tmp_path: Path) -> None:
    works.write(
        "strays",
        f"""
        async def stray(ctx):
            try:
                await ctx.sleep(3000)
            finally:
                with open({str(tmp_path / "left")!r}, "a") as file:
                    file.write("x")

        @process
        async def strays(inputs, ctx):
            left = asyncio.create_task(stray(ctx))
            return (await ctx.breakpoint("Well?")).approved
        """,
    )
    run_id = await works.start("strays")
    (step,) = await works.asked(run_id)
    await works.until(run_id, lambda run: run["state"] == "suspended")
    assert (tmp_path / "left").read_text() == "x"
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True


@pytest.mark.parametrize("value", [2**70, -(2**70), 2**63, 1.5, 1e22, {"a": [None, True, {"b": "\x00 ü"}]}])
async def test_a_task_result_is_the_same_after_a_pause(works: Works, value: Any) -> None:
    works.write(
        "same",
        f"""
        def make():
            return {value!r}

        @process
        async def same(inputs, ctx):
            made = await ctx.task(make)
            noted = await ctx.task(repr, repr(made))
            await ctx.sleep(0.01)
            await ctx.breakpoint("On?")
            return [noted == repr(repr(made)), made]
        """,
    )
    run_id = await works.start("same")
    (step,) = await works.asked(run_id)
    await works.answer(step)
    done = await works.ended(run_id)
    assert (done["state"], done["output"]) == ("done", [True, value]), done


async def test_a_run_continues_after_concurrent_steps(works: Works) -> None:
    works.write(
        "after",
        """
        def add(*numbers):
            return sum(numbers)

        async def inner(ctx, n):
            both = await ctx.gather(ctx.task(add, n, 1), ctx.task(add, n, 2))
            return await ctx.task(add, *both)

        @process
        async def after(inputs, ctx):
            found = await ctx.gather(inner(ctx, 1), inner(ctx, 2))
            again = await ctx.gather()
            total = await ctx.task(add, *found, *again)
            await asyncio.sleep(0)
            review = await ctx.breakpoint(f"{total}?")
            found = await ctx.gather(inner(ctx, 3), ctx.task(add, 1))
            return [total, review.approved, await ctx.task(add, *found)]
        """,
    )
    run_id = await works.start("after")
    (step,) = await works.asked(run_id)
    await works.answer(step)
    assert (await works.ended(run_id))["output"] == [12, True, 10]


async def test_an_answer_does_not_restart_a_task_that_is_running(works: Works, tmp_path: Path) -> None:
    works.write(
        "beside",
        f"""
        def build():
            import time
            with open({str(tmp_path / "begun")!r}, "a") as file:
                file.write("x")
            while not Path({str(tmp_path / "go")!r}).exists():
                time.sleep(0.01)

        @process
        async def beside(inputs, ctx):
            both = await ctx.gather(ctx.task(build), ctx.breakpoint("Meanwhile?"))
            return both[1].approved
        """,
    )
    run_id = await works.start("beside")
    (step,) = await works.asked(run_id)
    await works.answer(step)
    # Wait until the job for the answer has finished and left the run to the worker that is executing it.
    while await _jobs(works, run_id) > 1:
        pass
    (tmp_path / "go").touch()
    assert (await works.ended(run_id))["output"] is True
    assert (tmp_path / "begun").read_text() == "x"
    assert (await works.types(run_id)).count("task_started") == 1


async def _jobs(works: Works, run_id: str) -> int:
    """Return the number of unfinished jobs for this run."""
    database = works.node.assent.database
    schema = "dbos." if database.dialect == "postgresql" else ""
    found = await database.fetch_page(f"SELECT workflow_uuid, status FROM {schema}workflow_status", {})
    return sum(run_id in job and status in {"ENQUEUED", "PENDING"} for job, status in found)


async def test_a_run_that_raises_a_different_exception_for_a_failed_task_can_be_retried(
    works: Works, tmp_path: Path
) -> None:
    works.write(
        "worded",
        f"""
        def needs():
            return Path({str(tmp_path / "there")!r}).read_text()

        @process
        async def worded(inputs, ctx):
            try:
                return await ctx.task(needs)
            except TaskFailed as error:
                raise RuntimeError("It could not be read.") from error
        """,
    )
    run_id = await works.start("worded")
    assert (await works.ended(run_id))["error"]["message"] == "It could not be read."
    (tmp_path / "there").write_text("now")
    assert (await works.node.call("POST", f"/api/runs/{run_id}/retry", works.agent)).status_code == 200
    assert (await works.until(run_id, lambda run: run["state"] == "done"))["output"] == "now"


async def test_only_branches_that_ignore_their_result_are_recorded_as_unread(works: Works) -> None:
    works.write(
        "branches",
        """
        async def looked_at(ctx, name):
            answer = await ctx.breakpoint(name)
            await asyncio.sleep(0)
            return answer.approved

        @process
        async def branches(inputs, ctx):
            await ctx.gather(looked_at(ctx, "a"), looked_at(ctx, "b"), ctx.breakpoint("c"))
            ctx.log("on")
        """,
    )
    run_id = await works.start("branches")
    for step in await works.asked(run_id, 3):
        await works.answer(step, approved=False)
    await works.ended(run_id)
    assert [line["path"] for line in await works.journal(run_id) if line["type"] == "unseen"] == ["1.2.1"]
