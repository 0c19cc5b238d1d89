"""The example processes on a node, with approvals and rejections, as documented."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.runs.conftest import Works
from tests.support.nodes import running_node

FOLDER = Path(__file__).parents[2] / "examples" / "processes"


@pytest.fixture
async def works(sqlite_settings: Settings) -> AsyncIterator[Works]:
    shutil.copytree(FOLDER, sqlite_settings.process_folder)
    async with running_node(sqlite_settings, worker=True) as node:
        yield Works(node, sqlite_settings, await node.token("agent"), await node.token("reviewer"))


async def decided(works: Works, process: str, inputs: Any, *answers: dict[str, Any]) -> dict[str, Any]:
    """Run an example, answer its questions in order, and return the completed run."""
    run_id = await works.start(process, inputs)
    for answer in answers:
        (step,) = await works.asked(run_id)
        await works.answer(step, **answer)
        await works.past(run_id, step["path"])
    return await works.ended(run_id)


YES: dict[str, Any] = {"approved": True}


def no(comment: str) -> dict[str, Any]:
    return {"approved": False, "comment": comment}


@pytest.mark.parametrize(
    ("process", "inputs", "answers", "output"),
    [
        ("plan-approval", {"feature": "Search"}, [YES], {"success": True, "steps": 4}),
        ("plan-approval", {"feature": "Search"}, [no("Too big.")], {"success": False, "reason": "Too big."}),
        ("deployment", {"version": "1.2"}, [{"approved": True, "confirm": "production-deployment"}], "1.2 is live"),
        ("quality-score", {"target": 90, "most": 5}, [YES, YES], {"score": 90, "iterations": 3}),
        ("quality-score", {"target": 90, "most": 5}, [YES, no("Enough.")], {"score": 80, "iterations": 2}),
        ("conditional", {"code": "SELECT 1"}, [], {"success": True, "applied": 1}),
        ("conditional", {"code": "DROP TABLE t"}, [YES], {"success": True, "applied": 1}),
        (
            "conditional",
            {"code": "DROP TABLE t"},
            [no("Never.")],
            {"success": False, "reason": "High-risk changes rejected", "feedback": "Never."},
        ),
        (
            "multi-stage",
            {"feature": "Search"},
            [YES, YES, YES],
            {"done": "design and implementation and deployment deployed"},
        ),
        (
            "multi-stage",
            {"feature": "Search"},
            [YES, no("Untested.")],
            {"stoppedAfter": ["design"], "because": "Untested."},
        ),
        ("quality-gate", {"tests": 50, "failed": 1, "branch": "next"}, [YES], "next merged"),
        (
            "retry-on-rejection",
            {"feature": "Search"},
            [no("name the tests"), no("and the owner"), YES],
            "done: Plan for Search; name the tests; and the owner",
        ),
    ],
)
async def test_each_example_returns_its_documented_output(
    works: Works, process: str, inputs: Any, answers: list[dict[str, Any]], output: Any
) -> None:
    ended = await decided(works, process, inputs, *answers)
    assert (ended["state"], ended.get("output")) == ("done", output), ended


async def test_a_rejected_deployment_fails_the_run(works: Works) -> None:
    failed = await decided(works, "deployment", {"version": "1.2"}, no("Not on a Friday."))
    assert (failed["state"], failed["error"]["type"]) == ("failed", "Rejected")
    assert "Not on a Friday." in failed["error"]["message"]


async def test_a_second_attempt_shows_the_feedback_on_the_first(works: Works) -> None:
    run_id = await works.start("retry-on-rejection", {"feature": "Search"})
    for comment in ("first", None):
        (step,) = await works.asked(run_id)
        asked = (await works.node.call("GET", f"/api/breakpoints/{step['breakpointId']}", works.agent)).json()
        if comment is None:
            assert (asked["payload"]["previousFeedback"], asked["payload"]["attempt"]) == ("first", 2)
        else:
            await works.answer(step, approved=False, comment=comment)
            await works.past(run_id, step["path"])


async def test_routing_asks_experts_and_counts_their_votes(works: Works) -> None:
    people = {
        name: await works.node.person(name, "reviewer")
        for name in ("security-team", "tech-lead", "ops-lead", "security-lead")
    }
    run_id = await works.start("routing", {})

    async def vote(name: str, *, approved: bool) -> None:
        (step,) = await works.asked(run_id)
        token = works.reviewer if name == "owner" else people[name]
        answer = await works.node.feedback(step["breakpointId"], token, approved=approved)
        assert answer.status_code == 200, answer.text
        if answer.json()["status"] == "released":
            await works.past(run_id, step["path"])

    (step,) = await works.asked(run_id)
    stranger = await works.node.feedback(step["breakpointId"], people["ops-lead"], approved=True)
    assert (stranger.status_code, stranger.json()["code"]) == (403, "not_eligible")
    await vote("security-team", approved=True)
    await vote("owner", approved=True)
    await vote("tech-lead", approved=True)
    await vote("ops-lead", approved=False)
    await vote("security-lead", approved=True)
    assert (await works.ended(run_id))["output"] == {
        "security": "security-team",
        "release": True,
        "deployment": True,
        "voices": 3,
    }


async def test_the_third_approval_enables_auto_approval(works: Works) -> None:
    for _ in range(3):
        ended = await decided(works, "auto-approval", {}, YES, YES)
        assert ended["output"] == {"starred": True, "auto": False, "reviewed": True}
    ended = await decided(works, "auto-approval", {}, YES)
    assert ended["output"] == {"starred": True, "auto": True, "reviewed": True}
