"""Storing and changing breakpoints in both databases."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.breakpoints.store.breakpoints import Breakpoints, Deadline
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.access import Actor, Kind
from assent.core.breakpoint import Action, Status, advance, cancel, expire, record
from assent.core.canonical import GENESIS, link
from assent.core.errors import AlreadyEnded, AssentError, IdempotencyMismatch, NotFound
from assent.core.terms import Answer
from assent.db.transaction import Transaction
from assent.people.store.people import People
from tests.db.making import AGENT, create, creation, person, respond, rows, stored
from tests.support.nodes import ManualClock, Node

ANN = Actor(Kind.PERSON, "ann")
RICH: dict[str, Any] = {
    "question": "Ship – now? 🚀 \u2028",
    "title": "Ship it",
    "expert": ["owner", "ghost"],
    "strategy": "collect-all",
    "risk": "high",
    "options": ["a", "b"],
    "attempt": 3,
    "context": {"runId": "run-1", "files": [{"path": "a.txt", "format": "text", "content": "x"}]},
    "deep": {"list": [1, 2.5, None, True, {"é": "\ue000"}], "number": 2**53 - 1, "small": -1e-7},
}


async def test_a_stored_breakpoint_is_read_back_unchanged(node: Node) -> None:
    breakpoint_id = await create(
        node, RICH, tags=["x", "y"], ttlSeconds=60, onTimeout="reject", priority="urgent", callbackUrl="https://a.test/"
    )
    got = await stored(node, breakpoint_id)
    sent = {name: value for name, value in RICH.items() if name != "context"}
    assert {name: got.payload[name] for name in sent} == sent
    assert got.tags == ("x", "y")
    assert [seat.names for seat in got.seats] == [("owner", "ghost")]
    assert (got.run_id, got.title, got.gate, got.risk) == ("run-1", "Ship it", "ship-it", "high")
    assert (got.priority, got.on_timeout, got.ttl_seconds) == ("urgent", "reject", 60)
    assert got.due_at == got.created_at + 60_000_000
    assert (got.status, got.decision, got.result, got.ended_by) == (Status.WAITING, None, None, None)
    assert got.created_by == AGENT.actor
    assert len(got.warnings) == 1


async def test_breakpoints_in_another_project_are_not_found(node: Node) -> None:
    breakpoint_id = await create(node)
    with pytest.raises(NotFound):
        await stored(node, breakpoint_id, project="other")
    with pytest.raises(NotFound):
        await stored(node, "bp_none")


async def test_the_history_is_gapless_and_its_chain_verifies(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    use_case = partial(
        node.assent[BreakpointService].comment, breakpoint_id=breakpoint_id, comment="Why?", by=AGENT, once=None
    )
    await node.assent.database.write(use_case)
    await respond(node, breakpoint_id, ann, comment="Yes.")
    events = await node.assent.database.read(lambda tx: tx[Breakpoints].events(breakpoint_id))
    assert [event.type for event in events] == ["created", "commented", "responded", "released"]
    head = GENESIS
    for number, event in enumerate(events, start=1):
        body = {
            "breakpointId": breakpoint_id,
            "seq": number,
            "type": event.type,
            "actor": str(event.actor),
            "at": event.at,
            "metadata": event.metadata,
        }
        assert (event.previous, event.hash) == (head, link(head, body))
        head = event.hash
    assert (await stored(node, breakpoint_id)).head == head


async def test_the_second_change_to_the_same_version_is_refused(node: Node) -> None:
    breakpoint_id = await create(node)
    seen = await stored(node, breakpoint_id)

    def move(tx: Transaction, action: Action) -> None:
        changed, event = advance(seen, action, actor=ANN, at=tx.now())
        tx[Breakpoints].move(changed, [event], deadline=Deadline.AHEAD, now=tx.now())

    await node.assent.database.write(partial(move, action=Action.CANCEL))
    with pytest.raises(AlreadyEnded) as refused:
        await node.assent.database.write(partial(move, action=Action.EXPIRE))
    standing = refused.value.details["standing"]
    assert isinstance(standing, dict)
    assert (standing["status"], standing["by"]) == ("cancelled", "person:ann")
    assert (await stored(node, breakpoint_id)).status is Status.CANCELLED


async def test_a_comment_between_reading_and_deciding_is_never_overwritten(node: Node) -> None:
    breakpoint_id = await create(node)
    seen = await stored(node, breakpoint_id)

    def comment(tx: Transaction) -> None:
        changed, event = advance(seen, Action.COMMENT, actor=ANN, at=tx.now())
        tx[Breakpoints].move(changed, [event], deadline=Deadline.AHEAD, now=tx.now())

    await node.assent.database.write(comment)
    with pytest.raises(AlreadyEnded):
        await node.assent.database.write(comment)
    assert (await stored(node, breakpoint_id)).version == 2


@pytest.mark.parametrize(
    ("deadline", "late_by", "moves"),
    [
        (Deadline.AHEAD, -1, True),
        (Deadline.AHEAD, 0, False),
        (Deadline.AHEAD, 1, False),
        (Deadline.PASSED, -1, False),
        (Deadline.PASSED, 0, True),
        (Deadline.PASSED, 1, True),
        (Deadline.ANY, 1, True),
    ],
)
async def test_the_statement_that_records_a_decision_checks_the_deadline(
    node: Node,
    clock: ManualClock,
    deadline: Deadline,
    late_by: int,
    moves: bool,  # noqa: FBT001
) -> None:
    breakpoint_id = await create(node, ttlSeconds=60)
    seen = await stored(node, breakpoint_id)

    def move(tx: Transaction) -> None:
        changed, event = expire(seen, actor=ANN, at=seen.due_at)
        tx[Breakpoints].move(changed, [event], deadline=deadline, now=seen.due_at + late_by)

    if moves:
        await node.assent.database.write(move)
    else:
        with pytest.raises(AlreadyEnded):
            await node.assent.database.write(move)
    del clock
    assert (await stored(node, breakpoint_id)).status is (Status.EXPIRED if moves else Status.WAITING)


async def test_an_answer_after_the_deadline_returns_the_final_state(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    for on_timeout, expected in (("expire", ("expired", None)), ("reject", ("released", "rejected"))):
        breakpoint_id = await create(node, ttlSeconds=5, onTimeout=on_timeout)
        clock.advance(5)
        with pytest.raises(AlreadyEnded) as refused:
            await respond(node, breakpoint_id, ann)
        standing = refused.value.details["standing"]
        assert isinstance(standing, dict)
        assert (standing["status"], standing["decision"]) == expected
        assert standing["by"] == "system:timeout"


async def test_labels_are_updated_with_the_status(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, {"expert": ["ann", "ann"]}, tags=["x", "x"])
    labels = "SELECT label, status FROM assent_labels WHERE id = :id ORDER BY label"
    assert await rows(node, labels, id=breakpoint_id) == [("e:ann", "waiting"), ("t:x", "waiting")]
    await respond(node, breakpoint_id, ann, approved=False)
    assert await rows(node, labels, id=breakpoint_id) == [("e:ann", "released"), ("t:x", "released")]


async def test_a_changed_answer_replaces_the_old_one_and_keeps_its_position(node: Node, clock: ManualClock) -> None:
    ann, bob, cid = [await person(node, name, "reviewer") for name in ("ann", "bob", "cid")]
    breakpoint_id = await create(node, {"expert": ["ann", "bob", "cid"], "strategy": "collect-all"})
    for who, approved in ((ann, True), (bob, True), (ann, False)):
        await respond(node, breakpoint_id, who, approved=approved)
        clock.advance(1)
    responses = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    assert [(each.person, each.approved) for each in responses] == [("ann", False), ("bob", True)]
    assert (await stored(node, breakpoint_id)).votes == 2
    await respond(node, breakpoint_id, cid)
    assert (await stored(node, breakpoint_id)).decision == "rejected"


async def test_the_same_key_returns_the_same_breakpoint(node: Node) -> None:
    once = Once("key-1", "a" * 64)
    first, second = await create(node, once=once), await create(node, once=once)
    assert first == second
    assert (await rows(node, "SELECT count(*) FROM assent_breakpoints"))[0][0] == 1
    with pytest.raises(IdempotencyMismatch):
        await create(node, once=Once("key-1", "b" * 64))


async def test_idempotency_keys_are_scoped_to_their_principal(node: Node) -> None:
    once = Once("key-1", "a" * 64)
    other = replace(AGENT, id="tok_other")
    assert await create(node, once=once) != await create(node, once=once, by=other)


async def test_a_failed_request_does_not_consume_its_key(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, {"options": ["a"]})
    once = Once("key-1", "a" * 64)
    use_case = partial(
        node.assent[BreakpointService].respond, breakpoint_id=breakpoint_id, by=ann, via="api", once=once
    )
    with pytest.raises(AssentError):
        await node.assent.database.write(partial(use_case, answer=Answer(approved=True)))
    await node.assent.database.write(partial(use_case, answer=Answer(approved=True, option="a")))
    assert (await stored(node, breakpoint_id)).decision == "approved"


async def test_a_retry_returns_its_breakpoint_even_if_the_experts_have_changed(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    bob = await person(node, "bob", "reviewer")
    use_case = creation(node, {"expert": ["ann", "team"], "strategy": "quorum"}, once=Once("key-1", "a" * 64))
    await node.assent.database.write(lambda tx: tx[People].put_group("default", "team", [bob.id], at=0))
    first = await node.assent.database.write(use_case)
    await node.assent.database.write(lambda tx: tx[People].put_group("default", "team", [ann.id], at=0))
    assert await node.assent.database.write(use_case) == (first if isinstance(first, str) else first.id)


async def test_unknown_experts_do_not_reduce_the_required_number_of_people(node: Node) -> None:
    owner_id = (await rows(node, "SELECT id FROM assent_people WHERE name = 'owner'"))[0][0]
    await node.assent.database.write(lambda tx: tx[People].put_group("default", "heads", [owner_id], at=0))
    for experts in (["owner", "heads"], ["owner", "heads", "ghost"]):
        with pytest.raises(AssentError) as refused:
            await create(node, {"expert": experts, "strategy": "collect-all"})
        assert refused.value.code == "experts_not_distinct"


async def test_the_most_overdue_breakpoints_are_selected_first_and_returned_in_lock_order(
    node: Node, clock: ManualClock
) -> None:
    ids = [await create(node, ttlSeconds=seconds) for seconds in (30, 10, 20, 60)]
    await create(node)
    due = await node.assent.database.read(lambda tx: tx[Breakpoints].due(clock.now() + 30_000_000, limit=10))
    assert [row.id for row in due] == sorted(ids[:3])
    few = await node.assent.database.read(lambda tx: tx[Breakpoints].due(clock.now() + 30_000_000, limit=2))
    assert [row.id for row in few] == sorted(ids[1:3])


async def test_timing_out_twice_ends_the_breakpoint_once(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await create(node, ttlSeconds=1)
    clock.advance(1)
    for _ in range(2):
        await node.assent.database.write(
            partial(node.assent[BreakpointService].time_out, breakpoint_id=breakpoint_id, project="default")
        )
    events = await node.assent.database.read(lambda tx: tx[Breakpoints].events(breakpoint_id))
    assert [event.type for event in events] == ["created", "expired"]


async def test_the_database_refuses_a_second_final_event(node: Node) -> None:
    breakpoint_id = await create(node)

    def twice(tx: Transaction) -> None:
        current = tx[Breakpoints].get(breakpoint_id, project="default")
        changed, event = cancel(current, actor=ANN, at=tx.now())
        again, second = record(changed, "released", actor=ANN, at=tx.now())
        tx[Breakpoints].move(again, [event, second], deadline=Deadline.AHEAD, now=tx.now())

    with pytest.raises(Exception, match=r"(?i)unique"):
        await node.assent.database.write(twice)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
