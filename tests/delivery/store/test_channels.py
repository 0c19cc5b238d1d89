"""How channels, account links and received messages are stored."""

from dataclasses import replace

import pytest

from assent.core.errors import Conflict, NotFound
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.inbound_dedup import Heard
from assent.delivery.store.links import Links, Offer
from assent.people.preferences import NONE, Preferences
from assent.people.store.people import People, Person
from assent.people.store.preferences import PreferenceStore
from tests.support.nodes import Node

CHANNEL = StoredChannel(id="ch_1", project="default", name="ops", type="webhook", settings={"a": [1]}, updated_at=5)


def person(name: str) -> Person:
    return Person(f"per_{name}", name, name, None, None, active=True, created_at=0)


async def test_the_second_of_two_concurrent_channel_changes_is_refused(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        first = tx[Channels].get("ch_1")
        saved = tx[Channels].save(replace(first, settings={"a": 2}), now=5)
        assert (saved.settings, saved.updated_at) == ({"a": 2}, 6)
        with pytest.raises(Conflict):
            tx[Channels].save(replace(first, settings={"a": 3}), now=9)
        assert tx[Channels].get("ch_1").settings == {"a": 2}

    await node.assent.database.write(use_case)


async def test_a_channel_name_is_unique_among_existing_channels(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        with pytest.raises(Conflict):
            tx[Channels].add(replace(CHANNEL, id="ch_2"))
        tx[Channels].remove("ch_1", now=7)
        with pytest.raises(NotFound):
            tx[Channels].remove("ch_1", now=8)
        tx[Channels].add(replace(CHANNEL, id="ch_2"))
        assert [each.id for each in tx[Channels].in_project("default")] == ["ch_2"]
        assert [each.id for each in tx[Channels].every()] == ["ch_2"]
        assert tx[Channels].get("ch_1").removed_at == 7
        assert tx[Channels].by_name("default", "ops") == tx[Channels].get("ch_2")
        assert tx[Channels].by_name("default", "none") is None

    await node.assent.database.write(use_case)


async def test_health_updates_do_not_change_updated_at_or_go_back_in_time(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        tx[Channels].note_ok("ch_1", 10)
        tx[Channels].note_ok("ch_1", 9)
        tx[Channels].note_heard("ch_1", 11)
        tx[Channels].note_heard("ch_1", 8)
        tx[Channels].note_failed("ch_1", "x" * 1000, 12)

    def look(tx: Transaction) -> StoredChannel:
        return tx[Channels].get("ch_1")

    await node.assent.database.write(use_case)
    found = await node.assent.database.read(look)
    assert (found.ok_at, found.heard_at, found.failed_at, found.updated_at) == (10, 11, 12, 5)
    assert len(found.last_error or "") == 500


async def test_a_channel_is_disabled_only_once_and_updated_at_changes(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        assert tx[Channels].disable("ch_1", because="410 Gone", now=3)
        assert not tx[Channels].disable("ch_1", because="again", now=4)
        found = tx[Channels].get("ch_1")
        assert (found.enabled, found.disabled_because, found.updated_at) == (False, "410 Gone", 6)

    await node.assent.database.write(use_case)


async def test_an_account_stays_linked_to_the_first_person(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        for name in ("ann", "bo"):
            tx[People].add(person(name))
        tx[Links].link("ch_1", "U1", person_id="per_ann", by="person:owner", now=1)
        tx[Links].link("ch_1", "U1", person_id="per_ann", by="person:owner", now=2)
        with pytest.raises(Conflict):
            tx[Links].link("ch_1", "U1", person_id="per_bo", by="person:owner", now=3)
        tx[Links].link("ch_1", "U2", person_id="per_ann", by="person:owner", now=4)
        assert tx[Links].person_of("ch_1", "U1") == person("ann")
        assert tx[Links].person_of("ch_2", "U1") is None
        assert tx[Links].identity_of("ch_1", "per_ann") == "U2"
        assert [each.identity for each in tx[Links].of_person("per_ann")] == ["U1", "U2"]
        tx[People].save(replace(person("ann"), active=False))
        assert tx[Links].person_of("ch_1", "U1") is None
        with pytest.raises(Conflict):
            tx[Links].link("ch_1", "U1", person_id="per_bo", by="person:owner", now=5)

    await node.assent.database.write(use_case)


async def test_a_link_offer_can_be_used_only_once_and_only_before_it_expires(node: Node) -> None:
    offer = Offer("ch_1", "U1", "Ann in Slack", 100)

    def use_case(tx: Transaction) -> None:
        tx[Channels].add(CHANNEL)
        tx[Links].offer("h1", offer)
        tx[Links].offer("h2", offer)
        assert tx[Links].find_offer("h1", now=99) == offer
        assert tx[Links].find_offer("h1", now=100) is None
        assert tx[Links].take_offer("h1", now=100) is None
        assert tx[Links].take_offer("h1", now=99) == offer
        assert tx[Links].take_offer("h1", now=99) is None
        assert tx[Links].forget_offers(101) == 1

    await node.assent.database.write(use_case)


async def test_a_message_counts_only_once_per_channel(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        assert tx[Heard].claim("ch_1", "k", at=1)
        assert not tx[Heard].claim("ch_1", "k", at=2)
        assert tx[Heard].claim("ch_2", "k", at=2)
        assert tx[Heard].forget(2) == 1
        assert tx[Heard].claim("ch_1", "k", at=3)

    await node.assent.database.write(use_case)


async def test_preferences_of_many_people_are_read_in_one_query(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        for name in ("ann", "bo"):
            tx[People].add(person(name))
        tx[PreferenceStore].put("per_ann", Preferences(("mail",)), now=1)
        tx[PreferenceStore].put("per_ann", Preferences(("slack",)), now=2)
        assert tx[PreferenceStore].of(["per_ann", "per_bo", "per_x"]) == {"per_ann": Preferences(("slack",))}
        assert tx[PreferenceStore].of([]) == {}
        tx[PreferenceStore].put("per_ann", NONE, now=3)
        assert tx[PreferenceStore].of(["per_ann"]) == {"per_ann": NONE}

    await node.assent.database.write(use_case)
