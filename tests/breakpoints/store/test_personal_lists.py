"""Personal lists: assigned to me, snoozed and not snoozed."""

from functools import partial
from typing import Any

import pytest

from assent.breakpoints.store.reading import Mine, Query, Snoozer
from assent.breakpoints.usecases.inbox import InboxService
from assent.core.timestamps import SECOND
from assent.people.usecases.people import PeopleService
from tests.breakpoints.usecases.test_triage import claim, snooze
from tests.db.making import create, person, respond
from tests.support.nodes import ManualClock, Node


async def listed(node: Node, **filters: Any) -> list[str]:
    return [row.id for row in await node.assent[InboxService].page(Query(project="default", **filters))]


@pytest.mark.parametrize("sort", ["created", "deadline"])
async def test_the_mine_filter_lists_breakpoints_assigned_to_or_claimed_by_me(
    node: Node, clock: ManualClock, sort: str
) -> None:
    ann = await person(node, "ann", "reviewer")
    made: list[str] = []
    for payload in ({"expert": "ann"}, {"expert": "owner"}, {}, {}, {"expert": "ann"}):
        made.append(await create(node, payload, tags=["x"]))
        clock.advance(1)
    await claim(node, made[2], ann)
    await respond(node, made[4], ann)
    names = await node.assent.database.read(partial(node.assent[PeopleService].expert_names, by=ann))
    mine = Mine(ann.id, tuple(names))
    assert await listed(node, mine=mine, sort=sort, statuses=("waiting",)) == [made[0], made[2]]
    assert await listed(node, mine=mine, sort=sort, tags=("x",)) == [made[0], made[2], made[4]]
    assert await listed(node, mine=Mine(ann.id, ()), sort=sort) == [made[2]]
    assert await listed(node, mine=mine, sort=sort, q="go", statuses=("waiting",)) == [made[0], made[2]]
    counts = await node.assent[InboxService].reader.counts(Query(project="default", mine=mine))
    assert counts == {"waiting": 2, "released": 1, "expired": 0, "cancelled": 0}


@pytest.mark.parametrize("more", [{}, {"tags": ("x",)}, {"q": "go"}, {"sort": "deadline"}])
async def test_a_snooze_hides_a_breakpoint_temporarily_and_only_from_the_person_who_set_it(
    node: Node, clock: ManualClock, more: Any
) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    made = sorted([await create(node, tags=["x"]) for _ in range(3)])
    until = clock.now() + 60 * SECOND
    await snooze(node, made[1], until, ann)

    async def seen(who: str, now: int) -> tuple[list[str], list[str]]:
        snoozer = Snoozer(who, now)
        return (
            sorted(await listed(node, not_snoozed_by=snoozer, **more)),
            sorted(await listed(node, snoozed_by=snoozer, **more)),
        )

    assert await seen(ann.id, until - 1) == ([made[0], made[2]], [made[1]])
    assert await seen(ann.id, until) == (made, [])
    assert await seen(bob.id, until - 1) == (made, [])
    counts = await node.assent[InboxService].reader.counts(
        Query(project="default", statuses=("waiting",), not_snoozed_by=Snoozer(ann.id, until - 1))
    )
    assert counts == {"waiting": 2}


@pytest.mark.parametrize("more", [{}, {"q": "go"}])
async def test_an_ended_breakpoint_is_no_longer_snoozed(node: Node, clock: ManualClock, more: Any) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    await snooze(node, breakpoint_id, clock.now() + 60 * SECOND, ann)
    await respond(node, breakpoint_id, ann)
    snoozer = Snoozer(ann.id, clock.now())
    assert await listed(node, not_snoozed_by=snoozer, **more) == [breakpoint_id]
    assert await listed(node, snoozed_by=snoozer, **more) == []
