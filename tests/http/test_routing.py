"""Assignment from end to end: who is asked, who can answer at the time of the answer, and what is recorded."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.support.nodes import ManualClock, Node

COUNTING = ("collect-all", "quorum")
EVERY_STRATEGY = ("single", "first-response-wins", *COUNTING)


async def admin(node: Node, method: str, path: str, body: Any = None) -> httpx2.Response:
    answer = await node.call(method, path, await node.token("admin"), json=body)
    assert answer.status_code < 400, answer.text
    return answer


async def reviewers(node: Node, *names: str) -> dict[str, str]:
    return {name: await node.person(name, "reviewer") for name in names}


async def group(node: Node, name: str, *members: str) -> None:
    await admin(node, "PUT", f"/api/groups/{name}", {"members": list(members)})


async def asked(node: Node, *experts: str, strategy: str = "single") -> str:
    made = await node.create(payload={"question": "?", "expert": list(experts), "strategy": strategy})
    breakpoint_id: str = made["id"]
    return breakpoint_id


async def seen(node: Node, breakpoint_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (
        await node.call("GET", f"/api/breakpoints/{breakpoint_id}", await node.token("agent"))
    ).json()
    return found


async def vote(node: Node, breakpoint_id: str, token: str, *, approved: bool = True, **more: Any) -> dict[str, Any]:
    assert isinstance(node.assent.clock, ManualClock)
    node.assent.clock.advance(1)  # answers are sorted by the time of each person's first answer
    answer = await node.feedback(breakpoint_id, token, approved=approved, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refused(node: Node, breakpoint_id: str, token: str) -> tuple[int, str]:
    answer = await node.feedback(breakpoint_id, token, approved=True)
    return answer.status_code, answer.json()["code"]


async def history(node: Node, breakpoint_id: str) -> list[tuple[str, dict[str, Any]]]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/events", await node.token("agent"))
    return [(each["type"], each["metadata"]) for each in answer.json()["items"]]


async def listed(node: Node, token: str) -> list[str]:
    """Return the ids of the breakpoints assigned to a person, oldest first."""
    answer = await node.call("GET", "/api/breakpoints?assignedTo=me&sort=created", token)
    return [each["id"] for each in answer.json()["items"]]


@pytest.mark.parametrize("strategy", EVERY_STRATEGY)
async def test_every_strategy_shows_each_answer_with_its_expert(node: Node, strategy: str) -> None:
    tokens = await reviewers(node, "ann", "bob")
    await group(node, "ops", "bob")
    made = await asked(node, "ann", "ops", strategy=strategy)
    partial: list[Any] = []
    for name in ("ann", "bob"):
        after = await vote(node, made, tokens[name], comment=f"{name} says yes")
        if after["status"] == "released":
            break
        partial = (await seen(node, made))["responses"]
    given = after["result"]["allResponses"]
    assert partial == given[: len(partial)], "earlier answers are part of the result"
    assert [(each["respondedBy"], each["expert"], each["feedback"]) for each in given] == [
        ("ann", "ann", "ann says yes"),
        ("bob", "ops", "bob says yes"),
    ][: len(given)]
    assert len(given) == (2 if strategy in COUNTING else 1)
    assert (await seen(node, made))["result"] == after["result"]


@pytest.mark.parametrize("strategy", COUNTING)
@pytest.mark.parametrize("last", [True, False])
async def test_only_a_persons_last_answer_counts(node: Node, strategy: str, last: bool) -> None:  # noqa: FBT001
    tokens = await reviewers(node, "ann", "bob", "cid")
    made = await asked(node, *tokens, strategy=strategy)
    await vote(node, made, tokens["ann"], approved=not last, comment="first")
    for name, token in tokens.items():
        after = await vote(node, made, token, approved=last, comment=f"last of {name}")
        if after["status"] == "released":
            break
    assert after["decision"] == ("approved" if last else "rejected")
    assert [(each["respondedBy"], each["approved"], each["feedback"]) for each in after["result"]["allResponses"]] == [
        (name, last, f"last of {name}") for name in tokens
    ][: 3 if strategy == "collect-all" else 2]


Step = Callable[[Node], Awaitable[object]]


async def slowly(node: Node, breakpoint_id: str, token: str, meanwhile: Step) -> tuple[int, str]:
    """Answer over a slow connection: `meanwhile` happens after authentication and before the body is complete."""

    async def body() -> AsyncIterator[bytes]:
        sent = json.dumps({"approved": True}).encode()
        yield sent[:5]
        await meanwhile(node)
        yield sent[5:]

    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    path = f"/api/breakpoints/{breakpoint_id}/feedback"
    answer = await node.client.post(path, headers=headers, content=body())
    return answer.status_code, answer.json().get("code", "")


async def lose_role(node: Node) -> None:
    await admin(node, "PATCH", "/api/people/ann", {"roles": ["viewer"]})


async def lose_account(node: Node) -> None:
    await admin(node, "PATCH", "/api/people/ann", {"active": False})


async def lose_token(node: Node) -> None:
    found = (await admin(node, "GET", "/api/tokens")).json()["items"]
    await admin(node, "DELETE", f"/api/tokens/{next(each['id'] for each in found if each['name'] == 'ann')}")


async def leave_group(node: Node) -> None:
    await group(node, "ops", "bob")


async def lose_group(node: Node) -> None:
    await admin(node, "DELETE", "/api/groups/ops")


async def lose_ownership(node: Node) -> None:
    await admin(node, "PATCH", "/api/projects/default", {"owner": "bob"})


async def lose_nothing(node: Node) -> None:
    await node.token("admin")


WITHDRAWN: dict[str, tuple[Step, str, str]] = {
    "role": (lose_role, "ann", "forbidden"),
    "role, asked as one of a group": (lose_role, "ops", "forbidden"),
    "account": (lose_account, "ann", "forbidden"),
    "token": (lose_token, "ann", "forbidden"),
    "membership": (leave_group, "ops", "not_eligible"),
    "group": (lose_group, "ops", "not_eligible"),
    "ownership": (lose_ownership, "owner", "not_eligible"),
    "ownership, standing in": (lose_ownership, "ghost", "not_eligible"),
}


@pytest.mark.parametrize("what", WITHDRAWN)
@pytest.mark.parametrize("strategy", ["single", "quorum"])
async def test_an_answer_is_rejected_if_its_permission_is_withdrawn_while_it_is_sent(
    node: Node, what: str, strategy: str
) -> None:
    meanwhile, expert, code = WITHDRAWN[what]
    tokens = await reviewers(node, "ann", "bob")
    await group(node, "ops", "ann", "bob")
    await admin(node, "PATCH", "/api/projects/default", {"owner": "ann"})
    made = await asked(node, expert, strategy=strategy)
    before = await seen(node, made)
    assert (await node.call("GET", f"/api/breakpoints/{made}", tokens["ann"])).status_code == 200
    assert await slowly(node, made, tokens["ann"], meanwhile) == (403, code)
    assert await seen(node, made) == before, "the answer is not stored"
    assert "responded" not in [kind for kind, _ in await history(node, made)]


async def test_a_slow_answer_with_unchanged_permissions_is_accepted(node: Node) -> None:
    """A control for the previous test: the slow connection alone does not cause a rejection."""
    tokens = await reviewers(node, "ann")
    made = await asked(node, "ann")
    assert await slowly(node, made, tokens["ann"], lose_nothing) == (200, "")
    assert (await seen(node, made))["decision"] == "approved"


async def test_a_new_group_member_can_answer_immediately(node: Node) -> None:
    tokens = await reviewers(node, "ann", "bob")
    await group(node, "ops", "ann")
    made = await asked(node, "ops")
    assert await refused(node, made, tokens["bob"]) == (403, "not_eligible")
    await group(node, "ops", "ann", "bob")
    assert (await vote(node, made, tokens["bob"]))["result"]["allResponses"][0]["expert"] == "ops"


async def test_an_answer_remains_valid_after_the_person_is_deactivated(node: Node) -> None:
    tokens = await reviewers(node, "ann", "bob")
    made = await asked(node, "ann", "bob", strategy="collect-all")
    await vote(node, made, tokens["ann"])
    await lose_account(node)
    assert (await node.feedback(made, tokens["ann"], approved=False)).status_code in {401, 403}
    after = await vote(node, made, tokens["bob"])
    assert (after["decision"], len(after["result"]["allResponses"])) == ("approved", 2)


async def test_an_admin_can_decide_if_no_expert_can_answer_anymore(node: Node) -> None:
    tokens = await reviewers(node, "ann", "bob")
    made = await asked(node, "ann", strategy="quorum")
    await lose_role(node)
    assert await refused(node, made, tokens["ann"]) == (403, "forbidden")
    assert await refused(node, made, tokens["bob"]) == (403, "not_eligible")
    after = await vote(node, made, await node.token("admin"))
    assert (after["decision"], after["responses"][0]["override"]) == ("approved", True)


async def test_ownership_is_determined_at_the_time_of_the_answer(node: Node) -> None:
    tokens = await reviewers(node, "ann", "bob")
    await admin(node, "PATCH", "/api/projects/default", {"owner": "ann"})
    made = await asked(node, "owner")
    assert (await listed(node, tokens["ann"]), await listed(node, tokens["bob"])) == ([made], [])
    await admin(node, "PATCH", "/api/projects/default", {"owner": "bob"})
    assert (await listed(node, tokens["ann"]), await listed(node, tokens["bob"])) == ([], [made])
    assert await refused(node, made, tokens["ann"]) == (403, "not_eligible")
    (given,) = (await vote(node, made, tokens["bob"]))["responses"]
    assert (given["respondedBy"], given["expert"]) == ("bob", "owner")
    assert {"inPlaceOf", "override"} & set(given) == set(), "the owner was asked directly"


async def test_an_owner_who_is_not_a_reviewer_cannot_answer(node: Node) -> None:
    viewer = await node.person("vic", "viewer")
    await admin(node, "PATCH", "/api/projects/default", {"owner": "vic"})
    made = await node.create(payload={"question": "?", "expert": "owner"})
    assert made["warnings"] == ["No person or group named 'owner' exists; an admin can respond instead."]
    assert await refused(node, made["id"], viewer) == (403, "forbidden")


async def test_the_assigned_to_me_filter_follows_group_membership(node: Node) -> None:
    tokens = await reviewers(node, "ann", "bob")
    await group(node, "ops", "ann")
    made = await asked(node, "ops", "bob", strategy="quorum")
    assert (await listed(node, tokens["ann"]), await listed(node, tokens["bob"])) == ([made], [made])
    await group(node, "ops")
    assert await listed(node, tokens["ann"]) == []


async def test_breakpoints_for_unknown_experts_are_assigned_to_the_owner(node: Node) -> None:
    owner = await node.token("reviewer")
    made = await asked(node, "ghost")
    assert await listed(node, owner) == [made]


@pytest.mark.parametrize("approved", [True, False])
async def test_an_admins_override_is_recorded_as_an_override(node: Node, approved: bool) -> None:  # noqa: FBT001
    tokens = await reviewers(node, "ann", "bob")
    boss = await node.person("boss", "admin")
    made = await asked(node, "ann", "bob", strategy="collect-all")
    await vote(node, made, tokens["ann"], approved=not approved)
    after = await vote(node, made, boss, approved=approved, comment="I take it on me.")
    assert (after["decision"], after["decidedBy"]) == ("approved" if approved else "rejected", "person:boss")
    events = await history(node, made)
    assert [kind for kind, _ in events] == ["created", "responded", "responded", "released"]
    assert [metadata.get("override", False) for _, metadata in events[1:3]] == [False, True]
    assert [each["respondedBy"] for each in after["result"]["allResponses"]] == ["ann", "boss"]
    assert "expert" not in after["result"]["allResponses"][1]


async def test_an_admin_who_is_an_expert_does_not_override(node: Node) -> None:
    both = await node.person("both", "admin", "reviewer")
    await reviewers(node, "ann")
    made = await asked(node, "both", "ann", strategy="collect-all")
    after = await vote(node, made, both)
    assert (after["status"], after["responses"][0]["expert"]) == ("waiting", "both")
    assert "override" not in after["responses"][0]


async def test_the_owner_votes_once_for_all_unknown_experts(node: Node) -> None:
    tokens = await reviewers(node, "ann")
    made = await node.create(
        payload={"question": "?", "expert": ["ghost", "ann", "spook"], "strategy": "collect-all"},
    )
    assert [warning.split(";")[0] for warning in made["warnings"]] == [
        "No person or group named 'ghost' exists",
        "No person or group named 'spook' exists",
    ]
    assert (await vote(node, made["id"], tokens["ann"]))["status"] == "waiting"
    after = await vote(node, made["id"], await node.token("reviewer"))
    assert after["decision"] == "approved"
    assert after["result"]["allResponses"][1]["inPlaceOf"] == ["ghost", "spook"]
    recorded = [metadata for kind, metadata in await history(node, made["id"]) if kind == "responded"]
    assert [metadata.get("inPlaceOf") for metadata in recorded] == [None, ["ghost", "spook"]]


async def test_a_person_created_later_answers_under_their_own_name(node: Node) -> None:
    made = await asked(node, "newcomer")
    newcomer = await node.person("newcomer", "reviewer")
    assert await listed(node, newcomer) == [made]
    (given,) = (await vote(node, made, newcomer))["responses"]
    assert (given["respondedBy"], "inPlaceOf" in given) == ("newcomer", False)


NOBODY = {"a name": "ghost", "a viewer": "vic", "a group of viewers": "lookers", "an empty group": "nobody"}


@pytest.mark.parametrize("who", NOBODY)
@pytest.mark.parametrize("choice", ["warn", "refuse"])
async def test_the_policy_decides_whether_unknown_experts_are_rejected(node: Node, who: str, choice: str) -> None:
    await node.person("vic", "viewer")
    await group(node, "lookers", "vic")
    await group(node, "nobody")
    await admin(node, "PUT", "/api/policy", {"unknownExperts": choice})
    sent = {"agentId": "ci", "payload": {"question": "?", "expert": ["owner", NOBODY[who]]}}
    answer = await node.call("POST", "/api/breakpoints", await node.token("agent"), json=sent)
    if choice == "refuse":
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert (await admin(node, "GET", "/api/breakpoints")).json()["items"] == []
    else:
        assert (answer.status_code, len(answer.json()["warnings"])) == (201, 1)


@pytest.mark.parametrize("strategy", COUNTING)
async def test_a_person_named_directly_and_in_a_group_has_one_vote(node: Node, strategy: str) -> None:
    tokens = await reviewers(node, "ann", "bob")
    await group(node, "ops", "ann", "bob")
    made = await asked(node, "ann", "ops", strategy=strategy)
    for _ in range(2):
        after = await vote(node, made, tokens["ann"])
        assert (after["status"], len(after["responses"])) == ("waiting", 1)
    after = await vote(node, made, tokens["bob"])
    assert after["decision"] == "approved"
    assert [(each["respondedBy"], each["expert"]) for each in after["result"]["allResponses"]] == [
        ("ann", "ann"),
        ("bob", "ops"),
    ]


@pytest.mark.parametrize("strategy", COUNTING)
async def test_a_rejection_by_one_member_counts_for_the_group(node: Node, strategy: str) -> None:
    tokens = await reviewers(node, "ann", "bob", "cid")
    await group(node, "ops", "ann", "bob")
    made = await asked(node, "ops", "cid", strategy=strategy)
    after = await vote(node, made, tokens["ann"], approved=False)
    if after["status"] == "waiting":
        assert await refused(node, made, tokens["bob"]) == (409, "seat_taken")
        after = await vote(node, made, tokens["cid"])
    assert after["decision"] == "rejected"
