"""How channels, account links and received messages are stored."""

from dataclasses import replace

import pytest

from assent.domain.errors import Conflict, NotFound
from assent.domain.preferences import NONE, Preferences
from assent.store.channels import StoredChannel
from assent.store.links import Offer
from assent.store.people import Person
from assent.store.transaction import Transaction
from tests.support.nodes import Node

CHANNEL = StoredChannel(id="ch_1", project="default", name="ops", type="webhook", settings={"a": [1]}, updated_at=5)


def person(name: str) -> Person:
    return Person(f"per_{name}", name, name, None, None, active=True, created_at=0)


async def test_of_two_changes_to_a_channel_the_second_is_refused(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        first = tx.channels.get("ch_1")
        saved = tx.channels.save(replace(first, settings={"a": 2}), now=5)
        assert (saved.settings, saved.updated_at) == ({"a": 2}, 6)
        with pytest.raises(Conflict):
            tx.channels.save(replace(first, settings={"a": 3}), now=9)
        assert tx.channels.get("ch_1").settings == {"a": 2}

    await node.assent.database.write(use_case)


async def test_a_name_is_unique_among_existing_channels(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        with pytest.raises(Conflict):
            tx.channels.add(replace(CHANNEL, id="ch_2"))
        tx.channels.remove("ch_1", now=7)
        with pytest.raises(NotFound):
            tx.channels.remove("ch_1", now=8)
        tx.channels.add(replace(CHANNEL, id="ch_2"))
        assert [each.id for each in tx.channels.in_project("default")] == ["ch_2"]
        assert [each.id for each in tx.channels.every()] == ["ch_2"]
        assert tx.channels.get("ch_1").removed_at == 7
        assert tx.channels.by_name("default", "ops") == tx.channels.get("ch_2")
        assert tx.channels.by_name("default", "none") is None

    await node.assent.database.write(use_case)


async def test_health_is_stored_apart_from_the_settings_and_never_moves_back_in_time(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        tx.channels.note_ok("ch_1", 10)
        tx.channels.note_ok("ch_1", 9)
        tx.channels.note_heard("ch_1", 11)
        tx.channels.note_heard("ch_1", 8)
        tx.channels.note_failed("ch_1", "x" * 1000, 12)

    def look(tx: Transaction) -> StoredChannel:
        return tx.channels.get("ch_1")

    await node.assent.database.write(use_case)
    found = await node.assent.database.read(look)
    assert (found.ok_at, found.heard_at, found.failed_at, found.updated_at) == (10, 11, 12, 5)
    assert len(found.last_error or "") == 500


async def test_a_channel_is_disabled_once_and_that_is_a_change(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        assert tx.channels.disable("ch_1", because="410 Gone", now=3)
        assert not tx.channels.disable("ch_1", because="again", now=4)
        found = tx.channels.get("ch_1")
        assert (found.enabled, found.disabled_because, found.updated_at) == (False, "410 Gone", 6)

    await node.assent.database.write(use_case)


async def test_an_account_stays_linked_to_the_first_person(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        for name in ("ann", "bo"):
            tx.people.add(person(name))
        tx.links.link("ch_1", "U1", person_id="per_ann", by="person:owner", now=1)
        tx.links.link("ch_1", "U1", person_id="per_ann", by="person:owner", now=2)
        with pytest.raises(Conflict):
            tx.links.link("ch_1", "U1", person_id="per_bo", by="person:owner", now=3)
        tx.links.link("ch_1", "U2", person_id="per_ann", by="person:owner", now=4)
        assert tx.links.person_of("ch_1", "U1") == person("ann")
        assert tx.links.person_of("ch_2", "U1") is None
        assert tx.links.identity_of("ch_1", "per_ann") == "U2"
        assert [each.identity for each in tx.links.of_person("per_ann")] == ["U1", "U2"]
        tx.people.save(replace(person("ann"), active=False))
        assert tx.links.person_of("ch_1", "U1") is None
        with pytest.raises(Conflict):
            tx.links.link("ch_1", "U1", person_id="per_bo", by="person:owner", now=5)

    await node.assent.database.write(use_case)


async def test_a_link_offer_is_used_once_and_in_time(node: Node) -> None:
    offer = Offer("ch_1", "U1", "Ann in Slack", 100)

    def use_case(tx: Transaction) -> None:
        tx.channels.add(CHANNEL)
        tx.links.offer("h1", offer)
        tx.links.offer("h2", offer)
        assert tx.links.find_offer("h1", now=99) == offer
        assert tx.links.find_offer("h1", now=100) is None
        assert tx.links.take_offer("h1", now=100) is None
        assert tx.links.take_offer("h1", now=99) == offer
        assert tx.links.take_offer("h1", now=99) is None
        assert tx.links.forget_offers(101) == 1

    await node.assent.database.write(use_case)


async def test_a_message_counts_once_per_channel(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        assert tx.heard.claim("ch_1", "k", at=1)
        assert not tx.heard.claim("ch_1", "k", at=2)
        assert tx.heard.claim("ch_2", "k", at=2)
        assert tx.heard.forget(2) == 1
        assert tx.heard.claim("ch_1", "k", at=3)

    await node.assent.database.write(use_case)


async def test_preferences_are_read_for_many_people_at_once(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        for name in ("ann", "bo"):
            tx.people.add(person(name))
        tx.preferences.put("per_ann", Preferences(("mail",)), now=1)
        tx.preferences.put("per_ann", Preferences(("slack",)), now=2)
        assert tx.preferences.of(["per_ann", "per_bo", "per_x"]) == {"per_ann": Preferences(("slack",))}
        assert tx.preferences.of([]) == {}
        tx.preferences.put("per_ann", NONE, now=3)
        assert tx.preferences.of(["per_ann"]) == {"per_ann": NONE}

    await node.assent.database.write(use_case)
