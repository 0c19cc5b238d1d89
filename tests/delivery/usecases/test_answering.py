"""Answers by experts, group members, owners and admins, tested with the services on both databases."""

from functools import partial

import pytest

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal, Role
from assent.core.errors import AlreadyEnded, AssentError, Forbidden, OwnBreakpoint
from assent.core.strategies import STRATEGIES
from assent.db.transaction import Transaction
from assent.people.store.people import People
from tests.db.making import AGENT, create, person, respond, stored
from tests.support.nodes import ManualClock, Node


async def group(node: Node, name: str, *members: Principal) -> None:
    def use_case(tx: Transaction) -> None:
        tx[People].put_group("default", name, [member.id for member in members], at=tx.now())

    await node.assent.database.write(use_case)


async def answers(node: Node, breakpoint_id: str) -> list[tuple[str, str | None]]:
    found = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    return [(each.person, each.seat) for each in found]


@pytest.mark.parametrize("strategy", ["single", "quorum"])
async def test_the_error_for_a_late_answer_contains_the_decision(node: Node, strategy: str) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    await group(node, "ops", ann, bob)
    breakpoint_id = await create(node, {"expert": ["ops"], "strategy": strategy})
    await respond(node, breakpoint_id, ann, approved=False)
    with pytest.raises(AlreadyEnded) as refused:
        await respond(node, breakpoint_id, bob)
    standing = refused.value.details["standing"]
    assert isinstance(standing, dict)
    assert (standing["decision"], standing["by"]) == ("rejected", "person:ann")


async def test_a_second_answer_for_the_same_group_is_refused(node: Node) -> None:
    ann, bob, cid = [await person(node, name, "reviewer") for name in ("ann", "bob", "cid")]
    await group(node, "ops", ann, bob)
    breakpoint_id = await create(node, {"expert": ["ops", "cid"], "strategy": "collect-all"})
    await respond(node, breakpoint_id, ann)
    with pytest.raises(AssentError) as refused:
        await respond(node, breakpoint_id, bob)
    assert refused.value.code == "seat_taken"
    await respond(node, breakpoint_id, cid)
    assert (await stored(node, breakpoint_id)).decision == "approved"


async def test_a_member_of_two_groups_leaves_a_seat_for_the_other_members(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    cid = await person(node, "cid", "reviewer")
    await group(node, "ops", ann, bob)
    await group(node, "legal", bob, cid)
    breakpoint_id = await create(node, {"expert": ["ops", "legal"], "strategy": "collect-all"})
    await respond(node, breakpoint_id, bob)
    await respond(node, breakpoint_id, ann)
    assert sorted(await answers(node, breakpoint_id)) == [("ann", "ops"), ("bob", "legal")]


async def test_a_response_still_counts_for_a_group_after_its_reviewer_leaves_the_group(node: Node) -> None:
    ann, bob, cid, dee = [await person(node, name, "reviewer") for name in ("ann", "bob", "cid", "dee")]
    await group(node, "ops", ann, bob)
    await group(node, "legal", bob, cid)
    breakpoint_id = await create(node, {"expert": ["ops", "legal", "dee"], "strategy": "collect-all"})
    await respond(node, breakpoint_id, bob)
    await respond(node, breakpoint_id, ann)
    await group(node, "ops", ann)
    await group(node, "legal", cid)
    await respond(node, breakpoint_id, dee)
    assert (await stored(node, breakpoint_id)).decision == "approved"


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
async def test_an_admins_override_decides_and_is_recorded(node: Node, strategy: str) -> None:
    await person(node, "ann", "reviewer")
    adm = await person(node, "adm", "admin")
    breakpoint_id = await create(node, {"expert": ["ann", "owner"], "strategy": strategy})
    await respond(node, breakpoint_id, adm)
    responses = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    assert [(each.person, each.override, each.seat) for each in responses] == [("adm", True, None)]
    assert (await stored(node, breakpoint_id)).decision == "approved"


async def test_the_owner_can_answer_for_an_unknown_expert(node: Node) -> None:
    breakpoint_id = await create(node, {"expert": ["ghost"]})
    owner = await node.assent.database.read(lambda tx: tx[People].get_by_name("owner"))
    who = Principal(kind=AGENT.kind.PERSON, id=owner.id, name="owner", project="default", roles=frozenset(Role))
    await respond(node, breakpoint_id, who)
    responses = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    assert [(each.person, each.in_place_of) for each in responses] == [("owner", ("ghost",))]


async def test_a_revoked_role_is_detected_in_the_deciding_transaction(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, "default", [Role.VIEWER]))
    with pytest.raises(Forbidden):
        await respond(node, breakpoint_id, ann)


async def test_creators_cannot_decide_their_own_breakpoint(node: Node) -> None:
    ann = await person(node, "ann", "reviewer", "admin")
    breakpoint_id = await create(node, by=ann)
    with pytest.raises(OwnBreakpoint):
        await respond(node, breakpoint_id, ann)


async def test_an_agent_cannot_decide_even_if_it_claims_every_role(node: Node) -> None:
    breakpoint_id = await create(node)
    claims = Principal(kind=AGENT.kind, id="tok_2", name="x", project="default", roles=frozenset(Role), everywhere=True)
    with pytest.raises(Forbidden):
        await respond(node, breakpoint_id, claims)


async def test_repeated_sweeps_end_every_overdue_breakpoint(node: Node, clock: ManualClock) -> None:
    ids = [await create(node, ttlSeconds=1) for _ in range(5)]
    clock.advance(1)
    while await node.assent.database.write(node.assent[BreakpointService].time_out_due):
        pass
    assert {(await stored(node, each)).status for each in ids} == {"expired"}


async def test_an_agent_can_comment_only_on_its_own_breakpoints(node: Node) -> None:
    other = Principal(kind=AGENT.kind, id="tok_2", name="other", project="default")
    breakpoint_id = await create(node)
    comment = partial(
        node.assent[BreakpointService].comment, breakpoint_id=breakpoint_id, comment="Because.", once=None
    )
    await node.assent.database.write(partial(comment, by=AGENT))
    with pytest.raises(AssentError) as refused:
        await node.assent.database.write(partial(comment, by=other))
    assert refused.value.code == "not_found"
    assert (await stored(node, breakpoint_id)).comments == 1
