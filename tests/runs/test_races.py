"""Concurrency: answers, cancellations and retries that arrive while a worker executes a segment."""

import asyncio
from typing import Any

from tests.runs.conftest import Works, waiting

MANY = 8


async def test_no_answer_is_lost_when_many_arrive_at_once(works: Works) -> None:
    works.write(
        "many",
        """
        async def asked(ctx, n):
            first = await ctx.breakpoint(f"First {n}?")
            second = await ctx.breakpoint(f"Second {n}?")
            return [first.approved, second.approved]

        @process
        async def many(inputs, ctx):
            return await ctx.gather(*(asked(ctx, n) for n in range(3)))
        """,
    )

    async def follow(run_id: str) -> dict[str, Any]:
        while (run := await works.get(run_id))["state"] not in {"done", "failed", "cancelled"}:
            answers = [
                works.node.feedback(each["breakpointId"], works.reviewer, approved=True) for each in waiting(run)
            ]
            await asyncio.gather(*answers)
            await asyncio.sleep(0.01)
        return run

    runs = await asyncio.gather(*(works.start("many") for _ in range(MANY)))
    async with asyncio.timeout(100):
        ended = await asyncio.gather(*map(follow, runs))
    assert [run["output"] for run in ended] == [[[True, True]] * 3] * MANY
    for run_id in runs:
        types = await works.types(run_id)
        assert (types.count("asked"), types.count("answered"), types.count("done")) == (6, 6, 1)


async def test_a_run_is_either_cancelled_or_done_and_leaves_no_breakpoint_pending(works: Works) -> None:
    works.write(
        "either",
        """
        @process
        async def either(inputs, ctx):
            first = await ctx.breakpoint("First?")
            await ctx.task(len, "abc")
            return first.approved
        """,
    )
    runs = await asyncio.gather(*(works.start("either") for _ in range(MANY)))
    steps = [(await works.asked(run_id))[0] for run_id in runs]

    async def both(run_id: str, step: dict[str, Any]) -> tuple[int, int]:
        answer, cancel = await asyncio.gather(
            works.node.feedback(step["breakpointId"], works.reviewer, approved=True),
            works.node.call("POST", f"/api/runs/{run_id}/cancel", works.agent),
        )
        return answer.status_code, cancel.status_code

    codes = await asyncio.gather(*(both(*each) for each in zip(runs, steps, strict=True)))
    assert {answered for answered, _ in codes} <= {200, 409}
    for run_id, step, (_, cancelled) in zip(runs, steps, codes, strict=True):
        run = await works.ended(run_id)
        assert run["state"] == ("cancelled" if cancelled == 200 else "done")
        asked = await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)
        assert asked.json()["status"] in {"released", "cancelled"}


async def test_every_accepted_retry_is_recorded_exactly_once(works: Works) -> None:
    works.write("failing", "@process\nasync def failing(inputs, ctx):\n    await ctx.task(int, 'x')\n")
    run_id = await works.start("failing")
    await works.ended(run_id)
    verbs = ["retry", "cancel", "retry", "retry"]
    calls = (works.node.call("POST", f"/api/runs/{run_id}/{verb}", works.agent) for verb in verbs)
    codes = [answer.status_code for answer in await asyncio.gather(*calls)]
    assert set(codes) <= {200, 409}
    run = await works.ended(run_id)
    types = await works.types(run_id)
    assert types.count("retried") == [code for verb, code in zip(verbs, codes, strict=True) if verb == "retry"].count(
        200
    )
    assert types.count("failed") == types.count("retried") + (1 if run["state"] == "failed" else 0)


async def test_asyncio_task_groups_work_when_they_await_only_ctx_calls(works: Works) -> None:
    works.write(
        "raw",
        """
        async def asked(ctx, n):
            answer = await ctx.breakpoint(f"Number {n}?")
            return [answer.approved, await ctx.task(str, n)]

        @process
        async def raw(inputs, ctx):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asked(ctx, n)) for n in range(2)]
            return [each.result() for each in tasks] + await asyncio.gather(ctx.task(len, "ab"), ctx.task(len, "abc"))
        """,
    )
    run_id = await works.start("raw")
    for step in await works.asked(run_id, 2):
        await works.answer(step)
    assert (await works.ended(run_id))["output"] == [[True, "0"], [True, "1"], 2, 3]


async def test_a_run_is_limited_by_the_token_that_started_it(works: Works) -> None:
    works.agent = await works.node.token("agent", gates=("safe.*",), processes=("limited",))
    works.write(
        "limited",
        """
        @process
        async def limited(inputs, ctx):
            return (await ctx.breakpoint("Well?", breakpoint_id=inputs)).approved
        """,
    )
    failed = await works.ended(await works.start("limited", "prod.deploy"))
    assert (failed["state"], failed["error"]["type"]) == ("failed", "Forbidden")
    await works.asked(await works.start("limited", "safe.one"))


async def test_a_missing_file_fails_the_run_but_not_the_worker(works: Works) -> None:
    works.write(
        "absent",
        """
        @process
        async def absent(inputs, ctx):
            await ctx.breakpoint("Well?", files=[inputs])
        """,
    )
    for wanted in ({"path": "a", "sha256": "0" * 64}, {"path": "../a"}, {"format": "text"}):
        failed = await works.ended(await works.start("absent", wanted))
        assert failed["state"] == "failed", wanted
