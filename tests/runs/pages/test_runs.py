"""Web pages for runs: the list, live updates, starting, cancelling and retrying, on both databases."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from assent.breakpoints.store.files import Files
from assent.core.access import EVERY_ROLE, Kind, Principal
from assent.core.canonical import sha256
from assent.core.safe_text import visible
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.usecases.people import NewToken, PeopleService
from assent.runs.model import Line, RunFile, RunState, Step, StepKind, StepState
from assent.runs.pages import duration
from assent.runs.store import Runs
from tests.runs.conftest import Works
from tests.support.nodes import Node, running_node
from tests.web.corpus import SPOOFS, XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, signed_in

IDLE = """
    @process
    async def idle(inputs, ctx):
        "Does nothing."
"""
ASKING = """
    def build(version):
        return {"image": f"app:{version}"}

    @process
    async def asking(inputs, ctx):
        "Builds, then asks."
        built = await ctx.task(build, inputs["version"])
        ctx.log("built the image", {"image": built["image"]})
        await ctx.save_file("notes/plan one.md", "# Plan")
        review = await ctx.breakpoint("Deploy?", title=inputs.get("title", "Deploy it"))
        return {"deployed": review.approved}
"""
FAILING = """
    def broken(path):
        return Path(path).read_text()

    @process
    async def failing(inputs, ctx):
        return await ctx.task(broken, inputs["path"])
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


@pytest.fixture
async def works(settings: Settings) -> AsyncIterator[Works]:
    async with running_node(settings, worker=True) as node:
        yield Works(node, settings, await node.token("agent"), await node.token("reviewer"))


async def started(browser: Visitor, process: str, **inputs: str) -> str:
    answer = await browser.send("/runs/start", "/runs/start", process=process, inputs=json.dumps(inputs))
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].rpartition("/")[2]


async def test_a_run_page_is_updated_until_the_run_ends(works: Works) -> None:
    works.write("asking", ASKING)
    ann = await signed_in(works.node, "ann")
    run_id = await started(ann, "asking", version="7")
    (step,) = await works_asked(works, ann, run_id)
    page = await ann.page(f"/runs/{run_id}")
    assert f"/breakpoints/{step}" in page.links()
    for text in ("Waiting for an answer", "built the image", "app:7", "notes/plan one.md", "task_done"):
        assert text in page.text
    live = next(each for each in page.all("section") if each.get("id") == "run-live")
    assert live["hx-trigger"] == "every 2s"
    assert (await ann.get(live["hx-get"])).status_code == 204, "nothing has changed since"

    answer = await works.node.feedback(step, works.reviewer, approved=True)
    assert answer.status_code == 200
    await ended(works, run_id)
    after = await ann.get(live["hx-get"])
    assert after.status_code == 200
    assert "hx-get" not in after.text, "a run that has ended is not asked about again"
    done = await ann.page(f"/runs/{run_id}")
    assert '"deployed": true' in done.text
    assert (await ann.get(f"/runs/{run_id}/result")).json() == {"deployed": True}
    assert (await ann.get(f"/runs/{run_id}/inputs")).json() == {"version": "7"}
    kept = await ann.get(f"/runs/{run_id}/files/notes/plan%20one.md")
    assert (kept.text, kept.headers["content-type"]) == ("# Plan", "application/octet-stream")
    assert kept.headers["content-disposition"].startswith("attachment")


async def works_asked(works: Works, browser: Visitor, run_id: str) -> list[str]:
    """Wait until the run is suspended, and return the IDs of its pending breakpoints."""

    def asked(tx: Transaction) -> list[str]:
        suspended = tx[Runs].get(run_id, project="default").state is RunState.SUSPENDED
        return [each.breakpoint_id for each in tx[Runs].open_steps(run_id) if each.breakpoint_id and suspended]

    while not (found := await works.node.assent.database.read(asked)):
        assert (await browser.get(f"/runs/{run_id}/live")).status_code == 200
    return found


async def ended(works: Works, run_id: str) -> None:
    while not (await works.node.assent.database.read(lambda tx: tx[Runs].get(run_id, project="default"))).ended:
        await works.node.client.get("/healthz")


async def test_a_failed_run_shows_its_error_and_can_be_retried(works: Works, settings: Settings) -> None:
    works.write("failing", FAILING)
    missing = settings.data_dir / "missing.txt"
    ann = await signed_in(works.node, "ann")
    run_id = await started(ann, "failing", path=str(missing))
    await ended(works, run_id)
    page = await ann.page(f"/runs/{run_id}")
    assert "Run failed." in page.text
    assert "FileNotFoundError" in page.text
    assert f"/runs/{run_id}/retry" in page.links()
    assert f"/runs/{run_id}/cancel" not in page.links()
    missing.write_text("now it is there")
    assert (await ann.send(f"/runs/{run_id}/retry", "/retry")).status_code == 303
    await ended(works, run_id)
    assert "now it is there" in (await ann.page(f"/runs/{run_id}")).text


async def test_cancelling_a_run_requires_confirmation_and_cancels_its_breakpoint(works: Works) -> None:
    works.write("asking", ASKING)
    ann = await signed_in(works.node, "ann")
    run_id = await started(ann, "asking", version="7")
    (step,) = await works_asked(works, ann, run_id)
    asked = await ann.page(f"/runs/{run_id}/cancel")
    assert "Its pending breakpoint is cancelled" in asked.text
    assert (await ann.post(f"/runs/{run_id}/cancel", asked.form("/cancel").fields)).status_code == 303
    assert "cancelled" in (await ann.page(f"/runs/{run_id}")).text
    seen = await works.node.call("GET", f"/api/breakpoints/{step}", works.reviewer)
    assert seen.json()["status"] == "cancelled"
    again = await ann.page(f"/runs/{run_id}/cancel")
    assert "already cancelled" in again.text
    assert not [form for form in again.forms if form.action.endswith("/cancel")]


async def test_invalid_json_inputs_are_kept_in_the_form_and_explained(works: Works) -> None:
    works.write("idle", IDLE)
    works.write("broken", "this is not python")
    ann = await signed_in(works.node, "ann")
    form = (await ann.page("/runs/start")).form("/runs/start")
    answer = await ann.post(form.action, form.fields | {"process": "idle", "inputs": '{"a": </textarea><b>'})
    assert answer.status_code == 400
    page = Page(answer.text)
    assert "Run not started." in page.text
    assert "line 1, column 7" in page.text
    assert '{"a": </textarea><b>' in page.text
    assert "Invalid processes" in page.text
    unknown = await ann.post(form.action, form.fields | {"process": "nothing", "inputs": ""})
    assert unknown.status_code == 422
    assert "choose a process that exists on this server" in unknown.text


async def test_submitting_the_same_form_twice_starts_one_run(works: Works) -> None:
    works.write("idle", IDLE)
    ann = await signed_in(works.node, "ann")
    form = (await ann.page("/runs/start")).form("/runs/start")
    sent = form.fields | {"process": "idle", "inputs": ""}
    first, second = await ann.post(form.action, sent), await ann.post(form.action, sent)
    assert first.headers["location"] == second.headers["location"]


async def test_the_run_list_can_be_filtered_and_paginated(works: Works) -> None:
    works.write("idle", IDLE)
    works.write("other", IDLE.replace("idle", "other"))
    ann = await signed_in(works.node, "ann")
    ids = [await started(ann, "idle") for _ in range(51)]
    other = await started(ann, "other")
    for each in (*ids, other):
        await ended(works, each)
    page = await ann.page("/runs?process=idle&state=done")
    assert f"/runs/{other}" not in page.links()
    assert [link for link in page.links() if link.startswith("/runs/run_")] == [f"/runs/{each}" for each in ids[:0:-1]]
    older = next(link for link in page.links() if "cursor=" in link)
    assert f"/runs/{ids[0]}" in (await ann.page(older)).links()
    assert "No runs match" in (await ann.page("/runs?state=failed")).text
    for bad in ("state=odd", "cursor=odd", "process=" + "x" * 300):
        assert (await ann.get(f"/runs?{bad}")).status_code == 422


async def test_only_an_admin_or_the_person_who_started_a_run_can_cancel_it(works: Works) -> None:
    works.write("asking", ASKING)
    ann, bea = await signed_in(works.node, "ann"), await signed_in(works.node, "bea")
    viewer, admin = await signed_in(works.node, "vic", "viewer"), await signed_in(works.node, "ada", "admin")
    run_id = await started(ann, "asking", version="7")
    await works_asked(works, ann, run_id)
    for other in (bea, viewer):
        page = await other.page(f"/runs/{run_id}")
        assert f"/runs/{run_id}/cancel" not in page.links()
        key = page.form("/sign-out").fields["csrf"]
        assert (await other.post(f"/runs/{run_id}/cancel", {"csrf": key})).status_code == 403
        assert (await other.post(f"/runs/{run_id}/retry", {"csrf": key})).status_code == 403
    assert "/runs/start" not in (await viewer.page("/runs")).links()
    assert (await viewer.get("/runs/start")).status_code == 403
    key = (await viewer.page("/runs")).form("/sign-out").fields["csrf"]
    assert (await viewer.post("/runs/start", {"csrf": key, "process": "asking"})).status_code == 403
    assert (await admin.send(f"/runs/{run_id}/cancel", "/cancel")).status_code == 303


async def test_a_form_without_its_csrf_token_is_rejected(works: Works) -> None:
    works.write("asking", ASKING)
    ann = await signed_in(works.node, "ann")
    run_id = await started(ann, "asking", version="7")
    for path in ("/runs/start", f"/runs/{run_id}/cancel", f"/runs/{run_id}/retry"):
        assert (await ann.post(path, {"process": "asking"})).status_code == 403
        assert (await ann.post(path, {"process": "asking"}, origin="http://evil.example")).status_code == 403


async def test_runs_in_other_projects_return_404(node: Node) -> None:
    ann = await signed_in(node, "ann", "reviewer")
    run_id = await foreign(node)
    paths = ("", "/live", "/inputs", "/result", "/files/x", "/cancel", "/retry")
    for path in (*(f"/runs/{run_id}{each}" for each in paths), "/runs/odd", "/runs/run_" + "0" * 26):
        assert (await ann.get(path)).status_code == 404, path
    key = (await ann.page("/runs")).form("/sign-out").fields["csrf"]
    for path in ("cancel", "retry"):
        assert (await ann.post(f"/runs/{run_id}/{path}", {"csrf": key})).status_code == 404
    assert run_id not in (await ann.page("/runs")).text


def write_idle(node: Node) -> None:
    folder = node.assent.settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "idle.py").write_text("from assent import process\n@process\nasync def idle(inputs, ctx):\n    pass\n")


async def foreign(node: Node) -> str:
    """Start a run in another project."""
    write_idle(node)

    def use_case(tx: Transaction) -> str:
        by = Principal(kind=Kind.PERSON, id="x", name="x", project="default", roles=EVERY_ROLE, everywhere=True)
        node.assent[PeopleService].create_project(tx, "elsewhere", "Elsewhere", "owner", by=by)
        new = NewToken(kind="agent", name="foreign")
        return node.assent[PeopleService].create_token(tx, new, project="elsewhere", by="system:test")[1]

    token = await node.assent.database.write(use_case)
    answer = await node.call("POST", "/api/runs", token, json={"process": "idle"})
    assert answer.status_code == 201
    return str(answer.json()["id"])


async def test_hostile_text_from_a_process_is_displayed_as_plain_text(node: Node) -> None:
    write_idle(node)
    ann = await signed_in(node, "ann")
    plain = Page((await ann.get(f"/runs/{await run_with(node, 'plain')}")).text)
    for text in (*XSS, *(each for each, _ in SPOOFS.values() if "\ud800" not in each)):
        hostile = Page((await ann.get(f"/runs/{await run_with(node, text)}")).text)
        assert hostile.structure == plain.structure, text
        assert visible(text) in hostile.text


async def run_with(node: Node, text: str) -> str:
    """Store a run in which every text field contains this text."""
    agent = await node.token("agent")
    body = {"process": "idle", "inputs": {"a": text}}
    run_id = str((await node.call("POST", "/api/runs", agent, json=body)).json()["id"])

    def use_case(tx: Transaction) -> None:
        now = tx.now()
        tx[Files].put("default", sha256(b"kept"), b"kept", at=now)
        tx[Runs].keep_files(run_id, [RunFile(text, sha256(b"kept"), 4)], now=now)
        step = Step(
            path="1", kind=StepKind.TASK, name=text, fingerprint=None, state=StepState.FAILED, attempts=2,
            error={"type": text, "message": text}, started_at=now, ended_at=now,
        )  # fmt: skip
        tx[Runs].put_step(run_id, step)
        done = replace(step, path="2", state=StepState.DONE, error=None, outcome={"x": text})
        tx[Runs].put_step(run_id, done)
        tx[Runs].cancel(run_id, Line("log", data={"message": text, "data": {text: text}}), now=now)

    await node.assent.database.write(use_case)
    return run_id


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (-5, "0.0 s"),
        (1_500_000, "1.5 s"),
        (42_000_000, "42 s"),
        (90_000_000, "1 min 30 s"),
        (3_600_000_000, "1 h"),
        (90_000_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_displayed_in_at_most_two_units(micros: int, words: str) -> None:
    assert duration(micros) == words
