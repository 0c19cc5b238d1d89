"""A channel message counts at most once, and only if its sender is linked to a person who may answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal, Role
from assent.core.breakpoint import Breakpoint
from assent.core.errors import (
    Conflict,
    DigestMismatch,
    Forbidden,
    InvalidRequest,
    NotEligible,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from assent.core.secrets import secret_hash
from assent.core.terms import Answer
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.tools import Tools
from assent.delivery.ports import Channel, Heard, Told, Wish
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Deliveries, about
from assent.delivery.store.links import Links
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.links import OFFER_LIFE, LinkService
from assent.delivery.usecases.replies import AnsweringService
from assent.kernel.outbound import Outbound, Transient
from assent.kernel.ports import Incoming
from assent.people.store.people import EVERYWHERE, People
from assent.people.store.projects import Projects
from tests.db.making import AGENT, create, person, respond, stored
from tests.support.nodes import ManualClock, Node

BASE = "https://assent.example"


@dataclass
class Parrot:
    """A channel that returns what it is given and records its replies."""

    told: list[Told] = field(default_factory=list[Told])
    deaf: bool = False
    broken: bool = False
    asks_for_more: bool = False

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        if incoming.body == b"secret lost":
            msg = "The secret hunter2 cannot be read."
            raise Transient(msg)
        if incoming.body != b"squawk":
            msg = "This is no parrot."
            raise Unauthenticated(msg)
        return [Heard(key="squawk", wish=Wish.NOTHING)]

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        if self.broken:
            msg = f"cannot read {current.id}"
            raise RuntimeError(msg)
        return None if self.asks_for_more else Answer(**heard.said)

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        self.told.append(told)
        if self.deaf:
            msg = "Nobody listens."
            raise Transient(msg)
        return {"key": heard.key, "done": told.done}


class Board(Switchboard):
    """Resolves channels: type `mute` is one-way, type `odd` is unusable, and all other types are the parrot."""

    def __init__(self, parrot: Parrot) -> None:
        super().__init__(Tools(Outbound(), str, lambda: 0, bytes, BASE))
        self.parrot = parrot

    def channel(self, stored: StoredChannel) -> Channel:
        if stored.type == "odd":
            raise InvalidRequest.at("/settings", "are odd")
        return object() if stored.type == "mute" else self.parrot  # type: ignore[return-value]


@dataclass
class Desk:
    """An answering service with its channel, and a person with a linked account."""

    node: Node
    clock: ManualClock
    parrot: Parrot
    service: AnsweringService
    channel: StoredChannel
    ann: Principal

    async def say(self, key: str = "k1", *, on: StoredChannel | None = None, **said: Any) -> Told:
        wish = said.pop("wish", Wish.ANSWER)
        about_what = ("delivery_id", "breakpoint_id", *(("comment",) if wish is Wish.COMMENT else ()))
        named = {name: said.pop(name) for name in about_what if name in said}
        heard = Heard(key=key, wish=wish, identity=said.pop("identity", "T1:ann"), said=said, **named)
        await self.service.act(on or self.channel, [heard])
        return self.parrot.told[-1]

    async def sent(self, breakpoint_id: str, *, on: StoredChannel | None = None, to: str = "place") -> str:
        """Record that the channel has sent a message about a breakpoint."""
        chosen = on or self.channel

        def use_case(tx: Transaction) -> str:
            current = tx[Breakpoints].get(breakpoint_id, project=chosen.project)
            event = tx[Breakpoints].events(breakpoint_id, limit=1)[0]
            made = about(tx.new_id("dlv"), current, event, channel=chosen.id, recipient=to)
            assert tx[Deliveries].add(replace(made, state="sent"), now=tx.now())
            return made.id

        return await self.node.assent.database.write(use_case)

    async def asked(self, payload: Mapping[str, Any] | None = None, **options: Any) -> tuple[str, str]:
        breakpoint_id = await create(self.node, payload, **options)
        return breakpoint_id, await self.sent(breakpoint_id)

    async def open(self, breakpoint_id: str) -> bool:
        """Return True if the breakpoint is waiting and has no answers yet."""
        current = await stored(self.node, breakpoint_id)
        return current.status == "waiting" and current.votes == 0

    async def state(self, delivery_id: str) -> str:
        found = await self.node.assent.database.read(lambda tx: tx[Deliveries].get(delivery_id, project="default"))
        return found.state


async def add_channel(node: Node, name: str, kind: str, **changes: Any) -> StoredChannel:
    def use_case(tx: Transaction) -> StoredChannel:
        plain = StoredChannel(id=tx.new_id("chn"), project="default", name=name, type=kind, settings={})
        tx[Channels].add(replace(plain, **changes))
        return tx[Channels].get(plain.id)

    return await node.assent.database.write(use_case)


async def link(node: Node, channel: StoredChannel, identity: str, who: Principal) -> None:
    await node.assent.database.write(
        lambda tx: tx[Links].link(channel.id, identity, person_id=who.id, by="system:test", now=tx.now())
    )


@pytest.fixture
async def desk(node: Node, clock: ManualClock) -> Desk:
    parrot = Parrot()
    service = AnsweringService(
        node.assent.database,
        node.assent[BreakpointService],
        Board(parrot),
        clock=clock,
        base_url=BASE,
        links=node.assent[LinkService],
    )
    channel = await add_channel(node, "chat", "slack")
    ann = await person(node, "ann", "reviewer")
    await link(node, channel, "T1:ann", ann)
    return Desk(node, clock, parrot, service, channel, ann)


async def test_a_linked_person_can_answer_on_a_channel(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    told = await desk.say(delivery_id=delivery_id, approved=True, comment="Fine.")
    current = await stored(desk.node, breakpoint_id)
    assert (current.decision, (current.result or {})["via"], (current.result or {})["respondedBy"]) == (
        "approved",
        "slack",
        "ann",
    )
    assert await desk.state(delivery_id) == "answered"
    assert (told.done, told.error, told.message) == (
        True,
        None,
        "Your approval was recorded. The breakpoint is approved.",
    )
    assert told.breakpoint is not None
    assert told.breakpoint.decision == "approved"


async def test_a_redelivered_message_counts_only_once(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked({"expert": ["ann", "bob"], "strategy": "collect-all"})
    await asyncio.gather(*(desk.say(delivery_id=delivery_id, approved=True) for _ in range(10)))
    told = await desk.say(delivery_id=delivery_id, approved=False)
    assert (told.done, told.error) == (True, None)
    events = await desk.node.assent.database.read(lambda tx: tx[Breakpoints].events(breakpoint_id))
    assert [each.type for each in events].count("responded") == 1
    (given,) = await desk.node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    assert given.approved


async def test_message_keys_are_scoped_to_their_channel(desk: Desk) -> None:
    other = await add_channel(desk.node, "other", "slack")
    await link(desk.node, other, "T1:ann", desk.ann)
    first, delivery_id = await desk.asked()
    second = await create(desk.node)
    elsewhere = await desk.sent(second, on=other)
    await desk.say(delivery_id=delivery_id, approved=True)
    await desk.say(on=other, delivery_id=elsewhere, approved=True)
    assert [(await stored(desk.node, each)).decision for each in (first, second)] == ["approved", "approved"]


async def test_an_unlinked_person_cannot_answer_and_is_offered_a_link(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    told = await desk.say(identity="T1:eve", delivery_id=delivery_id, approved=True, comment="hunter2")
    assert await desk.open(breakpoint_id)
    assert (told.done, told.breakpoint, type(told.error)) == (False, None, Forbidden)
    secret = told.message.rpartition(f"{BASE}/link/")[2]
    offer = await desk.node.assent.database.read(lambda tx: tx[Links].find_offer(secret_hash(secret), now=tx.now()))
    assert offer is not None
    assert (offer.channel_id, offer.identity, offer.expires_at) == (
        desk.channel.id,
        "T1:eve",
        desk.clock.now() + OFFER_LIFE,
    )


async def test_offering_a_link_deletes_expired_offers(desk: Desk) -> None:
    hashes: list[str] = []
    for key in ("k1", "k2"):
        _, delivery_id = await desk.asked()
        told = await desk.say(key, identity="T1:eve", delivery_id=delivery_id, approved=True)
        hashes.append(secret_hash(told.message.rpartition(f"{BASE}/link/")[2]))
        desk.clock.advance(OFFER_LIFE // SECOND + 1)
    kept = await desk.node.assent.database.read(
        lambda tx: tx.session.all("SELECT secret_hash FROM assent_link_offers", {})
    )
    assert [row[0] for row in kept] == [hashes[1]]


async def test_a_link_is_offered_only_in_private_replies(desk: Desk) -> None:
    jira = await add_channel(desk.node, "tickets", "jira")
    breakpoint_id = await create(desk.node)
    await desk.sent(breakpoint_id, on=jira)
    told = await desk.say(on=jira, identity="eve", breakpoint_id=breakpoint_id, approved=True)
    assert not told.done
    assert "/link/" not in told.message
    assert await desk.open(breakpoint_id)


async def test_replaying_a_refused_message_does_not_make_it_count(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    await desk.say(identity="T1:eve", delivery_id=delivery_id, approved=True)
    eve = await person(desk.node, "eve", "reviewer")
    await link(desk.node, desk.channel, "T1:eve", eve)
    told = await desk.say(identity="T1:eve", delivery_id=delivery_id, approved=True)
    assert await desk.open(breakpoint_id)
    assert (told.done, type(told.error)) == (True, Conflict)
    await desk.say("k2", identity="T1:eve", delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


async def test_a_link_on_another_channel_does_not_count(desk: Desk) -> None:
    other = await add_channel(desk.node, "other", "slack")
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=other)
    told = await desk.say(on=other, delivery_id=delivery_id, approved=True)
    assert not told.done
    assert await desk.open(breakpoint_id)


@pytest.mark.parametrize("wish", [Wish.ANSWER, Wish.FORM])
@pytest.mark.parametrize("approved", [True, False])
async def test_high_risk_breakpoints_are_never_decided_on_a_channel(desk: Desk, wish: Wish, *, approved: bool) -> None:
    breakpoint_id, delivery_id = await desk.asked({"risk": "high", "breakpointId": "deploy"})
    told = await desk.say(wish=wish, delivery_id=delivery_id, approved=approved, confirm="deploy")
    assert await desk.open(breakpoint_id)
    assert not told.done
    assert f"{BASE}/breakpoints/{breakpoint_id}" in told.message


async def test_an_ineligible_person_gets_an_error_in_reply(desk: Desk) -> None:
    await person(desk.node, "bob", "reviewer")
    breakpoint_id, delivery_id = await desk.asked({"expert": "bob"})
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert (told.done, type(told.error)) == (False, NotEligible)
    assert await desk.open(breakpoint_id)


async def test_creators_cannot_decide_their_own_breakpoint(desk: Desk) -> None:
    breakpoint_id = await create(desk.node, by=desk.ann)
    delivery_id = await desk.sent(breakpoint_id)
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert told.error is not None
    assert told.error.code == "own_breakpoint"
    assert await desk.open(breakpoint_id)


async def test_a_second_answer_for_the_same_seat_is_refused(desk: Desk) -> None:
    bob = await person(desk.node, "bob", "reviewer")
    await person(desk.node, "cid", "reviewer")
    await desk.node.assent.database.write(
        lambda tx: tx[People].put_group("default", "ops", [desk.ann.id, bob.id], at=tx.now())
    )
    breakpoint_id, delivery_id = await desk.asked({"expert": ["ops", "cid"], "strategy": "collect-all"})
    await respond(desk.node, breakpoint_id, bob)
    told = await desk.say(delivery_id=delivery_id, approved=False)
    assert told.error is not None
    assert told.error.code == "seat_taken"
    assert (await stored(desk.node, breakpoint_id)).votes == 1


async def test_the_reply_to_a_late_answer_states_the_earlier_decision(desk: Desk) -> None:
    bob = await person(desk.node, "bob", "reviewer")
    breakpoint_id, delivery_id = await desk.asked()
    await respond(desk.node, breakpoint_id, bob, approved=False)
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert not told.done
    assert told.message == "Too late: this breakpoint was rejected by bob on 2027-01-15 08:00 UTC. Nothing was changed."
    assert (await stored(desk.node, breakpoint_id)).decision == "rejected"


@pytest.mark.parametrize("wish", [Wish.ANSWER, Wish.FORM])
async def test_an_answer_after_the_deadline_is_refused_as_too_late(desk: Desk, wish: Wish) -> None:
    breakpoint_id, delivery_id = await desk.asked(ttlSeconds=5)
    desk.clock.advance(6)
    told = await desk.say(wish=wish, delivery_id=delivery_id, approved=True)
    assert not told.done
    assert told.message == "Too late: this breakpoint expired on 2027-01-15 08:00 UTC. Nothing was changed."
    assert (await stored(desk.node, breakpoint_id)).votes == 0


async def test_an_answer_to_outdated_content_is_refused(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    told = await desk.say(delivery_id=delivery_id, approved=True, digest="0" * 64)
    assert type(told.error) is DigestMismatch
    assert await desk.open(breakpoint_id)


async def test_a_corrected_form_is_accepted_with_the_same_key(desk: Desk) -> None:
    form = {"properties": {"share": {"type": "number"}}, "required": ["share"]}
    breakpoint_id, delivery_id = await desk.asked({"form": form})
    told = await desk.say(delivery_id=delivery_id, approved=True, answers={"share": "much"})
    assert (told.done, dict(told.problems)) == (False, {"/answers/share": "must be of type number"})
    assert told.breakpoint is not None
    assert await desk.open(breakpoint_id)
    await desk.say(delivery_id=delivery_id, approved=True, answers={"share": 0.5})
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


async def test_an_answer_refused_for_a_missing_ticket_can_be_retried(desk: Desk) -> None:
    def wants(tags: list[str]) -> Callable[[Transaction], None]:
        def use_case(tx: Transaction) -> None:
            project = tx[Projects].get("default")
            tx[Projects].save(replace(project, policy={**project.policy, "ticketTags": tags}))

        return use_case

    await desk.node.assent.database.write(wants(["audit"]))
    breakpoint_id, delivery_id = await desk.asked(tags=["audit"])
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert told.error is not None
    assert told.error.code == "ticket_required"
    assert await desk.open(breakpoint_id)
    await desk.node.assent.database.write(wants([]))
    await desk.say(delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


@pytest.mark.parametrize(
    ("answer", "pointer"),
    [
        ({"comment": "nul\x00"}, "/comment"),
        ({"comment": "half \ud800"}, "/comment"),
        ({"comment": "x" * 20_001}, "/comment"),
        ({"answers": {"why": "\x00"}}, "/answers"),
        ({"edits": {"size": float("nan")}}, "/edits"),
    ],
)
async def test_text_that_a_database_cannot_store_is_refused(desk: Desk, answer: dict[str, Any], pointer: str) -> None:
    form = {"properties": {"why": {"type": "string"}}}
    breakpoint_id, delivery_id = await desk.asked({"form": form, "editable": ["size"]})
    told = await desk.say(delivery_id=delivery_id, approved=False, **answer)
    assert list(told.problems) == [pointer]
    assert await desk.open(breakpoint_id)


async def test_a_channel_can_answer_only_messages_that_it_sent(desk: Desk) -> None:
    other = await add_channel(desk.node, "other", "slack")
    await link(desk.node, other, "T1:ann", desk.ann)
    breakpoint_id, delivery_id = await desk.asked()
    unsent = await create(desk.node)
    for said in (
        {"delivery_id": delivery_id},
        {"breakpoint_id": breakpoint_id},
        {"breakpoint_id": unsent},
        {"delivery_id": "dlv_unknown"},
        {},
    ):
        told = await desk.say(on=other, approved=True, **said)
        assert type(told.error) is NotFound
        # Anyone can set a label, so a message identified only by a label gets no reply.
        assert told.done is ("delivery_id" not in said)
    told = await desk.say(delivery_id=delivery_id, breakpoint_id=unsent, approved=True)
    assert type(told.error) is NotFound
    assert await desk.open(breakpoint_id)
    assert await desk.open(unsent)


async def test_a_channel_in_another_project_cannot_decide(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    apart = replace(desk.channel, project="apart")
    told = await desk.say(on=apart, delivery_id=delivery_id, approved=True)
    assert type(told.error) is NotFound
    assert await desk.open(breakpoint_id)


async def test_an_answer_on_an_issue_that_we_created_counts(desk: Desk) -> None:
    jira = await add_channel(desk.node, "tickets", "jira")
    await link(desk.node, jira, "account-1", desk.ann)
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=jira)
    await desk.say(on=jira, identity="account-1", breakpoint_id=breakpoint_id, approved=False, comment="No.")
    assert (await stored(desk.node, breakpoint_id)).decision == "rejected"
    assert await desk.state(delivery_id) == "answered"


async def mail(desk: Desk, address: str | None) -> StoredChannel:
    def use_case(tx: Transaction) -> None:
        tx[People].save(replace(tx[People].get_by_name("ann"), email=address))

    await desk.node.assent.database.write(use_case)
    return await add_channel(desk.node, "mail", "email")


@pytest.mark.parametrize(
    ("address", "sender", "to", "counts"),
    [
        ("Ann@Example.org", "ann@example.org", "person:ann", True),
        ("ann@example.org", "eve@example.org", "person:ann", False),
        ("ann@example.org", "ann@example.org", "person:bob", False),
        ("ann@example.org", "ann@example.org", "place", False),
        (None, "", "person:ann", False),
        ("", "", "person:ann", False),
    ],
)
async def test_an_email_counts_only_from_the_recipients_own_address(
    desk: Desk, address: str | None, sender: str, to: str, *, counts: bool
) -> None:
    await person(desk.node, "bob", "reviewer")
    channel = await mail(desk, address)
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=channel, to=to)
    told = await desk.say(on=channel, identity=sender, delivery_id=delivery_id, approved=True)
    assert (told.done, await desk.open(breakpoint_id)) == (counts, not counts)


@pytest.mark.parametrize(("named", "counts"), [({"answersAs": "ann"}, True), ({}, False), ({"answersAs": "x"}, False)])
async def test_a_webhook_answers_as_the_configured_person(desk: Desk, named: dict[str, str], *, counts: bool) -> None:
    hook = await add_channel(desk.node, "hook", "webhook", settings=named)
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=hook)
    told = await desk.say(on=hook, identity="T1:ann", delivery_id=delivery_id, approved=True)
    assert (told.done, await desk.open(breakpoint_id)) == (counts, not counts)


@pytest.mark.parametrize("wish", list(Wish))
@pytest.mark.parametrize("removed", [True, False])
async def test_a_disabled_or_removed_channel_accepts_no_answers(desk: Desk, wish: Wish, *, removed: bool) -> None:
    breakpoint_id, delivery_id = await desk.asked()

    def use_case(tx: Transaction) -> None:
        if removed:
            tx[Channels].remove(desk.channel.id, now=tx.now())
        else:
            tx[Channels].disable(desk.channel.id, because="Its token leaked.", now=tx.now())

    await desk.node.assent.database.write(use_case)
    said: dict[str, Any] = {"comment": "Why?"} if wish is Wish.COMMENT else {"approved": True}
    for _ in range(2):
        told = await desk.say(wish=wish, delivery_id=delivery_id, **said)
        assert told.done is (wish is Wish.NOTHING)
        assert told.breakpoint is None
        assert wish is Wish.NOTHING or f"{BASE}/breakpoints/{breakpoint_id}" in told.message
    assert await desk.open(breakpoint_id)
    assert await desk.node.assent.database.read(lambda tx: tx[Breakpoints].comments(breakpoint_id)) == []


async def test_messages_to_a_disabled_channel_do_not_count_after_it_is_enabled(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    off = await desk.node.assent.database.write(
        lambda tx: tx[Channels].save(replace(desk.channel, enabled=False), now=tx.now())
    )
    await desk.say(delivery_id=delivery_id, approved=True)
    await desk.node.assent.database.write(lambda tx: tx[Channels].save(replace(off, enabled=True), now=tx.now()))
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert type(told.error) is Conflict
    assert await desk.open(breakpoint_id)
    await desk.say("k2", delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


async def test_changing_the_answers_as_setting_takes_effect_immediately(desk: Desk) -> None:
    await person(desk.node, "bob", "reviewer")
    hook = await add_channel(desk.node, "hook", "webhook", settings={"answersAs": "ann"})
    breakpoint_id = await create(desk.node)
    delivery_id = await desk.sent(breakpoint_id, on=hook)
    bobs = replace(hook, settings={"answersAs": "bob"})
    await desk.node.assent.database.write(lambda tx: tx[Channels].save(bobs, now=tx.now()))
    await desk.say(on=hook, delivery_id=delivery_id, approved=True)
    assert ((await stored(desk.node, breakpoint_id)).result or {})["respondedBy"] == "bob"


@pytest.mark.parametrize("wish", [Wish.ANSWER, Wish.FORM])
@pytest.mark.parametrize("payload", [{"expert": "ann"}, {}])
async def test_admins_cannot_override_on_a_channel(desk: Desk, wish: Wish, payload: dict[str, Any]) -> None:
    await link(desk.node, desk.channel, "T1:adm", await person(desk.node, "adm", "admin"))
    breakpoint_id, delivery_id = await desk.asked(payload)
    told = await desk.say(wish=wish, identity="T1:adm", delivery_id=delivery_id, approved=True)
    assert (told.done, type(told.error)) == (False, Forbidden)
    assert "Sign in to do so" in told.message
    assert f"{BASE}/breakpoints/{breakpoint_id}" in told.message
    assert await desk.open(breakpoint_id)


async def test_an_admin_who_is_an_expert_answers_like_any_reviewer(desk: Desk) -> None:
    both = await person(desk.node, "adm", "admin", "reviewer")
    await link(desk.node, desk.channel, "T1:adm", both)
    breakpoint_id, delivery_id = await desk.asked({"expert": "adm"})
    await desk.say(identity="T1:adm", delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"
    (given,) = await desk.node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    assert not given.override


@pytest.mark.parametrize("lost", ["role", "account"])
async def test_revoking_a_role_or_account_takes_effect_immediately(desk: Desk, lost: str) -> None:
    breakpoint_id, delivery_id = await desk.asked()

    def use_case(tx: Transaction) -> None:
        tx[People].grant(desk.ann.id, "default", {Role.VIEWER} if lost == "role" else {Role.REVIEWER})
        tx[People].save(replace(tx[People].get_by_name("ann"), active=lost != "account"))

    await desk.node.assent.database.write(use_case)
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert not told.done
    assert await desk.open(breakpoint_id)


async def test_a_role_in_another_project_does_not_count(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()

    def use_case(tx: Transaction) -> None:
        tx[People].grant(desk.ann.id, "default", ())
        assert not tx[People].grants(desk.ann.id).get(EVERYWHERE)

    await desk.node.assent.database.write(use_case)
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert type(told.error) is Forbidden
    assert await desk.open(breakpoint_id)


async def test_a_comment_is_stored_only_once_and_is_not_a_decision(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked({"risk": "high"})
    for _ in range(2):
        told = await desk.say(wish=Wish.COMMENT, delivery_id=delivery_id, comment=" Which cluster? ")
        assert told.done
    comments = await desk.node.assent.database.read(lambda tx: tx[Breakpoints].comments(breakpoint_id))
    assert [(each.author, each.comment) for each in comments] == [("person:ann", "Which cluster?")]
    assert await desk.open(breakpoint_id)
    told = await desk.say("k2", wish=Wish.COMMENT, delivery_id=delivery_id, comment=" ")
    assert list(told.problems) == ["/comment"]


async def test_a_form_is_shown_only_to_people_who_can_answer(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked({"options": ["now", "later"]})
    told = await desk.say(wish=Wish.FORM, delivery_id=delivery_id)
    assert told.done
    assert told.breakpoint is not None
    assert told.breakpoint.id == breakpoint_id
    assert await desk.open(breakpoint_id)
    assert await desk.state(delivery_id) == "sent"
    told = await desk.say("k2", wish=Wish.FORM, identity="T1:eve", delivery_id=delivery_id)
    assert (told.done, told.breakpoint) == (False, None)


async def test_the_reply_links_to_review_if_the_channel_cannot_show_the_form(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    desk.parrot.asks_for_more = True
    told = await desk.say(delivery_id=delivery_id, approved=True)
    assert not told.done
    assert f"{BASE}/breakpoints/{breakpoint_id}" in told.message
    assert await desk.open(breakpoint_id)


async def test_a_message_that_requests_nothing_only_gets_a_reply(desk: Desk) -> None:
    body = await desk.service.take(desk.channel, Incoming({}, b"squawk", desk.clock.now()))
    assert body == {"key": "squawk", "done": True}


async def test_a_failed_reply_does_not_undo_the_decision(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    desk.parrot.deaf = True
    await desk.say(delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


async def test_an_answer_that_failed_with_an_error_can_be_retried(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    desk.parrot.broken = True
    with pytest.raises(RuntimeError):
        await desk.say(delivery_id=delivery_id, approved=True)
    assert await desk.open(breakpoint_id)
    desk.parrot.broken = False
    await desk.say(delivery_id=delivery_id, approved=True)
    assert (await stored(desk.node, breakpoint_id)).decision == "approved"


async def test_a_forged_message_is_logged_without_its_content(desk: Desk) -> None:
    forged = Incoming({"authorization": "hunter2"}, b"hunter2", desk.clock.now())
    with capture_logs() as logs, pytest.raises(Unauthenticated):
        await desk.service.take(desk.channel, forged)
    (line,) = [each for each in logs if each["event"] == "callback_refused"]
    assert (line["channel"], line["type"]) == (desk.channel.id, "slack")
    assert "hunter2" not in str(logs)
    with capture_logs() as logs:
        await desk.service.take_reply(desk.channel, forged)
    assert [each["event"] for each in logs] == ["callback_refused", "inline_answer_refused"]


async def test_a_channel_without_its_secret_accepts_no_messages(desk: Desk) -> None:
    with pytest.raises(Unavailable) as unusable:
        await desk.service.take(desk.channel, Incoming({}, b"secret lost", desk.clock.now()))
    assert "hunter2" not in unusable.value.message


async def test_only_enabled_two_way_channels_can_be_found_by_id(desk: Desk) -> None:
    assert (await desk.service.find(desk.channel.id)).id == desk.channel.id
    disabled = await add_channel(desk.node, "off", "slack", enabled=False)
    one_way = await add_channel(desk.node, "mute", "mute")
    removed = await add_channel(desk.node, "gone", "slack")
    await desk.node.assent.database.write(lambda tx: tx[Channels].remove(removed.id, now=tx.now()))
    messages: set[str] = set()
    for channel_id in ("chn_unknown", disabled.id, one_way.id, removed.id):
        with pytest.raises(NotFound) as missing:
            await desk.service.find(channel_id)
        messages.add(missing.value.message)
    assert len(messages) == 1
    odd = await add_channel(desk.node, "odd", "odd")
    with pytest.raises(Unavailable) as unusable:
        await desk.service.find(odd.id)
    assert "odd" not in unusable.value.message


async def test_the_time_of_the_last_message_is_stored_at_most_every_10_seconds(desk: Desk) -> None:
    async def heard_at() -> int | None:
        return (await desk.node.assent.database.read(lambda tx: tx[Channels].get(desk.channel.id))).heard_at

    squawk = partial(desk.service.take, desk.channel, Incoming({}, b"squawk", desk.clock.now()))
    await squawk()
    first = desk.clock.now()
    assert await heard_at() == first
    desk.clock.advance(9)
    await squawk()
    assert await heard_at() == first
    desk.clock.advance(1)
    await squawk()
    assert await heard_at() == first + 10 * SECOND


async def test_an_agent_cannot_answer_on_a_channel(desk: Desk) -> None:
    breakpoint_id, delivery_id = await desk.asked()
    told = await desk.say(identity=AGENT.id, delivery_id=delivery_id, approved=True)
    assert not told.done
    assert await desk.open(breakpoint_id)
