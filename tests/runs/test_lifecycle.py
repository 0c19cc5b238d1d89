"""Runs from start to end: tasks that run only once, pauses that keep no state in memory, and the journal."""

from pathlib import Path

from tests.runs.conftest import Works


async def test_a_run_continues_after_its_breakpoint_is_answered(works: Works) -> None:
    works.write(
        "deploy",
        """
        def build(version):
            return {"image": f"app:{version}"}

        @process
        async def deploy(inputs, ctx):
            "Builds and deploys."
            built = await ctx.task(build, inputs["version"])
            review = await ctx.breakpoint(f"Deploy {built['image']}?", title="Deploy", tags=["prod"])
            if not review.approved:
                return {"deployed": False, "because": review.feedback}
            return {"deployed": built["image"], "by": review.responded_by}
        """,
    )
    first, second = await works.start("deploy", {"version": 7}), await works.start("deploy", {"version": 8})
    for run_id, approved in ((first, True), (second, False)):
        (step,) = await works.asked(run_id)
        suspended = await works.until(run_id, lambda run: run["state"] == "suspended")
        assert suspended["steps"][0]["outcome"]["image"].startswith("app:")
        await works.answer(step, approved=approved, comment="Because.")
    done = await works.ended(first)
    assert done["output"] == {"deployed": "app:7", "by": "owner"}
    assert (await works.ended(second))["output"] == {"deployed": False, "because": "Because."}
    assert await works.types(first) == ["started", "task_started", "task_done", "asked", "answered", "done"]
    listed = (await works.node.call("GET", "/api/runs?process=deploy&state=done", works.agent)).json()
    assert [run["id"] for run in listed["items"]] == [second, first]


async def test_a_finished_task_is_not_repeated_after_a_pause(works: Works, tmp_path: Path) -> None:
    works.write(
        "counting",
        f"""
        def count(name):
            with open({str(tmp_path / "counted")!r}, "a") as file:
                file.write(name)

        @process
        async def counting(inputs, ctx):
            await ctx.task(count, "a")
            await ctx.breakpoint("One?")
            await ctx.task(count, "b")
            await ctx.breakpoint("Two?")
            await ctx.task(count, "c")
        """,
    )
    run_id = await works.start("counting")
    for _ in range(2):
        (step,) = await works.asked(run_id)
        await works.answer(step)
    await works.ended(run_id)
    assert (tmp_path / "counted").read_text() == "abc"


async def test_tasks_and_breakpoints_run_concurrently(works: Works) -> None:
    works.write(
        "side",
        """
        async def double(n):
            await asyncio.sleep(0)
            return 2 * n

        async def asked(ctx, name):
            answer = await ctx.breakpoint(f"{name}?", title=name)
            return [name, answer.approved, await ctx.task(double, len(name))]

        @process
        async def side(inputs, ctx):
            return await ctx.gather(ctx.task(double, 4), asked(ctx, "first"), asked(ctx, "other"))
        """,
    )
    run_id = await works.start("side")
    steps = {step["name"]: step for step in await works.asked(run_id, 2)}
    await works.answer(steps["other"], approved=False)
    await works.until(run_id, lambda run: run["state"] == "suspended" and len(run["steps"]) == 4)
    await works.answer(steps["first"])
    done = await works.ended(run_id)
    assert done["output"] == [8, ["first", True, 10], ["other", False, 10]]
    assert [step["path"] for step in done["steps"]] == ["1.0.1", "1.1.1", "1.1.2", "1.2.1", "1.2.2"]


async def test_a_failing_task_is_retried_until_its_retries_are_exhausted(works: Works, tmp_path: Path) -> None:
    works.write(
        "trying",
        f"""
        @task(retries=2, backoff=0.01)
        def flaky(succeeds_at):
            path = Path({str(tmp_path / "tries")!r})
            tries = len(path.read_text()) + 1 if path.exists() else 1
            path.write_text("x" * tries)
            if tries < succeeds_at:
                raise ValueError(f"try {{tries}}")
            return tries

        @process
        async def trying(inputs, ctx):
            try:
                return await ctx.task(flaky, inputs)
            except TaskFailed as error:
                return [error.details["type"], error.details["message"], error.details["step"]]
        """,
    )
    assert (await works.ended(await works.start("trying", 3)))["output"] == 3
    (tmp_path / "tries").unlink()
    run_id = await works.start("trying", 9)
    assert (await works.ended(run_id))["output"] == ["ValueError", "try 3", "1"]
    assert (await works.types(run_id)).count("task_retried") == 2


async def test_a_task_that_exceeds_its_timeout_fails(works: Works) -> None:
    works.write(
        "slow",
        """
        @task(timeout=0.05)
        async def forever():
            await asyncio.Event().wait()

        @process
        async def slow(inputs, ctx):
            await ctx.task(forever)
        """,
    )
    failed = await works.ended(await works.start("slow"))
    assert failed["state"] == "failed"
    assert failed["error"] | {"trace": []} == {
        "type": "TimeoutError",
        "message": "Timed out after 0.05 s.",
        "step": "1",
        "task": "forever",
        "trace": [],
    }


async def test_a_failed_run_is_retried_from_the_failed_step(works: Works, tmp_path: Path) -> None:
    works.write(
        "mending",
        f"""
        def note(text):
            with open({str(tmp_path / "noted")!r}, "a") as file:
                file.write(text)

        def needs():
            return Path({str(tmp_path / "there")!r}).read_text()

        @process
        async def mending(inputs, ctx):
            await ctx.task(note, "once")
            return await ctx.task(needs)
        """,
    )
    run_id = await works.start("mending")
    failed = await works.ended(run_id)
    assert (failed["state"], failed["error"]["step"]) == ("failed", "2")
    (tmp_path / "there").write_text("now")
    answer = await works.node.call("POST", f"/api/runs/{run_id}/retry", works.agent)
    assert answer.status_code == 200, answer.text
    done = await works.until(run_id, lambda run: run["state"] == "done")
    assert (done["output"], (tmp_path / "noted").read_text()) == ("now", "once")
    again = await works.node.call("POST", f"/api/runs/{run_id}/retry", works.agent)
    assert again.status_code == 409


async def test_cancelling_a_run_cancels_its_breakpoints(works: Works) -> None:
    works.write("asking", "@process\nasync def asking(inputs, ctx):\n    await ctx.breakpoint('Well?')\n")
    run_id = await works.start("asking")
    (step,) = await works.asked(run_id)
    answer = await works.node.call("POST", f"/api/runs/{run_id}/cancel", works.agent)
    assert answer.json()["state"] == "cancelled"
    asked = await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)
    assert asked.json()["status"] == "cancelled"
    assert (await works.node.call("POST", f"/api/runs/{run_id}/cancel", works.agent)).status_code == 409
    assert (await works.types(run_id))[-1] == "cancelled"


async def test_times_and_log_lines_are_stable_across_pauses(works: Works) -> None:
    works.write(
        "times",
        """
        @process
        async def times(inputs, ctx):
            begun = ctx.now()
            ctx.log("begun", {"at": begun})
            await ctx.sleep(0.05)
            await ctx.breakpoint("Now?")
            return [begun.isoformat(), (ctx.now() - begun).total_seconds() > 0.05]
        """,
    )
    run_id = await works.start("times")
    (step,) = await works.asked(run_id)
    await works.answer(step)
    done = await works.ended(run_id)
    assert done["output"][1] is True
    types = await works.types(run_id)
    assert (types.count("log"), types.count("now")) == (1, 2)
    first = next(line for line in await works.journal(run_id) if line["type"] == "now")
    assert first["data"]["at"][:19] == done["output"][0][:19]


async def test_continuing_after_an_unread_rejection_is_recorded(works: Works) -> None:
    works.write(
        "blind",
        """
        @process
        async def blind(inputs, ctx):
            await ctx.breakpoint("Really?")
            await ctx.sleep(0)
            seen = await ctx.breakpoint("And this?")
            return "on" if seen.approved else "off"
        """,
    )
    run_id = await works.start("blind")
    for _ in range(2):
        (step,) = await works.asked(run_id)
        await works.answer(step, approved=False)
        await works.past(run_id, step["path"])
    assert (await works.ended(run_id))["output"] == "off"
    unseen = [line["path"] for line in await works.journal(run_id) if line["type"] == "unseen"]
    assert unseen == ["1"]


async def test_require_raises_an_exception_for_a_rejection(works: Works) -> None:
    works.write(
        "strict",
        """
        @process
        async def strict(inputs, ctx):
            try:
                await ctx.breakpoint("May I?", require=True)
            except NotApproved as error:
                return [type(error).__name__, error.result.feedback]
        """,
    )
    run_id = await works.start("strict")
    (step,) = await works.asked(run_id)
    await works.answer(step, approved=False, comment="No.")
    assert (await works.ended(run_id))["output"] == ["Rejected", "No."]


async def test_a_run_continues_when_its_breakpoint_expires(works: Works) -> None:
    works.write(
        "hurried",
        """
        @process
        async def hurried(inputs, ctx):
            answer = await ctx.breakpoint("Quick?", ttl_seconds=1)
            return [answer.approved, answer.status]
        """,
    )
    assert (await works.ended(await works.start("hurried")))["output"] == [False, "expired"]


async def test_a_run_continues_immediately_when_a_rule_approves(works: Works) -> None:
    admin = await works.node.token("admin")
    rule = {"pattern": "confirm.*", "action": "auto-approve"}
    assert (await works.node.call("POST", "/api/rules", admin, json=rule)).status_code == 201
    works.write(
        "routine",
        """
        @process
        async def routine(inputs, ctx):
            answer = await ctx.breakpoint("Star it?", breakpoint_id="confirm.star-repo")
            return [answer.approved, answer.auto]
        """,
    )
    assert (await works.ended(await works.start("routine")))["output"] == [True, True]


async def test_a_waiting_run_receives_comments_and_replies(works: Works) -> None:
    works.write(
        "listening",
        """
        @process
        async def listening(inputs, ctx):
            heard = []
            answer = await ctx.breakpoint("Deploy?", on_comment=lambda said: f"You said: {said.comment}")
            return answer.approved
        """,
    )
    run_id = await works.start("listening")
    (step,) = await works.asked(run_id)
    await works.node.feedback(step["breakpointId"], works.reviewer, comment="Which version?")
    await works.until(run_id, lambda run: run["state"] == "suspended")
    await works.until(run_id, lambda _: True)
    lines: list[str] = []
    while "heard" not in lines:
        lines = await works.types(run_id)
    said = (await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)).json()["feedback"]
    assert [each["comment"] for each in said] == ["Which version?", "You said: Which version?"]
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True
    assert (await works.types(run_id)).count("heard") == 1
