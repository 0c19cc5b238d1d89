"""Account links from channels: viewing has no effect, and a signed-in person can accept each link once."""

from functools import partial

import pytest

from assent.core.access import Kind, Principal, Role
from assent.core.errors import Conflict, Forbidden, NotFound
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.delivery.usecases.links import OFFER_LIFE, LinkService
from assent.people.store.people import People
from tests.support.nodes import ManualClock, Node

CHANNEL = StoredChannel(id="ch_1", project="default", name="slack", type="slack", settings={})


@pytest.fixture
async def ann(node: Node) -> Principal:
    await node.person("ann", "reviewer")

    def use_case(tx: Transaction) -> Principal:
        tx[Channels].add(CHANNEL)
        found = tx[People].get_by_name("ann")
        return Principal(kind=Kind.PERSON, id=found.id, name="ann", project="default", roles=frozenset({Role.REVIEWER}))

    return await node.assent.database.write(use_case)


async def offered(node: Node) -> str:
    return await node.assent.database.write(
        lambda tx: node.assent[LinkService].offer(tx, "ch_1", "T01:U02", shown_as="ann.l")
    )


async def test_viewing_a_link_has_no_effect_and_accepting_it_works_only_once(node: Node, ann: Principal) -> None:
    plain = await offered(node)
    links, database = node.assent[LinkService], node.assent.database
    for _ in range(3):
        seen = await database.read(lambda tx: links.look(tx, plain, by=ann))
        assert (seen.channel.name, seen.offer.identity, seen.offer.shown_as) == ("slack", "T01:U02", "ann.l")
    assert await database.read(lambda tx: tx[Links].person_of("ch_1", "T01:U02")) is None
    await database.write(lambda tx: links.accept(tx, plain, by=ann))
    found = await database.read(lambda tx: tx[Links].of_channel("ch_1"))
    assert [(each.person, each.linked_by) for each in found] == [("ann", "person:ann")]
    with pytest.raises(NotFound):
        await database.write(lambda tx: links.accept(tx, plain, by=ann))


async def test_a_link_expires_when_its_offer_does(node: Node, ann: Principal, clock: ManualClock) -> None:
    plain = await offered(node)
    clock.at += OFFER_LIFE
    for method in (node.assent[LinkService].look, node.assent[LinkService].accept):
        with pytest.raises(NotFound):
            await node.assent.database.write(partial(method, plain=plain, by=ann))


@pytest.mark.parametrize("plain", ["", "astl_x", "../x"])
async def test_an_unknown_link_is_not_found(node: Node, ann: Principal, plain: str) -> None:
    with pytest.raises(NotFound):
        await node.assent.database.read(lambda tx: node.assent[LinkService].look(tx, plain, by=ann))


async def test_agents_and_people_from_other_projects_cannot_accept_a_link(node: Node, ann: Principal) -> None:
    plain = await offered(node)
    agent = Principal(kind=Kind.AGENT, id="tok_1", name="bot", project="default")
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    await node.person("fay", "admin", project="elsewhere")

    def foreign(tx: Transaction) -> Principal:
        return Principal(kind=Kind.PERSON, id=tx[People].get_by_name("fay").id, name="fay", project="elsewhere")

    for who in (agent, await node.assent.database.read(foreign)):
        with pytest.raises(Forbidden):
            await node.assent.database.write(partial(node.assent[LinkService].accept, plain=plain, by=who))
    await node.assent.database.write(lambda tx: node.assent[LinkService].accept(tx, plain, by=ann))


async def test_an_already_linked_account_cannot_be_linked_to_another_person(node: Node, ann: Principal) -> None:
    def linked(tx: Transaction) -> None:
        tx[Links].link("ch_1", "T01:U02", person_id=tx[People].get_by_name("owner").id, by="person:owner", now=tx.now())

    await node.assent.database.write(linked)
    plain = await offered(node)
    with pytest.raises(Conflict):
        await node.assent.database.write(lambda tx: node.assent[LinkService].accept(tx, plain, by=ann))


async def test_people_can_remove_only_their_own_links(node: Node, ann: Principal) -> None:
    def use_case(tx: Transaction) -> None:
        owner = tx[People].get_by_name("owner")
        tx[Links].link("ch_1", "U1", person_id=ann.id, by="person:owner", now=1)
        tx[Links].link("ch_1", "U2", person_id=owner.id, by="person:owner", now=1)
        node.assent[LinkService].unlink_own(tx, "ch_1", "U1", by=ann)
        with pytest.raises(NotFound):
            node.assent[LinkService].unlink_own(tx, "ch_1", "U2", by=ann)
        assert [each.identity for each in tx[Links].of_channel("ch_1")] == ["U2"]

    await node.assent.database.write(use_case)
