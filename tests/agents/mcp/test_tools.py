"""The MCP tools: what an agent can do with them, and what they never allow."""

import asyncio
import base64
from pathlib import Path

import pytest

from assent.agents.mcp import tool_results as told
from assent.contracts.breakpoints import BreakpointResult, Status
from assent.core.claude_code import TTL_SECONDS
from tests.agents.mcp.seats import ERAS, Place
from tests.support.nodes import free_port

TOOLS = {
    "create_breakpoint",
    "get_breakpoint",
    "wait_for_breakpoint",
    "comment",
    "cancel_breakpoint",
    "ask_human",
    "permission_prompt",
}


@pytest.mark.parametrize("era", ERAS)
async def test_no_tool_can_make_a_decision(place: Place, era: str) -> None:
    async with place.seat(era=era) as seat:
        listed = (await seat.client.list_tools()).tools

        assert {tool.name for tool in listed} == TOOLS
        for tool in listed:
            assert not {"approved", "release", "decision", "confirm"} & set(tool.input_schema["properties"]), tool.name


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_can_ask_and_wait_for_a_decision(place: Place, era: str) -> None:
    async with place.seat(era=era) as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?", title="Deploy", tags=["prod"])).json
        assert (asked["status"], asked["approved"]) == ("waiting", False)

        waiting = asyncio.create_task(seat.call("wait_for_breakpoint", breakpoint_id=asked["breakpointId"]))
        shown = await place.waiting()
        await place.answer(shown, approved=True, comment="Go on.")

        said = (await waiting).json
        assert (said["approved"], said["feedback"], said["respondedBy"]) == (True, "Go on.", "owner")
        assert (shown.agent_id, shown.tags, shown.question) == ("robot", ["prod"], "Deploy?")


@pytest.mark.parametrize(
    ("tool", "wrong", "meant"),
    [
        ("create_breakpoint", "hardStop", "hard_stop"),
        ("create_breakpoint", "ttl_second", "ttl_seconds"),
        ("ask_human", "Risk", "risk"),
        ("wait_for_breakpoint", "max_second", "max_seconds"),
        ("get_breakpoint", "breakpointId", "breakpoint_id"),
        ("comment", "texts", "text"),
        ("cancel_breakpoint", "breakpoint-id", "breakpoint_id"),
    ],
)
async def test_a_misspelled_argument_is_rejected_with_a_suggestion(
    place: Place, tool: str, wrong: str, meant: str
) -> None:
    async with place.seat() as seat:
        said = await seat.call(tool, **{wrong: "x"})

        assert said.failed
        assert f"has no argument {wrong!r}. Did you mean {meant!r}" in said.text
    async with place.reviewer() as person:
        assert (await person.list(status="waiting")).items == []


async def test_a_wait_that_times_out_reports_that_no_decision_was_made(place: Place) -> None:
    async with place.seat() as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?")).json
        said = (await seat.call("wait_for_breakpoint", breakpoint_id=asked["breakpointId"], max_seconds=0)).json

        assert (said["status"], said["approved"], said["message"]) == ("waiting", False, told.WAITING)


async def test_a_wait_cannot_exceed_the_client_timeout(place: Place) -> None:
    async with place.seat() as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?")).json

        assert (await seat.call("wait_for_breakpoint", breakpoint_id=asked["breakpointId"], max_seconds=51)).failed


async def test_a_new_comment_ends_the_wait_of_an_agent_that_tracks_comments(place: Place) -> None:
    async with place.seat() as seat:
        breakpoint_id = (await seat.call("create_breakpoint", question="Deploy?")).json["breakpointId"]
        await seat.call("comment", breakpoint_id=breakpoint_id, text="The breakpoint is urgent.")
        waiting = asyncio.create_task(seat.call("wait_for_breakpoint", breakpoint_id=breakpoint_id, comments_seen=0))
        await place.answer(await place.waiting(), comment="Which version?")

        said = (await waiting).json
        assert (said["status"], said["approved"]) == ("waiting", False)
        assert [(each["author"], each["comment"]) for each in said["comments"]] == [("person:owner", "Which version?")]
        again = await seat.call("wait_for_breakpoint", breakpoint_id=breakpoint_id, comments_seen=1, max_seconds=0)
        assert again.json["status"] == "waiting"


async def test_a_cancelled_question_does_not_count_as_approval(place: Place) -> None:
    async with place.seat() as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?")).json
        said = (await seat.call("cancel_breakpoint", breakpoint_id=asked["breakpointId"])).json

        assert (said["status"], said["approved"]) == ("cancelled", False)
        assert "The request was cancelled." in said["message"]


async def test_get_breakpoint_returns_the_whole_breakpoint(place: Place) -> None:
    async with place.seat() as seat:
        asked = (await seat.call("create_breakpoint", question="Deploy?", payload={"diff": "+1"}, run_id="r1")).json
        said = (await seat.call("get_breakpoint", breakpoint_id=asked["breakpointId"])).json

        assert (said["question"], said["payload"]["diff"], said["runId"]) == ("Deploy?", "+1", "r1")


async def test_a_restarted_agent_finds_its_question_by_key(place: Place) -> None:
    async with place.seat() as first:
        asked = (await first.call("create_breakpoint", question="Deploy?", key="run 7, step ü")).json
    async with place.seat() as second:
        found = (await second.call("create_breakpoint", question="Deploy?", key="run 7, step ü")).json
        other = (await second.call("create_breakpoint", question="Deploy?")).json

        assert found["breakpointId"] == asked["breakpointId"] != other["breakpointId"]


async def test_a_key_cannot_be_reused_for_a_different_question(place: Place) -> None:
    async with place.seat() as seat:
        await seat.call("create_breakpoint", question="Deploy?", key="k1")

        assert (await seat.call("create_breakpoint", question="Delete it all?", key="k1")).failed


async def test_the_agent_receives_the_reviewers_option_and_edits(place: Place) -> None:
    async with place.seat() as seat:
        asked = (
            await seat.call(
                "create_breakpoint",
                question="Where?",
                options=["blue", "green"],
                editable=["version"],
                payload={"arguments": {"version": "1.4"}},
            )
        ).json
        await place.answer(await place.waiting(), approved=True, option="green", edits={"version": "1.5"})

        said = (await seat.call("wait_for_breakpoint", breakpoint_id=asked["breakpointId"])).json
        assert (said["approved"], said["option"], said["edits"]) == (True, "green", {"version": "1.5"})


def test_an_approval_with_conflicting_edits_does_not_count() -> None:
    responses = [{"approved": True, "edits": {"n": 1}}, {"approved": True, "edits": {"n": 2}}]
    result = BreakpointResult(
        approved=True, status="released", auto=False, decision="approved", all_responses=responses, edits={"n": 2}
    )
    said = told.outcome("bp_1", Status(status="released", updated_at="", decision="approved", result=result))

    assert said["approved"] is False


def test_a_contradictory_status_does_not_count_as_approval() -> None:
    result = BreakpointResult(approved=True, status="expired", auto=False)
    said = told.outcome("bp_1", Status(status="expired", updated_at="", result=result))

    assert said["approved"] is False


@pytest.mark.parametrize("tool", ["create_breakpoint", "ask_human"])
async def test_an_unreachable_server_blocks_every_tool(place: Place, tool: str) -> None:
    async with place.seat(ASSENT_URL=f"http://127.0.0.1:{free_port()}") as seat:
        said = await seat.call(tool, question="Deploy?")

        assert said.failed
        assert "Blocked" in said.text
        assert "Nothing was approved" in said.text


async def test_a_call_with_an_unknown_token_fails(place: Place) -> None:
    async with place.seat(ASSENT_TOKEN=place.agent[:-8] + "00000000") as seat:
        assert (await seat.call("create_breakpoint", question="Deploy?")).failed


async def test_an_agent_can_access_only_its_own_breakpoints(place: Place) -> None:
    async with place.seat() as seat, place.seat(ASSENT_TOKEN=place.other_agent) as other:
        breakpoint_id = (await seat.call("create_breakpoint", question="Deploy?")).json["breakpointId"]

        for tool in ("get_breakpoint", "wait_for_breakpoint", "cancel_breakpoint"):
            assert (await other.call(tool, breakpoint_id=breakpoint_id)).failed
        assert (await place.found(breakpoint_id)).status == "waiting"


async def test_a_granted_permission_includes_the_reviewers_edits(place: Place) -> None:
    async with place.seat() as seat:
        asking = {"tool_name": "Bash", "input": {"command": "rm -r logs", "timeout": 5}, "tool_use_id": "toolu_1"}
        prompt = asyncio.create_task(seat.call("permission_prompt", **asking))
        shown = await place.waiting()
        await place.answer(shown, approved=True, edits={"command": "rm -r old-logs"})

        allowed = {"behavior": "allow", "updatedInput": {"command": "rm -r old-logs", "timeout": 5}}
        assert (await prompt).json == allowed
        assert shown.payload["arguments"] == asking["input"]


async def test_an_approval_does_not_apply_to_another_session_with_the_same_call_id(place: Place) -> None:
    asking = {"tool_name": "Bash", "input": {"command": "rm -r logs"}, "tool_use_id": "call_0"}
    for approved in (True, False):
        async with place.seat() as seat:
            prompt = asyncio.create_task(seat.call("permission_prompt", **asking))
            await place.answer(await place.waiting(), approved=approved)

            assert (await prompt).json["behavior"] == ("allow" if approved else "deny")


async def test_a_permission_request_shows_the_call_and_has_a_deadline(place: Place, tmp_path: Path) -> None:
    session = place.piped(era=ERAS[0], CLAUDE_CODE_SESSION_ID="a-session", CLAUDE_PROJECT_DIR=str(tmp_path))
    async with session as seat:
        given = {"tool_name": "Write", "input": {"file_path": str(tmp_path / "a.py"), "content": "x"}}
        prompt = asyncio.create_task(seat.call("permission_prompt", **given))
        shown = await place.waiting()
        await place.answer(shown, approved=True)
        assert (await prompt).json["behavior"] == "allow"
    assert (shown.question, shown.run_id) == ("Write a.py", "a-session")
    assert shown.ttl_seconds == TTL_SECONDS
    assert shown.payload["realPaths"] == {"file_path": str((tmp_path / "a.py").resolve())}
    assert shown.payload["directory"] == str(tmp_path), "a rule for this call is one for this project"


async def test_a_question_from_the_model_gets_the_reviewers_answer(place: Place) -> None:
    asked = {"question": "Which region?", "header": "Region", "options": [{"label": "eu"}, {"label": "us"}]}
    async with place.seat() as seat:
        given = {"tool_name": "AskUserQuestion", "input": {"questions": [asked]}}
        prompt = asyncio.create_task(seat.call("permission_prompt", **given))
        shown = await place.waiting()
        await place.answer(shown, approved=True, option="us")
        said = (await prompt).json
        assert (shown.question, shown.payload["options"]) == ("Which region?", ["eu", "us"])
        assert said["updatedInput"] == {"questions": [asked], "answers": {"Which region?": "us"}}
        refused = await seat.call("permission_prompt", tool_name="AskUserQuestion", input={"questions": []})
        assert refused.json["behavior"] == "deny"


async def test_with_a_pinned_key_granting_a_permission_requires_a_receipt_signed_with_it(place: Place) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    async with place.piped(era=ERAS[0], ASSENT_RECEIPT_KEY=key) as seat:
        given = {"tool_name": "Bash", "input": {"command": "rm"}}
        prompt = asyncio.create_task(seat.call("permission_prompt", **given))
        await place.answer(await place.waiting(), approved=True)
        assert (await prompt).json["behavior"] == "deny"


async def test_a_denied_permission_includes_the_reason(place: Place) -> None:
    async with place.seat() as seat:
        prompt = asyncio.create_task(seat.call("permission_prompt", tool_name="Bash", input={"command": "rm"}))
        await place.answer(await place.waiting(), approved=False, comment="Keep the logs.")

        said = (await prompt).json
        assert said["behavior"] == "deny"
        assert "Keep the logs." in said["message"]


async def test_a_call_that_cannot_be_displayed_is_denied(place: Place) -> None:
    async with place.seat() as seat:
        said = (await seat.call("permission_prompt", tool_name="Pay", input={"cents": 2**60})).json

        assert said["behavior"] == "deny"
