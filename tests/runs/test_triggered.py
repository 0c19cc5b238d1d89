"""End to end, from a trigger event to a finished run, on a node with a worker."""

from typing import Any

from assent.runs.model import Run
from assent.runs.store import Runs
from tests.runs.conftest import Works
from tests.support.until import until
from tests.triggers.usecases.triggering import arrived, come, source, trigger


async def _started(works: Works) -> list[Run]:
    return await works.node.assent.database.read(lambda tx: tx[Runs].page("default", {}, before=None, limit=9))


async def test_an_event_starts_a_run_that_finishes_after_approval(works: Works) -> None:
    works.write(
        "fix",
        """
        @process
        async def fix(inputs, ctx):
            asked = await ctx.breakpoint(f"Fix {inputs['repo']}?")
            return {"approved": asked.approved, "because": inputs["event"]["id"], "mark": ctx.mark}
        """,
    )
    # The trigger is not created over the API, which would scan the process folder, so make the node scan it here.
    await works.node.call("GET", "/api/processes", works.agent)
    ci = await source(works.node)
    await trigger(works.node, inputs={"repo": "{{ event.repo }}"}, hold=True)
    [event_id] = await come(works.node, ci, arrived(repo="acme/shop"))
    [held] = await until(lambda: _asked(works), lambda found: len(found) == 1)
    await works.answer({"breakpointId": held["id"]})
    [run] = await until(lambda: _started(works), lambda found: len(found) == 1)
    [_, asked] = await until(lambda: _asked(works, "*"), lambda found: len(found) == 2)
    assert asked["agentId"] == "trigger/fixer"
    await works.answer({"breakpointId": asked["id"]})

    async def ended() -> Run:
        return await works.node.assent.database.read(lambda tx: tx[Runs].get(run.id, project="default"))

    done = await until(ended, lambda found: found.ended)
    assert done.output == {"approved": True, "because": event_id, "mark": f"assent-run:{run.id}"}


async def _asked(works: Works, status: str = "waiting") -> list[dict[str, Any]]:
    wanted = {} if status == "*" else {"status": status}
    answer = await works.node.call("GET", "/api/breakpoints", works.reviewer, params=wanted)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return sorted(items, key=lambda each: each["id"])
