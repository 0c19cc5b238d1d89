"""A retried request takes effect once and returns the recorded outcome."""

import asyncio
from typing import Any

from tests.support.nodes import ManualClock, Node

BODY = {"agentId": "a", "title": "Once", "payload": {"question": "?", "n": 1.5}}


async def create(node: Node, key: str, token: str | None = None, **changes: Any) -> Any:
    token = token or await node.token("agent")
    headers = {"Idempotency-Key": key}
    return await node.call("POST", "/api/breakpoints", token, json=BODY | changes, headers=headers)


async def answer(node: Node, breakpoint_id: str, key: str, token: str, **body: Any) -> Any:
    headers = {"Idempotency-Key": key}
    return await node.call("POST", f"/api/breakpoints/{breakpoint_id}/feedback", token, json=body, headers=headers)


async def types(node: Node, breakpoint_id: str) -> list[str]:
    found = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/events", await node.token("reviewer"))
    return [each["type"] for each in found.json()["items"]]


async def test_the_same_key_and_body_return_the_same_breakpoint(shared: Node) -> None:
    first, second = await create(shared, "k-1"), await create(shared, "k-1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert (await create(shared, "k-1b")).json()["id"] != first.json()["id"]


async def test_reordered_fields_count_as_the_same_body(shared: Node) -> None:
    first = await create(shared, "k-order")
    backwards = dict(reversed(BODY.items()))
    headers = {"Idempotency-Key": "k-order"}
    second = await shared.call("POST", "/api/breakpoints", await shared.token("agent"), json=backwards, headers=headers)
    assert second.json()["id"] == first.json()["id"]


async def test_reusing_a_key_with_a_different_body_returns_422(shared: Node) -> None:
    first = await create(shared, "k-2")
    second = await create(shared, "k-2", title="Twice")
    assert (second.status_code, second.json()["code"]) == (422, "idempotency_mismatch")
    assert (await create(shared, "k-2")).json()["id"] == first.json()["id"]


async def test_idempotency_keys_are_scoped_to_their_token(shared: Node) -> None:
    mine = await create(shared, "k-3")
    other = await shared.token("agent", name="another")
    theirs = await create(shared, "k-3", other, title="Theirs")
    assert theirs.status_code == 201
    assert theirs.json()["id"] != mine.json()["id"]


async def test_fifty_simultaneous_requests_with_one_key_create_one_breakpoint(shared: Node) -> None:
    answers = await asyncio.gather(*(create(shared, "k-4", tags=["fifty"]) for _ in range(50)))
    assert {each.status_code for each in answers} == {201}
    assert len({each.json()["id"] for each in answers}) == 1
    listed = await shared.call("GET", "/api/breakpoints?tag=fifty", await shared.token("viewer"))
    assert len(listed.json()["items"]) == 1


async def test_a_rejected_request_does_not_consume_its_key(shared: Node) -> None:
    bad = await create(shared, "k-5", payload={"strategy": "quorum"})
    assert bad.status_code == 422
    assert (await create(shared, "k-5")).status_code == 201


async def test_a_retry_returns_the_current_state(shared: Node) -> None:
    first = await create(shared, "k-6")
    await shared.feedback(first.json()["id"], await shared.token("reviewer"), release=True)
    retried = await create(shared, "k-6")
    assert (retried.status_code, retried.json()["id"]) == (201, first.json()["id"])
    assert retried.json()["decision"] == "approved"


async def test_a_policy_change_does_not_affect_a_retry(node: Node) -> None:
    payload = {"question": "?", "expert": "ghost"}
    first = await create(node, "k-7", payload=payload)
    await node.call("PUT", "/api/policy", await node.token("admin"), json={"unknownExperts": "refuse"})
    retried = await create(node, "k-7", payload=payload)
    assert (retried.status_code, retried.json().get("id")) == (201, first.json()["id"])


async def test_a_retried_decision_gets_the_recorded_outcome_instead_of_a_409(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    first = await answer(shared, created["id"], "d-1", reviewer, release=True, comment="Go.")
    second = await answer(shared, created["id"], "d-1", reviewer, release=True, comment="Go.")
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == first.json()
    assert await types(shared, created["id"]) == ["created", "responded", "released"]
    assert (await answer(shared, created["id"], "d-2", reviewer, release=True)).status_code == 409


async def test_retrying_a_decision_with_a_different_outcome_returns_422(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    await answer(shared, created["id"], "d-3", reviewer, approved=False)
    second = await answer(shared, created["id"], "d-3", reviewer, approved=True)
    assert (second.status_code, second.json()["code"]) == (422, "idempotency_mismatch")


async def test_the_same_key_cannot_decide_two_breakpoints(shared: Node) -> None:
    first, second = await shared.create(), await shared.create()
    reviewer = await shared.token("reviewer")
    await answer(shared, first["id"], "d-4", reviewer, release=True)
    reused = await answer(shared, second["id"], "d-4", reviewer, release=True)
    assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_mismatch")
    assert await types(shared, second["id"]) == ["created"]


async def test_a_losing_decision_never_succeeds_even_when_retried(shared: Node) -> None:
    created = await shared.create()
    reviewer, other = await shared.token("reviewer"), await shared.person("quentin", "reviewer")
    await answer(shared, created["id"], "d-5", reviewer, approved=False)
    for _ in range(2):
        late = await answer(shared, created["id"], "d-5", other, approved=True)
        assert (late.status_code, late.json()["standing"]["decision"]) == (409, "rejected")


async def test_a_retried_comment_is_added_once(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    for _ in range(3):
        said = await answer(shared, created["id"], "c-1", reviewer, comment="Hm.")
        assert said.status_code == 200
    assert len(said.json()["feedback"]) == 1


async def test_a_retried_comment_succeeds_even_after_the_breakpoint_has_ended(node: Node, clock: ManualClock) -> None:
    decided, overdue = await node.create(), await node.create(ttlSeconds=60)
    reviewer = await node.token("reviewer")
    for each in (decided, overdue):
        await answer(node, each["id"], f"c-{each['id']}", reviewer, comment="Hm.")
    await node.feedback(decided["id"], reviewer, release=True)
    clock.advance(60)
    for each in (decided, overdue):
        retried = await answer(node, each["id"], f"c-{each['id']}", reviewer, comment="Hm.")
        assert (retried.status_code, len(retried.json().get("feedback", []))) == (200, 1)


async def test_fifty_simultaneous_requests_with_one_key_decide_once(shared: Node) -> None:
    created = await shared.create()
    reviewer = await shared.token("reviewer")
    answers = await asyncio.gather(
        *(answer(shared, created["id"], "d-6", reviewer, release=True, comment="Go.") for _ in range(50))
    )
    assert {each.status_code for each in answers} == {200}
    assert await types(shared, created["id"]) == ["created", "responded", "released"]


async def test_exactly_one_of_many_reviewers_wins_and_the_others_learn_the_winners_name(shared: Node) -> None:
    created = await shared.create()
    names = [f"racer-{n}" for n in range(8)]
    tokens = [await shared.person(name, "reviewer") for name in names]
    answers = await asyncio.gather(
        *(shared.feedback(created["id"], token, approved=n % 2 == 0) for n, token in enumerate(tokens))
    )
    won = [each.json() for each in answers if each.status_code == 200]
    lost = [each.json() for each in answers if each.status_code == 409]
    assert (len(won), len(lost)) == (1, 7)
    assert {each["standing"]["by"] for each in lost} == {won[0]["decidedBy"]}
    assert {each["standing"]["decision"] for each in lost} == {won[0]["decision"]}
