"""Changed processes, files that move between nodes, and errors in processes."""

import shutil
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.runs.conftest import Works
from tests.support.nodes import running_node

ASKS = """
@process
async def changing(inputs, ctx):
    await ctx.{first}
    answer = await ctx.breakpoint({question!r}, title="Same")
    return answer.approved
"""


@pytest.mark.parametrize(
    ("first", "question", "said"),
    [
        ("sleep(0)", "Deploy B?", "Step 2 (the breakpoint 'same') has changed"),
        ("task(print)", "Deploy A?", "Step 1 was recorded as the sleep 'sleep', but is now the task 'print'"),
    ],
)
async def test_a_changed_process_is_reported_and_can_be_reverted(
    works: Works, first: str, question: str, said: str
) -> None:
    works.write("changing", ASKS.format(first="sleep(0)", question="Deploy A?"))
    run_id = await works.start("changing")
    (step,) = await works.asked(run_id)
    works.write("changing", ASKS.format(first=first, question=question))
    await works.answer(step)
    failed = await works.ended(run_id)
    assert failed["error"]["type"] == "ProcessChanged"
    assert said in failed["error"]["message"]
    works.write("changing", ASKS.format(first="sleep(0)", question="Deploy A?"))
    await works.node.call("POST", f"/api/runs/{run_id}/retry", works.agent)
    assert (await works.until(run_id, lambda run: run["state"] == "done"))["output"] is True
    assert "process_changed" in await works.types(run_id)


async def test_a_change_after_the_last_step_is_recorded_but_does_not_fail_the_run(works: Works) -> None:
    works.write("changing", ASKS.format(first="sleep(0)", question="Deploy A?"))
    run_id = await works.start("changing")
    (step,) = await works.asked(run_id)
    works.write("changing", ASKS.format(first="sleep(0)", question="Deploy A?").replace("answer.approved", "'new'"))
    await works.answer(step)
    assert (await works.ended(run_id))["output"] == "new"
    assert "process_changed" in await works.types(run_id)


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ("return {1, 2}", "NotJson", "must be JSON"),
        ("return await ctx.task(lambda: object())", "NotJson", "must be JSON"),
        ("return 'x' * 2_000_000", "NotJson", "larger than 1024 KiB"),
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("await ctx.task(lambda: ctx.log('no'))", "RuntimeError", "cannot be called inside a task"),
        ("await ctx.breakpoint('x', strategy='quorum')", "InvalidRequest", "is required when strategy is quorum"),
        ("await ctx.breakpoint('x', risk='huge')", "InvalidRequest", "risk"),
        ("await ctx.breakpoint('x', payload={'n': float('nan')})", "InvalidRequest", "JSON"),
        ("await ctx.breakpoint('x', files=['../secret'])", "FileRefused", "cannot be sent"),
        ("await ctx.save_file('/etc/passwd', 'x')", "FileRefused", "cannot be sent"),
        ("ctx.step_key", "RuntimeError", "inside a task"),
    ],
)
async def test_an_error_in_a_process_fails_its_run_with_a_clear_message(
    works: Works, body: str, error: str, said: str
) -> None:
    works.write("wrong", f"@process\nasync def wrong(inputs, ctx):\n    {body}\n")
    failed = await works.ended(await works.start("wrong"))
    assert failed["state"] == "failed", failed
    assert (failed["error"]["type"], said in failed["error"]["message"]) == (error, True), failed["error"]


async def test_files_are_stored_and_restored_on_another_node(works: Works, settings: Settings) -> None:
    works.write(
        "files",
        """
        def write(folder, text):
            (Path(folder) / "artifacts").mkdir(exist_ok=True)
            (Path(folder) / "artifacts" / "plan.md").write_text(text)

        @process
        async def files(inputs, ctx):
            await ctx.task(lambda: write(ctx.run_dir, "# Plan"))
            await ctx.save_file("notes/note.txt", "noted")
            await ctx.breakpoint(
                "Look?",
                context={"files": [
                    {"path": "artifacts/plan.md", "format": "markdown"}, {"path": "gone.md", "format": "markdown"},
                ]},
                files=["notes/note.txt"],
            )
            return [(ctx.run_dir / name).read_text() for name in ("artifacts/plan.md", "notes/note.txt")]
        """,
    )
    run_id = await works.start("files")
    (step,) = await works.asked(run_id)
    suspended = await works.until(run_id, lambda run: run["state"] == "suspended")
    assert [file["path"] for file in suspended["files"]] == ["artifacts/plan.md", "notes/note.txt"]
    one = f"/api/breakpoints/{step['breakpointId']}/files"
    assert (await works.node.call("GET", f"{one}/0", works.agent)).text == "# Plan"
    assert (await works.node.call("GET", f"{one}/1", works.agent)).status_code == 404
    kept = await works.node.call("GET", f"/api/runs/{run_id}/files/notes/note.txt", works.agent)
    assert kept.content == b"noted"
    shutil.rmtree(settings.data_dir / "runs")  # as on a node that has never seen this run
    await works.answer(step)
    assert (await works.ended(run_id))["output"] == ["# Plan", "noted"]
    assert any("gone.md" in line["data"].get("message", "") for line in await works.journal(run_id))


async def test_a_broken_process_file_does_not_affect_other_processes(works: Works) -> None:
    works.write("plain", "async def process(inputs, ctx):\n    'Says hello.'\n    return 'hello'\n")
    works.write("broken", "import nowhere_at_all\n")
    works.write("sync", "@process\ndef sync(inputs, ctx): ...\n")
    works.write(
        "two",
        "@process(name='first.of-two')\nasync def a(inputs, ctx): ...\n@process\nasync def other_one(i, c): ...\n",
    )
    works.write("twin", "@process\nasync def other_one(i, c): ...\n")
    found = {
        (each["name"], each["file"]): each
        for each in (await works.node.call("GET", "/api/processes", works.agent)).json()["items"]
    }
    assert {name for (name, _), each in found.items() if "problem" not in each} == {"plain", "first.of-two"}
    assert found["plain", "plain.py"]["description"] == "Says hello."
    assert "nowhere_at_all" in found["broken", "broken.py"]["problem"]
    assert "must be an async function" in found["sync", "sync.py"]["problem"]
    assert found["other-one", "two.py"]["problem"] == "is defined in both twin.py and two.py"
    assert (await works.ended(await works.start("plain")))["output"] == "hello"


async def test_a_run_waits_for_a_node_that_has_its_process(works: Works) -> None:
    works.write("away", "@process\nasync def away(inputs, ctx):\n    return (await ctx.breakpoint('x')).approved\n")
    run_id = await works.start("away")
    (step,) = await works.asked(run_id)
    file = works.settings.process_folder / "away.py"
    file.rename(file.with_suffix(".gone"))
    await works.answer(step)
    unknown = await works.until(run_id, lambda run: run.get("error"))
    assert (unknown["state"], unknown["error"]["type"]) == ("queued", "ProcessUnknown")
    file.with_suffix(".gone").rename(file)
    assert (await works.ended(run_id))["output"] is True


async def test_a_run_continues_after_its_node_has_stopped(settings: Settings) -> None:
    async with running_node(settings, worker=True) as node:
        works = Works(node, settings, await node.token("agent"), await node.token("reviewer"))
        works.write(
            "long", "@process\nasync def long(i, ctx):\n    return [(await ctx.breakpoint(n)).approved for n in 'ab']\n"
        )
        run_id = await works.start("long")
        (step,) = await works.asked(run_id)
        await works.answer(step)
    async with running_node(settings, worker=True) as node:
        works = Works(node, settings, works.agent, works.reviewer)
        (step,) = await works.asked(run_id)
        await works.answer(step, approved=False)
        assert (await works.ended(run_id))["output"] == [True, False]


async def test_the_error_for_an_unknown_process_lists_the_available_processes(works: Works) -> None:
    works.write("known", "@process\nasync def known(inputs, ctx): ...\n")
    works.write("bad", "raise ValueError('on purpose')\n")

    async def start(body: dict[str, Any], token: str | None = None) -> tuple[int, str]:
        answer = await works.node.call("POST", "/api/runs", token or works.agent, json=body)
        return answer.status_code, answer.json().get("detail", "")

    assert await start({"process": "other"}) == (404, "Process 'other' not found; available processes: known.")
    status, said = await start({"process": "bad"})
    assert (status, "on purpose" in said) == (404, True)
    assert (await start({"process": "../known"}))[0] == 422
    assert (await start({"process": "known", "more": 1}))[0] == 422
    limited = await works.node.token("agent", agent_ids=("ci-*",))
    assert (await start({"process": "known"}, limited))[0] == 403
    assert (await start({"process": "known", "agentId": "ci-1"}, limited))[0] == 201


async def test_an_idempotency_key_starts_only_one_run(works: Works) -> None:
    works.write("once", "@process\nasync def once(inputs, ctx): ...\n")
    body, headers = {"process": "once", "inputs": {"a": 1}}, {"Idempotency-Key": "k1"}
    answers = [await works.node.call("POST", "/api/runs", works.agent, json=body, headers=headers) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = await works.node.call("POST", "/api/runs", works.agent, json=body | {"inputs": 2}, headers=headers)
    assert other.status_code == 422


async def test_people_cannot_answer_questions_from_runs_that_they_started_and_agents_see_only_their_own_runs(
    works: Works,
) -> None:
    works.write("asking", "@process\nasync def asking(inputs, ctx):\n    return (await ctx.breakpoint('x')).approved\n")
    ann, other = await works.node.person("ann", "reviewer"), await works.node.token("agent", name="other")
    works.agent = ann
    run_id = await works.start("asking")
    (step,) = await works.asked(run_id)
    own = await works.node.feedback(step["breakpointId"], ann, approved=True)
    assert (own.status_code, own.json()["code"]) == (403, "own_breakpoint")
    for path in ("", "/journal", "/files/x"):
        assert (await works.node.call("GET", f"/api/runs/{run_id}{path}", other)).status_code == 404
    for verb in ("cancel", "retry"):
        assert (await works.node.call("POST", f"/api/runs/{run_id}/{verb}", other)).status_code == 404
        assert (await works.node.call("POST", f"/api/runs/{run_id}/{verb}", works.reviewer)).status_code in {403, 409}
    assert (await works.node.call("GET", "/api/runs", other)).json()["items"] == []
    await works.answer(step)
    assert (await works.ended(run_id))["output"] is True


async def test_a_token_can_start_only_the_processes_that_it_allows(works: Works) -> None:
    for name in ("deploy", "report"):
        works.write(name, f"@process\nasync def {name}(inputs, ctx): ...\n")

    async def start(process: str, **limits: Any) -> tuple[int, str]:
        token = await works.node.token("agent", name="limited", **limits)
        answer = await works.node.call("POST", "/api/runs", token, json={"process": process})
        return answer.status_code, answer.json().get("detail", "")

    refused = (
        "This token cannot start the process 'deploy'; it is not allowed to start any processes. "
        "Create a token with --process."
    )
    assert await start("deploy", gates=("safe.*",)) == (403, refused)
    assert (await start("deploy", gates=("safe.*",), processes=("rep*",)))[0] == 403
    assert (await start("report", gates=("safe.*",), processes=("rep*",)))[0] == 201
    assert (await start("deploy", processes=()))[0] == 403
    assert (await start("deploy"))[0] == 201
    runs = await works.node.call("GET", "/api/runs", await works.node.token("admin"))
    assert sorted(each["process"] for each in runs.json()["items"]) == ["deploy", "report"]
