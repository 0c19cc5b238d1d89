"""The undo window: an answer that is not undone takes effect once, provided that its author still has permission."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.undo_window import Held
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.breakpoints.usecases.undo_window import HoldingService, Undone
from assent.core.access import Principal, Role
from assent.core.breakpoint import Status
from assent.core.errors import AlreadyEnded, AnswerStands, AssentError, ConfirmationRequired, Forbidden, NotFound
from assent.core.terms import Answer
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from tests.db.making import AGENT, create, person, respond, rows, stored
from tests.delivery.usecases.test_answering import group
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    """A node on which nothing becomes due until the test advances the clock."""
    async with running_node(settings.model_copy(update={"undo_seconds": 6}), clock=clock) as running:
        yield running


async def hold(
    node: Node, breakpoint_id: str, by: Principal, *, batch: str | None = None, **answer: Any
) -> Held | None:
    given = Answer(approved=answer.pop("approved", True), **answer)
    use_case = partial(
        node.assent[HoldingService].hold, breakpoint_id=breakpoint_id, answer=given, by=by, via="web", batch=batch
    )
    return await node.assent.database.write(use_case, locks=breakpoint_id)


async def take_back(node: Node, breakpoint_id: str, by: Principal) -> Answer | None:
    use_case = partial(node.assent[HoldingService].take_back, breakpoint_id=breakpoint_id, by=by)
    return await node.assent.database.write(use_case, locks=breakpoint_id)


async def give_due(node: Node) -> None:
    """Apply all due answers; the node's scheduler may apply some of them at the same time."""

    async def left() -> int:
        await node.assent.database.write(node.assent[HoldingService].commit_due)
        now = node.assent.clock.now()
        return len(await rows(node, "SELECT 1 FROM assent_held_answers WHERE due_at <= :now", now=now))

    await until(left, lambda count: count == 0)


async def kinds(node: Node, breakpoint_id: str) -> list[str]:
    return [each.type for each in await node.assent[InboxService].history(breakpoint_id)]


async def held(node: Node, breakpoint_id: str, by: Principal) -> Held | None:
    use_case = partial(node.assent[HoldingService].held_for, breakpoint_ids=[breakpoint_id], person_id=by.id)
    return (await node.assent.database.read(use_case)).get(breakpoint_id)


async def test_a_pending_answer_takes_effect_when_its_window_ends(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    before = await stored(node, breakpoint_id)
    assert await hold(node, breakpoint_id, ann, batch="b1") == Held(
        breakpoint_id, approved=True, batch="b1", due_at=clock.now() + 6 * SECOND
    )
    clock.advance(5.999)
    await give_due(node)
    assert await stored(node, breakpoint_id) == before
    assert await kinds(node, breakpoint_id) == ["created"]
    clock.advance(0.001)
    await give_due(node)
    after = await stored(node, breakpoint_id)
    assert (after.status, after.decision, str(after.ended_by)) == ("released", "approved", "person:ann")
    assert after.result is not None
    assert after.result["via"] == "web"
    assert await kinds(node, breakpoint_id) == ["created", "responded", "released"]
    assert await rows(node, "SELECT 1 FROM assent_held_answers") == []


async def test_a_pending_answer_takes_effect_unchanged(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    form = {"properties": {"why": {"type": "string"}, "share": {"type": "number"}}}
    payload = {"options": ["now", "later"], "form": form, "editable": ["size"], "risk": "high", "breakpointId": "g.x"}
    breakpoint_id = await create(node, payload)
    digest = (await stored(node, breakpoint_id)).digest
    said: dict[str, Any] = {
        "comment": "Go – 🚀",
        "option": "later",
        "answers": {"why": "é", "share": 0.25},
        "edits": {"size": {"a": [1, 2.5, None]}},
        "confirm": "g.x",
        "digest": digest,
    }
    await hold(node, breakpoint_id, ann, **said)
    clock.advance(6)
    await give_due(node)
    [response] = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    found = {name: getattr(response, name) for name in said if name != "confirm"}
    assert found == {name: value for name, value in said.items() if name != "confirm"}


async def test_an_undone_answer_never_takes_effect(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, approved=False, comment="No, wait.")
    assert await take_back(node, breakpoint_id, ann) == Answer(approved=False, comment="No, wait.")
    assert await take_back(node, breakpoint_id, ann) is None
    clock.advance(60)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
    assert await kinds(node, breakpoint_id) == ["created"]


async def test_a_second_answer_replaces_the_first(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    clock.advance(5)
    await hold(node, breakpoint_id, ann, approved=False)
    clock.advance(5)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
    clock.advance(1)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).decision == "rejected"


async def test_an_answer_that_took_effect_cannot_be_undone(node: Node, clock: ManualClock) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    single, quorum = await create(node), await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all"})
    for each in (single, quorum):
        await hold(node, each, ann)
    clock.advance(6)
    await give_due(node)
    with pytest.raises(AlreadyEnded) as refused:
        await take_back(node, single, ann)
    assert refused.value.details["standing"]
    with pytest.raises(AnswerStands):
        await take_back(node, quorum, ann)
    assert await take_back(node, quorum, bob) is None
    with pytest.raises(NotFound):
        await take_back(node, "bp_elsewhere", bob)


async def test_a_batch_can_be_undone_only_in_full_and_only_by_its_author(node: Node, clock: ManualClock) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    ids = sorted([await create(node) for _ in range(4)])
    for each in ids[:3]:
        await hold(node, each, ann, batch="b1")
    await hold(node, ids[3], ann, batch="b2")
    back = node.assent[HoldingService].take_back_batch
    with pytest.raises(AnswerStands):
        await node.assent.database.write(partial(back, batch="b1", by=bob))
    undone = await node.assent.database.write(partial(back, batch="b1", by=ann))
    assert undone == Undone(ids[:3], None)
    with pytest.raises(AnswerStands):
        await node.assent.database.write(partial(back, batch="b1", by=ann))
    clock.advance(6)
    await give_due(node)
    assert [(await stored(node, each)).status for each in ids] == ["waiting"] * 3 + ["released"]


async def test_only_the_author_is_offered_the_option_to_undo_a_pending_answer(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    assert await held(node, breakpoint_id, bob) is None
    assert await take_back(node, breakpoint_id, bob) is None
    assert await held(node, breakpoint_id, ann) is not None


@pytest.mark.parametrize(("seconds", "ttl"), [(0, 60), (6, 2)])
async def test_an_answer_too_close_to_the_deadline_takes_effect_immediately(node: Node, seconds: int, ttl: int) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, ttlSeconds=ttl)
    service = HoldingService(node.assent[BreakpointService], seconds)
    given = Answer(approved=False)
    use_case = partial(service.hold, breakpoint_id=breakpoint_id, answer=given, by=ann, via="web")
    assert await node.assent.database.write(use_case) is None
    assert (await stored(node, breakpoint_id)).decision == "rejected"


async def test_a_window_ends_before_the_deadline(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, ttlSeconds=5)
    found = await hold(node, breakpoint_id, ann)
    assert found is not None
    assert found.due_at == clock.now() + 3 * SECOND
    clock.advance(3)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).decision == "approved"


async def test_an_answer_held_past_the_deadline_does_not_approve(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, ttlSeconds=60)
    await hold(node, breakpoint_id, ann)
    clock.advance(60)
    await give_due(node)
    await node.assent.database.write(
        partial(node.assent[BreakpointService].time_out, breakpoint_id=breakpoint_id, project="default")
    )
    assert (await stored(node, breakpoint_id)).status is Status.EXPIRED
    assert await kinds(node, breakpoint_id) == ["created", "answer-dropped", "expired"]


async def lost_role(node: Node, who: Principal) -> None:
    await node.assent.database.write(lambda tx: tx[People].grant(who.id, "default", [Role.VIEWER]))


async def only_admin(node: Node, who: Principal) -> None:
    await node.assent.database.write(lambda tx: tx[People].grant(who.id, "default", [Role.ADMIN]))


async def closed(node: Node, who: Principal) -> None:
    def use_case(tx: Transaction) -> None:
        tx.session.write("UPDATE assent_people SET active = 0 WHERE id = :id", [{"id": who.id}])

    await node.assent.database.write(use_case)


async def left_group(node: Node, who: Principal) -> None:
    del who
    await group(node, "ops", await person(node, "new", "reviewer"))


@pytest.mark.parametrize(
    ("happens", "code"),
    [(lost_role, "forbidden"), (closed, "forbidden"), (only_admin, "forbidden"), (left_group, "not_eligible")],
)
async def test_an_answer_lapses_and_is_recorded_if_its_author_lost_permission(
    node: Node, clock: ManualClock, happens: Any, code: str
) -> None:
    ann = await person(node, "ann", "reviewer")
    await group(node, "ops", ann)
    breakpoint_id, other = await create(node, {"expert": "ops"}), await create(node)
    bob = await person(node, "bob", "reviewer")
    await hold(node, breakpoint_id, ann)
    await hold(node, other, bob)
    await happens(node, ann)
    clock.advance(6)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
    assert (await stored(node, other)).decision == "approved"
    event = (await node.assent[InboxService].history(breakpoint_id))[-1]
    assert (event.type, str(event.actor)) == ("answer-dropped", "system:undo")
    assert (event.metadata["person"], event.metadata["code"]) == ("ann", code)
    assert event.metadata["approved"] is True
    assert set(event.metadata) == {"person", "approved", "code", "why"}
    assert await rows(node, "SELECT 1 FROM assent_held_answers") == []


async def test_an_answer_submitted_elsewhere_replaces_the_pending_one(node: Node, clock: ManualClock) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node, {"expert": ["ann", "bob"], "strategy": "collect-all"})
    await hold(node, breakpoint_id, ann)
    clock.advance(1)
    await respond(node, breakpoint_id, ann, approved=False)
    clock.advance(5)
    await give_due(node)
    await respond(node, breakpoint_id, bob)
    assert (await stored(node, breakpoint_id)).decision == "rejected"
    assert await kinds(node, breakpoint_id) == ["created", "responded", "answer-dropped", "responded", "released"]


async def test_pending_answers_lapse_when_another_answer_decides(node: Node, clock: ManualClock) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, bob, approved=False)
    assert await held(node, breakpoint_id, ann) is None
    clock.advance(6)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).decision == "rejected"
    assert await kinds(node, breakpoint_id) == ["created", "responded", "answer-dropped", "released"]
    assert await rows(node, "SELECT 1 FROM assent_held_answers") == []


async def test_an_invalid_answer_does_not_start_an_undo_window(node: Node) -> None:
    ann, vic = await person(node, "ann", "reviewer"), await person(node, "vic", "viewer")
    risky = await create(node, {"risk": "high"})
    with pytest.raises(ConfirmationRequired):
        await hold(node, risky, ann)
    with pytest.raises(Forbidden):
        await hold(node, risky, vic)
    with pytest.raises(Forbidden):
        await hold(node, risky, AGENT)
    own = await create(node, by=ann)
    ended = await create(node)
    await respond(node, ended, ann)
    for breakpoint_id, answer, code in (
        (own, {}, "own_breakpoint"),
        (ended, {}, "already_ended"),
        (await create(node), {"digest": "0" * 64}, "digest_mismatch"),
        (await create(node), {"option": "x"}, "invalid_request"),
        (await create(node, {"expert": "owner"}), {}, "not_eligible"),
    ):
        with pytest.raises(AssentError) as refused:
            await hold(node, breakpoint_id, ann, **answer)
        assert refused.value.code == code
    assert await rows(node, "SELECT 1 FROM assent_held_answers") == []


async def test_an_unreadable_pending_answer_does_not_block_the_others(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    broken, others = await create(node), [await create(node) for _ in range(3)]
    for each in (broken, *others):
        await hold(node, each, ann)

    def spoil(tx: Transaction) -> None:
        tx.session.write("UPDATE assent_held_answers SET answer = '[' WHERE breakpoint_id = :id", [{"id": broken}])

    await node.assent.database.write(spoil)
    clock.advance(6)

    async def given() -> list[str]:
        # The node's scheduler also fails on the unreadable answer every second, and continues with the others.
        return [(await stored(node, each)).status for each in others]

    await until(given, lambda found: set(found) == {"released"})
    assert (await stored(node, broken)).status is Status.WAITING
    assert len(await rows(node, "SELECT 1 FROM assent_held_answers")) == 1


async def test_the_scheduler_applies_due_answers_automatically(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    ids = [await create(node) for _ in range(3)]
    for each in ids:
        await hold(node, each, ann)
    clock.advance(6)

    async def given() -> list[str]:
        return [(await stored(node, each)).status for each in ids]

    await until(given, lambda found: set(found) == {"released"})


async def test_the_agent_cannot_see_the_undo_window(node: Node, clock: ManualClock) -> None:
    ann, agent = await person(node, "ann", "reviewer"), await node.token("agent")
    created = await node.create(callbackUrl="https://hooks.example/x", ttlSeconds=3600)
    path = f"/api/breakpoints/{created['id']}"

    async def seen() -> list[Any]:
        whole = await node.call("GET", path, agent)
        status = await node.call("GET", f"{path}/status", agent)
        events = await node.call("GET", f"{path}/events", agent)
        deliveries = await rows(node, "SELECT seq, type FROM assent_deliveries ORDER BY seq")
        listed = await node.call("GET", "/api/breakpoints?counts=true", agent)
        return [whole.json(), whole.headers["etag"], status.json(), events.json(), deliveries, listed.json()]

    before = await seen()
    waiting = asyncio.create_task(node.call("GET", f"{path}/status?wait=30", agent))
    stream = asyncio.create_task(node.call("GET", f"{path}/stream", agent))
    await until(_parked(node, created["id"]), lambda count: count == 2)
    await hold(node, created["id"], ann, comment="Between us.")
    assert await seen() == before
    await take_back(node, created["id"], ann)
    await hold(node, created["id"], ann, comment="Now.")
    assert await seen() == before
    assert not waiting.done()
    assert not stream.done()
    clock.advance(6)
    await give_due(node)
    assert (await waiting).json()["decision"] == "approved"
    text = (await stream).text
    assert "Between us." not in text
    assert [line for line in text.splitlines() if line.startswith("event:")] == [
        "event: created",
        "event: responded",
        "event: released",
    ]


def _parked(node: Node, breakpoint_id: str) -> Any:
    async def count() -> int:
        return sum(each == breakpoint_id for each in node.assent.hub.waited_for()) and node.assent.hub.waiters

    return count


async def test_a_pending_answer_refreshes_open_inboxes_without_waking_waiters(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    inbox = node.assent.hub.open_inbox("default", "tok_x")
    waiter = node.assent.hub.register(breakpoint_id, "tok_y")
    await hold(node, breakpoint_id, ann)
    await inbox.ready.wait()
    assert [(each.version, each.quiet) for each in inbox.hints.values()] == [(1, True)]
    assert not waiter.future.done()
    node.assent.hub.remove(waiter)
    node.assent.hub.close_inbox(inbox)


async def test_a_pending_answer_refreshes_inboxes_on_other_nodes_as_well(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as two:
        ann = await person(one, "ann", "reviewer")
        inbox = two.assent.hub.open_inbox("default", "tok_x")
        made = await create(one)
        waiter = two.assent.hub.register(made, "tok_y")

        async def heard(quiet: bool) -> None:  # noqa: FBT001  # selects quiet or ordinary hints
            while all(each.quiet is not quiet for each in inbox.hints.values()):
                inbox.ready.clear()
                await inbox.ready.wait()

        await heard(quiet=False)
        two.assent.hub.rearm(waiter)
        await hold(one, made, ann)
        await heard(quiet=True)
        assert not waiter.future.done()
        await respond(one, made, ann)
        await waiter.future
        two.assent.hub.remove(waiter)
        two.assent.hub.close_inbox(inbox)
