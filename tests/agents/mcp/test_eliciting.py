"""The effect of answers given in the agent's own client, in both protocol versions."""

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult, InputRequiredResult

from tests.agents.mcp.seats import ERAS, Person, Place, saying

both_eras = pytest.mark.parametrize("era", ERAS)


@both_eras
async def test_an_approval_in_the_client_counts_with_a_personal_token(place: Place, era: str) -> None:
    who = saying("accept", decision="approve", comment="Fine.")
    async with place.seat(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?", title="Deploy", payload={"version": "1.4"})).json

        found = await place.found(said["breakpointId"])
        assert (said["approved"], said["respondedBy"], said["feedback"]) == (True, "olga", "Fine.")
        assert (found.decision, found.created_by.partition(":")[0]) == ("approved", "agent")
        (form,) = who.shown
        assert isinstance(form, ElicitRequestFormParams)
        for part in ("robot", "Deploy?", '"version": "1.4"', found.id):
            assert part in form.message


@both_eras
@pytest.mark.parametrize("answer", [("accept", {"decision": "reject", "comment": "No."}), ("decline", {})])
async def test_a_rejection_in_the_client_counts_with_a_personal_token(
    place: Place, era: str, answer: tuple[str, dict[str, Any]]
) -> None:
    action, content = answer
    async with place.seat(era=era, who=saying(action, **content), ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?")).json

        assert (said["status"], said["approved"], said["respondedBy"]) == ("released", False, "olga")


@both_eras
@pytest.mark.parametrize("answer", [("accept", {"decision": "approve", "comment": "Fine."}), ("decline", {})])
async def test_an_answer_without_a_personal_token_becomes_a_comment(
    place: Place, era: str, answer: tuple[str, dict[str, Any]]
) -> None:
    action, content = answer
    async with place.seat(era=era, who=saying(action, **content)) as seat:
        said = (await seat.call("ask_human", question="Deploy?", max_seconds=0)).json

        found = await place.found(said["breakpointId"])
        assert (said["status"], said["approved"], found.responses) == ("waiting", False, [])
        (comment,) = found.feedback
        assert comment.author.startswith("agent:")
        assert "by an unidentified person" in comment.comment


@both_eras
@pytest.mark.parametrize(
    "answer",
    [
        ("cancel", {}),
        ("accept", {}),
        ("accept", {"decision": "yes"}),
        ("accept", {"decision": "Approve"}),
        ("accept", {"decision": True}),
        ("accept", {"comment": "approve"}),
    ],
)
async def test_an_unclear_answer_leaves_the_decision_to_the_inbox(
    place: Place, era: str, answer: tuple[str, dict[str, Any]]
) -> None:
    action, content = answer
    async with place.seat(era=era, who=saying(action, **content), ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?", max_seconds=0)).json

        found = await place.found(said["breakpointId"])
        assert (said["status"], said["approved"]) == ("waiting", False)
        assert (found.responses, found.feedback) == ([], [])


@both_eras
@pytest.mark.parametrize(
    "asking",
    [
        {"risk": "high"},
        {"payload": {"risk": "high"}},
        {"payload": {"plan": "x" * 4_000}},
        {"payload": {"form": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
        {"payload": {"context": {"files": [{"path": "a.txt", "format": "text", "content": "a"}]}}},
    ],
    ids=["high risk", "high risk in the payload", "too long", "a form", "files"],
)
async def test_questions_that_need_the_inbox_are_not_shown_in_the_client(
    place: Place, era: str, asking: dict[str, Any]
) -> None:
    who = saying("accept", decision="approve")
    async with place.seat(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Deploy?", max_seconds=0, **asking)).json

        assert (said["status"], said["approved"], who.shown) == ("waiting", False, [])


@both_eras
async def test_the_inbox_decides_if_the_client_cannot_show_forms(place: Place, era: str) -> None:
    async with place.seat(era=era, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        asking = asyncio.create_task(seat.call("ask_human", question="Deploy?"))
        await place.answer(await place.waiting(), approved=True)

        said = (await asking).json
        assert (said["approved"], said["respondedBy"]) == (True, "owner")


@both_eras
async def test_an_option_can_be_selected_in_the_client(place: Place, era: str) -> None:
    who = saying("accept", decision="approve", option="green")
    async with place.seat(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Where?", options=["blue", "green"])).json

        assert (said["approved"], said["option"]) == (True, "green")


@both_eras
async def test_an_approval_without_a_required_option_does_not_count(place: Place, era: str) -> None:
    who = saying("accept", decision="approve")
    async with place.seat(era=era, who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        said = (await seat.call("ask_human", question="Where?", options=["blue", "green"], max_seconds=0)).json

        assert (said["status"], said["approved"]) == ("waiting", False)
        assert "was not counted" in said["message"]


@both_eras
async def test_people_cannot_approve_their_own_question_in_the_client(place: Place, era: str) -> None:
    who = saying("accept", decision="approve")
    async with place.seat(
        era=era, who=who, ASSENT_TOKEN=place.person, ASSENT_REVIEWER_TOKEN=place.person_again
    ) as seat:
        said = (await seat.call("ask_human", question="Deploy?", max_seconds=0)).json

        assert (said["status"], said["approved"]) == ("waiting", False)
        assert "was not counted" in said["message"]


@both_eras
async def test_invisible_characters_are_escaped_in_forms(place: Place, era: str) -> None:
    who = saying("cancel")
    async with place.seat(era=era, who=who) as seat:
        await seat.call("ask_human", question="Deploy \u202e?\u200b", payload={"k\u2066": "v\x1b[2J"}, max_seconds=0)

        (form,) = who.shown
        assert not {"\u202e", "\u200b", "\u2066", "\x1b"} & set(form.message)
        assert "\\u202e" in form.message


async def test_a_form_is_withdrawn_when_the_inbox_decides_first(place: Place) -> None:
    who = saying("accept", decision="approve")
    who.thinks = asyncio.Event()
    async with place.seat(era="legacy", who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        asking = asyncio.create_task(seat.call("ask_human", question="Deploy?"))
        await who.sees.wait()
        await place.answer(await place.waiting(), approved=False, comment="Not today.")

        said = (await asking).json
        assert (said["status"], said["approved"], said["respondedBy"]) == ("released", False, "owner")
        assert who.taken_away


async def test_a_late_form_does_not_change_the_first_decision(place: Place) -> None:
    who = saying("accept", decision="approve")
    who.thinks = asyncio.Event()
    async with place.seat(era="2026-07-28", who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        asking = asyncio.create_task(seat.call("ask_human", question="Deploy?"))
        await who.sees.wait()
        await place.answer(await place.waiting(), approved=False, comment="Not today.")
        who.thinks.set()

        said = (await asking).json
        assert (said["status"], said["approved"], said["respondedBy"]) == ("released", False, "owner")


async def test_an_answer_cannot_be_used_for_another_question(place: Place) -> None:
    yes = ElicitResult(action="accept", content={"decision": "approve"})
    who = Person(lambda: yes)
    async with place.seat(who=who, ASSENT_REVIEWER_TOKEN=place.olga) as seat:
        session = seat.client.session
        first = await session.call_tool("ask_human", {"question": "Restart?"}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)

        with pytest.raises(MCPError, match="requestState"):
            await session.call_tool(
                "ask_human",
                {"question": "Delete it all?"},
                input_responses={"answer": yes},
                request_state=first.request_state,
                allow_input_required=True,
            )
        assert (await place.waiting()).responses == []
