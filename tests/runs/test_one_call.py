"""The calls that work anywhere work inside a run as well, and last as long as the run does."""

from tests.runs.conftest import Works


async def test_abreakpoint_inside_a_process_is_a_step_of_the_run(works: Works) -> None:
    works.write(
        "anywhere",
        """
        from assent import abreakpoint

        async def elsewhere(what):
            return await abreakpoint(f"May I {what}?", title=what)

        @process
        async def anywhere(inputs, ctx):
            return [(await elsewhere(what)).approved for what in inputs]
        """,
    )
    run_id = await works.start("anywhere", ["jump", "run"])
    for name, approved in (("jump", True), ("run", False)):
        (step,) = await works.asked(run_id)
        assert step["name"] == name
        await works.answer(step, approved=approved)
        await works.past(run_id, step["path"])
    assert (await works.ended(run_id))["output"] == [True, False]


async def test_a_gated_function_inside_a_process_asks_about_its_arguments(works: Works) -> None:
    works.write(
        "paying",
        """
        from assent import approve

        @approve("Pay {amount} to {to}?", editable=("amount",))
        async def pay(amount, to):
            return f"{amount} to {to}"

        @process
        async def paying(inputs, ctx):
            try:
                return await pay(inputs["amount"], to="Ann")
            except NotApproved as error:
                return str(error)
        """,
    )
    run_id = await works.start("paying", {"amount": 12})
    (step,) = await works.asked(run_id)
    asked = (await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)).json()
    assert asked["payload"]["question"] == "Pay 12 to Ann?"
    await works.answer(step, edits={"amount": 10})
    assert (await works.ended(run_id))["output"] == "10 to Ann"
    refused = await works.start("paying", {"amount": 12})
    (step,) = await works.asked(refused)
    await works.answer(step, approved=False, comment="Too much.")
    assert "Too much." in (await works.ended(refused))["output"]


async def test_a_call_that_cannot_wait_is_refused_with_the_one_that_can(works: Works) -> None:
    works.write(
        "sync",
        """
        import assent

        @process
        async def sync(inputs, ctx):
            assent.breakpoint("May I?")
        """,
    )
    failed = await works.ended(await works.start("sync"))
    assert "abreakpoint" in failed["error"]["message"]
