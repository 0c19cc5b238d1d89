"""Account links from channels: viewing has no effect, and a signed-in person can accept each link once."""

from functools import partial

import pytest

from assent.domain.access import Kind, Principal, Role
from assent.domain.errors import Conflict, Forbidden, NotFound
from assent.services.links import OFFER_LIFE
from assent.store.channels import StoredChannel
from assent.store.transaction import Transaction
from tests.support.nodes import ManualClock, Node

CHANNEL = StoredChannel(id="ch_1", project="default", name="slack", type="slack", settings={})


@pytest.fixture
async def ann(node: Node) -> Principal:
    await node.person("ann", "reviewer")

    def use_case(tx: Transaction) -> Principal:
        tx.channels.add(CHANNEL)
        found = tx.people.get_by_name("ann")
        return Principal(kind=Kind.PERSON, id=found.id, name="ann", project="default", roles=frozenset({Role.REVIEWER}))

    return await node.assent.database.write(use_case)


async def offered(node: Node) -> str:
    return await node.assent.database.write(lambda tx: node.assent.links.offer(tx, "ch_1", "T01:U02", shown_as="ann.l"))


async def test_viewing_a_link_changes_nothing_and_accepting_works_once(node: Node, ann: Principal) -> None:
    plain = await offered(node)
    links, database = node.assent.links, node.assent.database
    for _ in range(3):
        seen = await database.read(lambda tx: links.look(tx, plain, by=ann))
        assert (seen.channel.name, seen.offer.identity, seen.offer.shown_as) == ("slack", "T01:U02", "ann.l")
    assert await database.read(lambda tx: tx.links.person_of("ch_1", "T01:U02")) is None
    await database.write(lambda tx: links.accept(tx, plain, by=ann))
    found = await database.read(lambda tx: tx.links.of_channel("ch_1"))
    assert [(each.person, each.linked_by) for each in found] == [("ann", "person:ann")]
    with pytest.raises(NotFound):
        await database.write(lambda tx: links.accept(tx, plain, by=ann))


async def test_a_link_expires_after_a_short_time(node: Node, ann: Principal, clock: ManualClock) -> None:
    plain = await offered(node)
    clock.at += OFFER_LIFE
    for method in (node.assent.links.look, node.assent.links.accept):
        with pytest.raises(NotFound):
            await node.assent.database.write(partial(method, plain=plain, by=ann))


@pytest.mark.parametrize("plain", ["", "astl_x", "../x"])
async def test_an_unknown_link_is_not_found(node: Node, ann: Principal, plain: str) -> None:
    with pytest.raises(NotFound):
        await node.assent.database.read(lambda tx: node.assent.links.look(tx, plain, by=ann))


async def test_agents_and_people_without_a_role_here_cannot_be_linked(node: Node, ann: Principal) -> None:
    plain = await offered(node)
    agent = Principal(kind=Kind.AGENT, id="tok_1", name="bot", project="default")
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    await node.person("fay", "admin", project="elsewhere")

    def foreign(tx: Transaction) -> Principal:
        return Principal(kind=Kind.PERSON, id=tx.people.get_by_name("fay").id, name="fay", project="elsewhere")

    for who in (agent, await node.assent.database.read(foreign)):
        with pytest.raises(Forbidden):
            await node.assent.database.write(partial(node.assent.links.accept, plain=plain, by=who))
    await node.assent.database.write(lambda tx: node.assent.links.accept(tx, plain, by=ann))


async def test_an_account_that_is_already_linked_stays_linked(node: Node, ann: Principal) -> None:
    def linked(tx: Transaction) -> None:
        tx.links.link("ch_1", "T01:U02", person_id=tx.people.get_by_name("owner").id, by="person:owner", now=tx.now())

    await node.assent.database.write(linked)
    plain = await offered(node)
    with pytest.raises(Conflict):
        await node.assent.database.write(lambda tx: node.assent.links.accept(tx, plain, by=ann))


async def test_people_can_remove_only_their_own_links(node: Node, ann: Principal) -> None:
    def use_case(tx: Transaction) -> None:
        owner = tx.people.get_by_name("owner")
        tx.links.link("ch_1", "U1", person_id=ann.id, by="person:owner", now=1)
        tx.links.link("ch_1", "U2", person_id=owner.id, by="person:owner", now=1)
        node.assent.links.unlink_own(tx, "ch_1", "U1", by=ann)
        with pytest.raises(NotFound):
            node.assent.links.unlink_own(tx, "ch_1", "U2", by=ann)
        assert [each.identity for each in tx.links.of_channel("ch_1")] == ["U2"]

    await node.assent.database.write(use_case)
