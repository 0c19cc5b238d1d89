"""Strategies end to end: several people answer a breakpoint over HTTP."""

from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node

PEOPLE = ("kim", "lea", "max", "nia")


@pytest.fixture(scope="module")
async def people(shared: Node) -> dict[str, str]:
    tokens = {name: await shared.person(name, "reviewer") for name in PEOPLE}
    admin = await shared.token("admin")
    await shared.call("PUT", "/api/groups/pair", admin, json={"members": ["kim", "lea"]})
    await shared.call("PUT", "/api/groups/trio", admin, json={"members": ["lea", "max", "nia"]})
    return tokens


async def ask(node: Node, strategy: str, *experts: str) -> str:
    payload = {"question": "?", "strategy": strategy, "expert": list(experts)}
    breakpoint_id: str = (await node.create(payload=payload))["id"]
    return breakpoint_id


async def vote(node: Node, breakpoint_id: str, token: str, answer: str) -> dict[str, Any]:
    body = {"approved": answer == "yes", "comment": f"I say {answer}."}
    found: dict[str, Any] = (await node.feedback(breakpoint_id, token, **body)).json()
    return found


SETTLED = [
    ("single", 3, ["yes"], "approved"),
    ("single", 3, ["no"], "rejected"),
    ("first-response-wins", 3, ["yes"], "approved"),
    ("first-response-wins", 2, ["no"], "rejected"),
    ("collect-all", 3, ["yes", "yes", "yes"], "approved"),
    ("collect-all", 3, ["no", "yes", "yes"], "rejected"),
    ("collect-all", 1, ["yes"], "approved"),
    ("quorum", 3, ["yes", "yes"], "approved"),
    ("quorum", 3, ["no", "no"], "rejected"),
    ("quorum", 3, ["yes", "no", "yes"], "approved"),
    ("quorum", 3, ["no", "yes", "no"], "rejected"),
    ("quorum", 4, ["yes", "yes", "yes"], "approved"),
    ("quorum", 4, ["yes", "no", "no"], "rejected"),
    ("quorum", 2, ["yes", "yes"], "approved"),
    ("quorum", 2, ["no"], "rejected"),
    ("quorum", 1, ["yes"], "approved"),
]


@pytest.mark.parametrize(("strategy", "seats", "votes", "decision"), SETTLED)
async def test_a_strategy_decides_exactly_on_its_last_required_vote(
    shared: Node,
    shared_clock: ManualClock,
    people: dict[str, str],
    strategy: str,
    seats: int,
    votes: list[str],
    decision: str,
) -> None:
    asked = await ask(shared, strategy, *PEOPLE[:seats])
    for number, (name, answer) in enumerate(zip(PEOPLE, votes, strict=False), 1):
        shared_clock.advance(1)
        after = await vote(shared, asked, people[name], answer)
        assert len(after["responses"]) == number
        if number < len(votes):
            assert after["status"] == "waiting"
            assert "decision" not in after
    assert (after["status"], after["decision"]) == ("released", decision)
    result = after["result"]
    assert [each["respondedBy"] for each in result["allResponses"]] == list(PEOPLE[: len(votes)])
    assert [each["approved"] for each in result["allResponses"]] == [answer == "yes" for answer in votes]
    assert result["respondedBy"] == PEOPLE[len(votes) - 1]
    assert result["approved"] is (decision == "approved")
    for name, answer in zip(PEOPLE, votes, strict=False):
        assert f"I say {answer}." in result["feedback"]
        assert len(votes) == 1 or f"{name}: " in result["feedback"]


async def test_votes_are_visible_to_every_reader_before_the_decision(shared: Node, people: dict[str, str]) -> None:
    asked = await ask(shared, "collect-all", "kim", "lea")
    await vote(shared, asked, people["kim"], "yes")
    for token in (await shared.token("agent"), people["lea"], await shared.token("viewer")):
        seen = (await shared.call("GET", f"/api/breakpoints/{asked}", token)).json()
        assert [(each["respondedBy"], each["approved"]) for each in seen["responses"]] == [("kim", True)]
        assert "result" not in seen


async def test_a_person_can_change_their_vote_until_the_decision(shared: Node, people: dict[str, str]) -> None:
    asked = await ask(shared, "quorum", "kim", "lea", "max")
    for answer in ("yes", "no", "yes"):
        after = await vote(shared, asked, people["kim"], answer)
        assert after["status"] == "waiting"
    assert [(each["respondedBy"], each["approved"]) for each in after["responses"]] == [("kim", True)]
    after = await vote(shared, asked, people["lea"], "no")
    after = await vote(shared, asked, people["lea"], "yes")
    assert (after["decision"], len(after["result"]["allResponses"])) == ("approved", 2)
    kinds = [
        each["type"]
        for each in (await shared.call("GET", f"/api/breakpoints/{asked}/events", people["kim"])).json()["items"]
    ]
    assert kinds == ["created", *["responded"] * 5, "released"]
    late = await shared.feedback(asked, people["kim"], approved=False)
    assert late.status_code == 409


async def test_any_member_can_cast_a_groups_single_vote(shared: Node, people: dict[str, str]) -> None:
    asked = await ask(shared, "collect-all", "pair", "max")
    first = await vote(shared, asked, people["kim"], "yes")
    assert first["responses"][0]["expert"] == "pair"
    taken = await shared.feedback(asked, people["lea"], approved=False)
    assert (taken.status_code, taken.json()["code"]) == (409, "seat_taken")
    refused = await shared.feedback(asked, people["nia"], approved=True)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_eligible")
    assert (await vote(shared, asked, people["max"], "yes"))["decision"] == "approved"


async def test_a_vote_moves_to_the_voters_other_group_when_another_member_votes(
    shared: Node, people: dict[str, str]
) -> None:
    asked = await ask(shared, "collect-all", "pair", "trio")
    await vote(shared, asked, people["lea"], "yes")
    assert (await vote(shared, asked, people["kim"], "yes"))["decision"] == "approved"
    other = await ask(shared, "collect-all", "pair", "trio")
    await vote(shared, other, people["lea"], "yes")
    assert (await vote(shared, other, people["nia"], "yes"))["decision"] == "approved"


async def test_an_override_decides_an_incomplete_vote(shared: Node, people: dict[str, str]) -> None:
    asked = await ask(shared, "collect-all", "kim", "lea", "max")
    await vote(shared, asked, people["kim"], "yes")
    after = (await shared.feedback(asked, await shared.token("admin"), approved=False, comment="Stop.")).json()
    assert after["decision"] == "rejected"
    assert [each.get("override", False) for each in after["result"]["allResponses"]] == [False, True]


async def test_the_creator_cannot_decide_even_as_an_expert(shared: Node, people: dict[str, str]) -> None:
    payload = {"question": "?", "expert": ["kim", "lea"], "strategy": "quorum"}
    asked = (await shared.create(people["kim"], payload=payload))["id"]
    answer = await shared.feedback(asked, people["kim"], approved=True)
    assert (answer.status_code, answer.json()["code"]) == (403, "own_breakpoint")
