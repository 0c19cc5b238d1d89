"""The SDK functions that work anywhere also work inside a run, as durable steps."""

from assent.http.middleware import MAX_BODY
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


async def test_the_error_for_a_blocking_call_names_its_async_alternative(works: Works) -> None:
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


async def test_a_breakpoint_result_can_be_returned_from_a_run(works: Works) -> None:
    works.write(
        "returning",
        """
        @process
        async def returning(inputs, ctx):
            result = await ctx.breakpoint("Deploy?")
            return [result, result.to_dict(), repr(result)]
        """,
    )
    run_id = await works.start("returning")
    (step,) = await works.asked(run_id)
    await works.answer(step, comment="Go on.")
    returned, as_dict, shown = (await works.ended(run_id))["output"]
    assert returned == as_dict
    assert (as_dict["approved"], as_dict["feedback"], as_dict["status"]) == (True, "Go on.", "released")
    assert shown.startswith("BreakpointResult(approved=True, status='released'")


async def test_converting_a_rejection_to_a_dict_counts_as_reading_it(works: Works) -> None:
    works.write(
        "returning",
        """
        @process
        async def returning(inputs, ctx):
            return (await ctx.breakpoint("Deploy?")).to_dict()["approved"]
        """,
    )
    run_id = await works.start("returning")
    (step,) = await works.asked(run_id)
    await works.answer(step, approved=False, comment="No.")
    assert (await works.ended(run_id))["output"] is False
    assert "unseen" not in await works.types(run_id)


async def test_a_run_has_the_same_payload_limit_as_the_api(works: Works) -> None:
    works.write(
        "large",
        """
        @process
        async def large(inputs, ctx):
            return (await ctx.breakpoint("Deploy?", payload={"log": "x" * inputs})).approved
        """,
    )
    run_id = await works.start("large", MAX_BODY - 1000)
    (step,) = await works.asked(run_id)
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True
    refused = await works.ended(await works.start("large", MAX_BODY))
    assert (refused["state"], refused["error"]["type"]) == ("failed", "TooLarge")
    assert f"the limit is {MAX_BODY}" in refused["error"]["message"]
