"""Comments and answers, and the validation of answers."""

from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node


async def events(node: Node, breakpoint_id: str) -> list[dict[str, Any]]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/events", await node.token("reviewer"))
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def ask(node: Node, **payload: Any) -> str:
    """Create a breakpoint with this payload and return its id."""
    breakpoint_id: str = (await node.create(payload={"question": "Deploy?", **payload}))["id"]
    return breakpoint_id


async def test_a_comment_alone_does_not_decide(shared: Node) -> None:
    asked = await ask(shared)
    for body in ({"comment": "Why?"}, {"comment": "Why?", "release": False}):
        answer = await shared.feedback(asked, await shared.token("reviewer"), **body)
        assert (answer.status_code, answer.json()["status"]) == (200, "waiting")
    after = answer.json()
    assert "decision" not in after
    assert after["responses"] == []
    assert [each["comment"] for each in after["feedback"]] == ["Why?", "Why?"]
    first = after["feedback"][0]
    assert set(first) == {"id", "breakpointId", "author", "comment", "createdAt"}
    assert (first["author"], first["breakpointId"]) == ("person:owner", asked)
    assert [each["type"] for each in await events(shared, asked)] == ["created", "commented", "commented"]


@pytest.mark.parametrize(
    ("body", "decision"),
    [
        ({"release": True}, "approved"),
        ({"approved": True}, "approved"),
        ({"release": True, "approved": True}, "approved"),
        ({"approved": False}, "rejected"),
        ({"release": True, "approved": False}, "rejected"),
        ({"release": True, "comment": ""}, "approved"),
        ({"approved": False, "comment": "No."}, "rejected"),
        ({"approved": True, "release": None}, "approved"),
    ],
)
async def test_release_approves_unless_approved_is_false(shared: Node, body: dict[str, Any], decision: str) -> None:
    asked = await ask(shared)
    answer = (await shared.feedback(asked, await shared.token("reviewer"), **body)).json()
    assert (answer["status"], answer["decision"]) == ("released", decision)
    assert answer["result"]["approved"] is (decision == "approved")
    assert answer["result"]["decision"] == decision
    assert answer["releasedAt"] == answer["updatedAt"]
    assert answer["decidedBy"] == "person:owner"
    assert [each["type"] for each in await events(shared, asked)] == ["created", "responded", "released"]


async def test_the_result_contains_every_answer_with_its_author_and_channel(shared: Node) -> None:
    asked = await ask(
        shared, options=["now", "tonight"], form={"properties": {"why": {"type": "string"}}}, editable=["n"]
    )
    body = {"release": True, "comment": "Go.", "option": "now", "answers": {"why": "ready"}, "edits": {"n": 8}}
    result = (await shared.feedback(asked, await shared.token("reviewer"), **body)).json()["result"]
    at = result["allResponses"][0].pop("respondedAt")
    assert result == {
        "approved": True,
        "status": "released",
        "decision": "approved",
        "response": "Go.",
        "feedback": "Go.",
        "option": "now",
        "answers": {"why": "ready"},
        "edits": {"n": 8},
        "respondedBy": "owner",
        "via": "api",
        "auto": False,
        "allResponses": [
            {
                "respondedBy": "owner",
                "approved": True,
                "via": "api",
                "feedback": "Go.",
                "option": "now",
                "answers": {"why": "ready"},
                "edits": {"n": 8},
            }
        ],
    }
    assert at.endswith("Z")
    responded = (await events(shared, asked))[1]
    assert responded["actor"] == "person:owner"
    assert responded["metadata"]["option"] == "now"
    assert responded["metadata"]["edits"] == {"n": 8}


async def test_the_response_falls_back_to_the_option_if_there_is_no_comment(shared: Node) -> None:
    asked = await ask(shared, options=["now", "tonight"])
    answer = await shared.feedback(asked, await shared.token("reviewer"), release=True, option="tonight")
    assert (answer.json()["result"]["response"], answer.json()["result"]["option"]) == ("tonight", "tonight")


async def test_a_rejection_does_not_require_an_option_form_or_confirmation(shared: Node) -> None:
    form = {"properties": {"why": {"type": "string"}}, "required": ["why"]}
    asked = await ask(shared, options=["now"], form=form, risk="high")
    answer = await shared.feedback(asked, await shared.token("reviewer"), approved=False)
    assert answer.json()["decision"] == "rejected"


FORM = {
    "type": "object",
    "required": ["why"],
    "properties": {
        "why": {"type": "string", "minLength": 2, "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
    },
}


@pytest.mark.parametrize(
    "answers",
    [
        None,
        {},
        {"why": "x"},
        {"why": "too long"},
        {"why": 5},
        {"why": None},
        {"why": "okay", "count": 0},
        {"why": "okay", "count": 10},
        {"why": "okay", "count": 1.5},
        {"why": "okay", "count": True},
        {"why": "okay", "count": "1"},
        {"why": "okay", "share": "half"},
        {"why": "okay", "sure": 1},
        {"why": "okay", "sure": "true"},
        {"why": "okay", "colour": "green"},
        {"why": "okay", "other": "x"},
    ],
)
async def test_an_approval_with_an_invalid_form_is_rejected(shared: Node, answers: dict[str, Any] | None) -> None:
    asked = await ask(shared, form=FORM)
    answer = await shared.feedback(asked, await shared.token("reviewer"), release=True, answers=answers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert len(await events(shared, asked)) == 1


async def test_the_result_includes_valid_form_answers(shared: Node) -> None:
    asked = await ask(shared, form=FORM)
    answers = {"why": "okay", "count": 9, "share": 0.5, "sure": False, "colour": "blue"}
    answer = await shared.feedback(asked, await shared.token("reviewer"), release=True, answers=answers)
    assert answer.json()["result"]["answers"] == answers


async def test_approving_high_risk_requires_the_gate_name(shared: Node) -> None:
    asked = await ask(shared, risk="high", breakpointId="data.drop")
    reviewer = await shared.token("reviewer")
    for confirm in ({}, {"confirm": ""}, {"confirm": "yes"}, {"confirm": "DATA.DROP"}, {"confirm": " data.drop"}):
        answer = await shared.feedback(asked, reviewer, release=True, **confirm)
        assert (answer.status_code, answer.json()["code"]) == (422, "confirmation_required")
        assert answer.json()["confirm"] == "data.drop"
    assert (await shared.feedback(asked, reviewer, release=True, confirm="data.drop")).json()["decision"] == "approved"


async def test_a_decision_with_a_mismatched_digest_returns_412(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    answer = await shared.feedback(created["id"], reviewer, release=True, digest="0" * 64)
    assert (answer.status_code, answer.json()["code"]) == (412, "digest_mismatch")
    assert answer.json()["stored"] == created["digest"]
    answer = await shared.feedback(created["id"], reviewer, release=True, digest=created["digest"])
    assert answer.json()["decision"] == "approved"
    assert (await events(shared, created["id"]))[1]["metadata"]["shownDigest"] == created["digest"]


async def test_a_decision_on_an_outdated_version_returns_412(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    path = f"/api/breakpoints/{created['id']}/feedback"
    await shared.feedback(created["id"], reviewer, comment="News!")
    old = await shared.call("POST", path, reviewer, json={"release": True}, headers={"If-Match": '"v1"'})
    assert (old.status_code, old.json()["code"], old.json()["version"]) == (412, "precondition_failed", 2)
    new = await shared.call("POST", path, reviewer, json={"release": True}, headers={"If-Match": '"v2"'})
    assert new.json()["decision"] == "approved"


@pytest.mark.parametrize("etag", ["*", 'W/"v1"', '"v1"'])
async def test_every_valid_form_of_if_match_is_accepted(shared: Node, etag: str) -> None:
    created = await shared.create()
    path = f"/api/breakpoints/{created['id']}/feedback"
    reviewer = await shared.token("reviewer")
    answer = await shared.call("POST", path, reviewer, json={"release": True}, headers={"If-Match": etag})
    assert answer.status_code == 200


@pytest.mark.parametrize("second", [{"release": True}, {"approved": False}, {"comment": "Too late?"}])
async def test_a_decided_breakpoint_rejects_further_feedback(shared: Node, second: dict[str, Any]) -> None:
    asked = await ask(shared)
    reviewer = await shared.token("reviewer")
    first = await shared.feedback(asked, reviewer, approved=False)
    answer = await shared.feedback(asked, reviewer, **second)
    assert (answer.status_code, answer.json()["code"]) == (409, "already_ended")
    assert answer.json()["standing"] == {
        "status": "released",
        "decision": "rejected",
        "by": "person:owner",
        "at": (await events(shared, asked))[-1]["timestamp"],
    }
    now = await shared.call("GET", f"/api/breakpoints/{asked}", reviewer)
    assert now.json() == first.json()


async def test_an_agent_can_comment_on_its_own_breakpoint(shared: Node, shared_clock: ManualClock) -> None:
    asked = await ask(shared)
    await shared.feedback(asked, await shared.token("reviewer"), comment="Which region?")
    shared_clock.advance(1)
    answer = await shared.feedback(asked, await shared.token("agent"), comment="eu-west-1")
    said = [(each["author"].partition(":")[0], each["comment"]) for each in answer.json()["feedback"]]
    assert said == [("person", "Which region?"), ("agent", "eu-west-1")]


async def test_the_history_is_gapless_and_chained(shared: Node) -> None:
    asked = await ask(shared)
    reviewer = await shared.token("reviewer")
    for n in range(3):
        await shared.feedback(asked, reviewer, comment=f"Comment {n}")
    await shared.feedback(asked, reviewer, release=True)
    found = await events(shared, asked)
    assert [each["seq"] for each in found] == list(range(1, 7))
    assert [each["type"] for each in found] == ["created", *["commented"] * 3, "responded", "released"]
    assert len({each["hash"] for each in found}) == 6
    for each in found:
        assert set(each) == {"id", "breakpointId", "seq", "type", "actor", "timestamp", "metadata", "hash"}
        assert each["id"] == f"{asked}.{each['seq']}"
        assert each["breakpointId"] == asked
    assert found[-1]["metadata"]["decision"] == "approved"


async def test_non_experts_cannot_answer_unless_an_admin_overrides(shared: Node) -> None:
    hanna = await shared.person("hanna", "reviewer")
    ivan = await shared.person("ivan", "reviewer")
    boss = await shared.person("boss", "admin")
    asked = await ask(shared, expert="hanna")
    refused = await shared.feedback(asked, ivan, release=True)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_eligible")
    assert (await shared.feedback(asked, ivan, comment="I would say yes.")).status_code == 200
    overridden = (await shared.feedback(asked, boss, release=True, comment="Urgent.")).json()
    assert (overridden["decision"], overridden["decidedBy"]) == ("approved", "person:boss")
    assert overridden["responses"][0]["override"] is True
    assert overridden["result"]["allResponses"][0]["override"] is True
    assert (await events(shared, asked))[-2]["metadata"]["override"] is True
    again = await ask(shared, expert="hanna")
    answered = (await shared.feedback(again, hanna, release=True)).json()
    assert answered["responses"][0]["expert"] == "hanna"
    assert "override" not in answered["responses"][0]


async def test_an_admin_who_is_not_a_reviewer_always_overrides(shared: Node) -> None:
    chief = await shared.person("chief", "admin")
    asked = await ask(shared)
    assert (await shared.feedback(asked, chief, release=True)).json()["responses"][0]["override"] is True
