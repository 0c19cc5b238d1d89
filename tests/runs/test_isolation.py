"""Runs and their stored data are visible only in their project."""

from assent.audit.store.retention import Retention
from assent.db.transaction import Transaction
from tests.runs.conftest import Works

KEEPING = """
@process
async def keeping(inputs, ctx):
    await ctx.save_file("note.txt", inputs)
    return inputs
"""


async def test_a_run_is_invisible_to_other_projects(works: Works) -> None:
    admin = await works.node.token("admin")
    await works.node.call("POST", "/api/projects", admin, json={"id": "other"})
    there = await works.node.person("olga", "admin", project="other")
    works.write("keeping", KEEPING)
    run_id = await works.start("keeping", "secret")
    await works.ended(run_id)
    for path in ("", "/journal", "/files/note.txt", "/cancel", "/retry"):
        method = "POST" if path in {"/cancel", "/retry"} else "GET"
        answer = await works.node.call(method, f"/api/runs/{run_id}{path}", there)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
    assert (await works.node.call("GET", "/api/runs", there)).json()["items"] == []
    for path in ("../note.txt", "%2e%2e/note.txt", "/etc/hostname", "note.txt%00", "", "."):
        answer = await works.node.call("GET", f"/api/runs/{run_id}/files/{path}", works.agent)
        assert answer.status_code in {404, 422}, path
    odd = await works.node.call("GET", "/api/runs?process=%00", works.agent)
    assert odd.status_code in {200, 422}


async def test_purging_a_run_keeps_the_files_of_other_projects(works: Works) -> None:
    admin = await works.node.token("admin")
    await works.node.call("POST", "/api/projects", admin, json={"id": "other"})
    works.write("keeping", KEEPING)
    await works.ended(await works.start("keeping", "the same"))
    works.agent = await works.node.token("agent", project="other")
    theirs = await works.start("keeping", "the same")
    await works.ended(theirs)

    def use_case(tx: Transaction) -> list[str]:
        tx[Retention].purge_runs("other", [theirs])
        return [row[0] for row in tx.session.all("SELECT project_id FROM assent_files", {})]

    assert await works.node.assent.database.write(use_case) == ["default"]


async def test_the_run_list_is_paginated_newest_first_without_inputs_or_output(works: Works) -> None:
    works.write("keeping", KEEPING)
    runs = [await works.start("keeping", f"number {n}") for n in range(5)]
    found: list[str] = []
    cursor = ""
    while True:
        page = (await works.node.call("GET", f"/api/runs?limit=2{cursor}", works.agent)).json()
        assert not {"inputs", "output"} & {key for item in page["items"] for key in item}
        found += [item["id"] for item in page["items"]]
        if "nextCursor" not in page:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert found == runs[::-1]
