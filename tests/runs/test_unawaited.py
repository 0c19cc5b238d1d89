"""A ctx call without `await` fails the run and names the line; a misspelled argument never counts as an approval."""

from pathlib import Path

import pytest

from tests.runs.conftest import Works

CALLS = {
    "breakpoint": 'ctx.breakpoint("Deploy?")',
    "task": "ctx.task(deploy)",
    "sleep": "ctx.sleep(1)",
    "save_file": 'ctx.save_file("a.txt", "x")',
    "writes": 'ctx.writes("/tmp/x")',
    "gather": "ctx.gather(ctx.task(deploy))",
}


def _process(*lines: str) -> str:
    return "\n".join(
        [
            "def deploy():",
            "    return 1",
            "",
            "@process",
            "async def forgets(inputs, ctx):",
            *(f"    {each}" for each in lines),
        ]
    )


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_without_await_fails_the_run_and_names_the_line(works: Works, call: str) -> None:
    works.write("forgets", _process(call, 'return "DEPLOYED"'))
    run = await works.ended(await works.start("forgets"))
    assert run["state"] == "failed"
    assert run["error"]["type"] == "NotAwaited"
    assert "at forgets.py:" in run["error"]["message"]
    assert f"Write `await {call.partition('(')[0]}" in run["error"]["message"]


async def test_nothing_runs_after_a_breakpoint_that_was_not_awaited(works: Works) -> None:
    works.write("forgets", _process('ctx.breakpoint("Deploy?")', "return await ctx.task(deploy)"))
    run_id = await works.start("forgets")
    assert (await works.ended(run_id))["error"]["type"] == "NotAwaited"
    journal = (await works.node.call("GET", f"/api/runs/{run_id}/journal", works.agent)).json()["items"]
    assert not [line for line in journal if line["type"].startswith("task")]


@pytest.mark.parametrize(
    "lines",
    [
        ('if ctx.breakpoint("Deploy?"):', '    return "DEPLOYED"'),
        ('review = ctx.breakpoint("Deploy?")', 'if not review: return "no"', 'return "DEPLOYED"'),
        ('review = ctx.breakpoint("Deploy?")', 'if review.approved: return "DEPLOYED"'),
        ('review = ctx.breakpoint("Deploy?")', "globals()['kept'] = review", 'return "DEPLOYED"'),
        ('abreakpoint = __import__("assent").abreakpoint', 'abreakpoint("Deploy?")', 'return "DEPLOYED"'),
        (
            "try:",
            '    ctx.breakpoint("Deploy?")',
            "    await ctx.sleep(0)",
            "except Exception:",
            "    pass",
            'return "DEPLOYED"',
        ),
        ('await ctx.breakpoint("Deploy?", required=True)', 'return "DEPLOYED"'),
        ('await ctx.breakpoint("Deploy?", extra={"Risk": "high"})', 'return "DEPLOYED"'),
        ('await ctx.breakpoint({"question": "Deploy?", "hardstop": True})', 'return "DEPLOYED"'),
        ('await ctx.breakpoint("")', 'return "DEPLOYED"'),
    ],
)
async def test_a_run_never_succeeds_if_its_breakpoint_was_not_created(works: Works, lines: tuple[str, ...]) -> None:
    works.write("forgets", _process(*lines))
    run = await works.ended(await works.start("forgets"))
    assert (run["state"], run.get("output")) == ("failed", None)


async def test_branching_on_an_unawaited_call_runs_neither_branch(works: Works, tmp_path: Path) -> None:
    deployed, skipped = tmp_path / "deployed", tmp_path / "skipped"
    works.write(
        "forgets",
        _process(
            "from pathlib import Path",
            'if ctx.breakpoint("Deploy?"):',
            f"    Path({str(deployed)!r}).touch()",
            "else:",
            f"    Path({str(skipped)!r}).touch()",
        ),
    )
    assert (await works.ended(await works.start("forgets")))["error"]["type"] == "NotAwaited"
    assert not deployed.exists()
    assert not skipped.exists()


async def test_calls_that_are_awaited_later_do_not_fail_the_run(works: Works) -> None:
    works.write(
        "forgets",
        _process(
            "one, two = ctx.task(deploy), ctx.task(deploy)",
            "later = asyncio.create_task(ctx.task(deploy))",
            "both = await ctx.gather(one, two)",
            "return [*both, await later]",
        ),
    )
    assert (await works.ended(await works.start("forgets")))["output"] == [1, 1, 1]


async def test_a_breakpoint_can_be_defined_by_a_single_dict(works: Works) -> None:
    works.write(
        "forgets",
        _process(
            "await ctx.save_file('artifacts/plan.md', '# Plan')",
            "review = await ctx.breakpoint({",
            "    'question': 'Approve the plan?', 'title': 'Plan Review', 'breakpointId': 'plan.review',",
            "    'previousFeedback': 'Shorter.', 'attempt': 2, 'tags': ['plan'],",
            "    'context': {'runId': ctx.run_id, 'files': [{'path': 'artifacts/plan.md', 'format': 'markdown'}]},",
            "})",
            "return review.approved",
        ),
    )
    run_id = await works.start("forgets")
    (step,) = await works.asked(run_id)
    asked = (await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)).json()
    assert (asked["gate"], asked["title"], asked["attempt"]) == ("plan.review", "Plan Review", 2)
    assert asked["payload"]["previousFeedback"] == "Shorter."
    assert asked["payload"]["context"]["files"][0]["path"] == "artifacts/plan.md"
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True
