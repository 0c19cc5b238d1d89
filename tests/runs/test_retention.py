"""Runs are deleted when the project's retention ends, unless a legal hold exempts them."""

from typing import Any

from assent.audit.usecases.retention import RetentionService
from assent.db.transaction import Transaction
from tests.runs.conftest import Works

DAY = 24 * 3600 * 1_000_000


async def test_an_old_run_is_purged_with_its_files_unless_on_legal_hold(works: Works) -> None:
    admin = await works.node.token("admin")
    works.write(
        "keeping",
        """
        @process
        async def keeping(inputs, ctx):
            await ctx.save_file("note.txt", inputs)
            return (await ctx.breakpoint("Well?")).approved
        """,
    )
    held, old = await works.start("keeping", "held"), await works.start("keeping", "old")
    steps: dict[str, dict[str, Any]] = {}
    for run_id in (held, old):
        (steps[run_id],) = await works.asked(run_id)
        await works.answer(steps[run_id])
        await works.ended(run_id)
    waiting = await works.start("keeping", "waiting")
    await works.asked(waiting)
    policy = {"retentionDays": 1}
    assert (await works.node.call("PUT", "/api/policy", admin, json=policy)).status_code == 200
    hold = {"reason": "court", "breakpointId": steps[held]["breakpointId"]}
    assert (await works.node.call("POST", "/api/holds", admin, json=hold)).status_code == 201
    assert await purged(works) == 0
    await aged(works, 2 * DAY)
    assert await purged(works) == 1

    assert (await works.node.call("GET", f"/api/runs/{old}", works.agent)).status_code == 404
    for run_id in (held, waiting):
        assert (await works.node.call("GET", f"/api/runs/{run_id}/files/note.txt", works.agent)).status_code == 200
    assert {run["id"] for run in (await works.node.call("GET", "/api/runs", works.agent)).json()["items"]} == {
        held,
        waiting,
    }
    kept = await works.node.assent.database.fetch("SELECT sha256 FROM assent_files", {})
    assert len(kept) == 2


async def purged(works: Works) -> int:
    return await works.node.assent.database.write(works.node.assent[RetentionService].purge_due)


async def aged(works: Works, by: int) -> None:
    """Backdate the end of every run that has ended."""

    def use_case(tx: Transaction) -> None:
        tx.session.change("UPDATE assent_runs SET ended_at = ended_at - :by WHERE ended_at IS NOT NULL", {"by": by})

    await works.node.assent.database.write(use_case)
