"""Saved views, each of which belongs to one person."""

from functools import partial

import pytest

from assent.breakpoints.saved_views import MOST
from assent.breakpoints.usecases.views import ViewService
from assent.core.access import Principal
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from tests.db.making import AGENT, person
from tests.support.nodes import Node


async def save(node: Node, name: str, query: str, by: Principal) -> None:
    await node.assent.database.write(partial(node.assent[ViewService].save, name=name, query=query, by=by))


async def listed(node: Node, by: Principal) -> list[tuple[str, str]]:
    found = await node.assent.database.read(partial(node.assent[ViewService].every, by=by))
    return [(each.name, each.query) for each in found]


async def test_views_can_be_saved_changed_and_removed_by_their_owner(node: Node) -> None:
    ann, vic = await person(node, "ann", "reviewer"), await person(node, "vic", "viewer")
    await save(node, "prod", "?tag=prod", ann)
    await save(node, "Agents", "agent=x", ann)
    await save(node, "prod", "tag=prod&mine=1", ann)
    await save(node, "prod", "tag=other", vic)
    assert await listed(node, ann) == [("Agents", "agent=x"), ("prod", "tag=prod&mine=1")]
    assert await listed(node, vic) == [("prod", "tag=other")]
    remove = partial(node.assent[ViewService].remove, name="prod", by=ann)
    await node.assent.database.write(remove)
    with pytest.raises(NotFound):
        await node.assent.database.write(remove)
    assert await listed(node, ann) == [("Agents", "agent=x")]
    assert await listed(node, vic) == [("prod", "tag=other")]


async def test_the_number_of_views_per_person_is_limited(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    for n in range(MOST):
        await save(node, f"view {n}", "", ann)
    with pytest.raises(InvalidRequest):
        await save(node, "one more", "", ann)
    await save(node, "view 7", "tag=x", ann)
    assert len(await listed(node, ann)) == MOST


async def test_only_people_can_save_views(node: Node) -> None:
    nobody = await person(node, "nob")
    for each in (AGENT, nobody):
        with pytest.raises(Forbidden):
            await save(node, "mine", "", each)
