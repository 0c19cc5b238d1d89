"""Firings that wait for debouncing, an approval, resuming or a free slot, and how they continue."""

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal
from assent.core.breakpoint import Status
from assent.db.transaction import Transaction
from assent.runs.model import RunState
from assent.triggers.model import TriggerState
from assent.triggers.store.triggers import Triggers
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.launch import MOST_GATHERED
from assent.triggers.usecases.run_approval import principal_of
from tests.db.making import adding, person, respond
from tests.db.making import stored as breakpoint_of
from tests.support.nodes import ManualClock, Node
from tests.triggers.usecases.triggering import (
    RITA,
    arrived,
    come,
    end,
    event,
    firings,
    process,
    runs,
    settle,
    source,
    stood,
    stored,
    trigger,
)


async def switch(node: Node, state: TriggerState, name: str = "fixer") -> None:
    def use_case(tx: Transaction) -> None:
        known = tx[Triggers].get(name, project="default")
        tx[Triggers].set_state(known.id, state, because=None, alarm_id=None, now=tx.now())

    await node.assent.database.write(use_case)


# Debouncing


async def test_events_with_the_same_key_are_merged_until_the_quiet_period_ends(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce={"quiet": "30s", "key": "{{ event.branch }}"})
    [first] = await come(node, ci, arrived(branch="main", n=1))
    await settle(node)
    clock.advance(20)
    [other, second] = await come(node, ci, arrived(branch="dev"), arrived(branch="main"))
    await settle(node)
    assert await stood(node) == [("skipped", "merged"), ("held", "debounce"), ("held", "debounce")]
    clock.advance(20)
    await settle(node)
    assert await runs(node) == [], "20 seconds of quiet are less than 30"
    clock.advance(10)
    await settle(node)
    found = {run.cause.event_id: run for run in await runs(node) if run.cause}
    assert set(found) == {other, second}
    assert [each["id"] for each in found[second].inputs["events"]] == [first, second]
    assert found[second].inputs["event"]["id"] == second
    assert "events" not in found[other].inputs
    [merged, *_] = await firings(node)
    assert merged.error == f"Merged into event {second} by debouncing."


async def test_a_continuous_stream_of_events_starts_a_run_after_the_maximum_wait(
    node: Node, clock: ManualClock
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce={"quiet": "30s", "max": "1m"})
    for _ in range(4):
        await come(node, ci, arrived())
        await settle(node)
        clock.advance(20)
    await settle(node)
    [run] = await runs(node)
    assert len(run.inputs["events"]) in {3, 4}


async def test_merged_events_beyond_a_thousand_are_only_counted(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="1s", breaker={"limit": 5})
    for _ in range(13):
        await come(node, ci, *(arrived() for _ in range(100)))
    await settle(node)
    clock.advance(1)
    await settle(node)
    [run] = await runs(node)
    assert len(run.inputs["events"]) == MOST_GATHERED + 1
    [firing] = await firings(node, state="started")
    assert firing.beyond == 13 * 100 - 1 - MOST_GATHERED
    assert (await stored(node)).state is TriggerState.ENABLED, "merged events must count as one firing for the breaker"


# Approvals


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


async def test_a_held_run_starts_when_a_reviewer_approves(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    made = await trigger(node, hold=True, inputs={"sha": "{{ event.sha }}"})
    await come(node, ci, arrived("github.push", subject="acme/shop", sha="1", title="<b>boo</b>\n# Approve me"))
    await settle(node)
    [firing] = await firings(node)
    assert (firing.state.value, firing.because) == ("held", "approval")
    assert node.assent[TriggeringService].has_held
    asked = await breakpoint_of(node, str(firing.breakpoint_id))
    assert (asked.gate, asked.agent_id, str(asked.created_by), asked.created_by_id) == (
        "trigger.fixer",
        "trigger/fixer",
        "trigger:fixer",
        made.id,
    )
    assert asked.payload["question"] == "Start fix for github.push acme/shop?"
    context = asked.payload["context"]
    assert context["event"]["title"] == "<b>boo</b>\n# Approve me"
    assert context["inputs"] == {"sha": "1"}
    assert "data" not in context["event"]
    await respond(node, asked.id, ann)
    await settle(node)
    assert await stood(node) == [("started", None)]
    assert not node.assent[TriggeringService].has_held


async def test_a_rejected_or_cancelled_request_starts_no_run(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    made = await trigger(node, hold={"gate": "gate.ci-fix", "question": "Fix {{ event.repo }}?", "expert": "ann"})
    await come(node, ci, arrived(repo="a"), arrived(repo="b"))
    await settle(node)
    [first, second] = await firings(node)
    asked = await breakpoint_of(node, str(first.breakpoint_id))
    assert (asked.gate, asked.payload["question"], asked.seats[0].name) == ("gate.ci-fix", "Fix a?", "ann")
    await respond(node, asked.id, ann, approved=False)
    by = principal_of(made)
    await node.assent.database.write(
        lambda tx: node.assent[BreakpointService].cancel(tx, str(second.breakpoint_id), by=by)
    )
    await settle(node)
    assert await stood(node) == [("skipped", "not-approved"), ("skipped", "not-approved")]
    assert [each.error for each in await firings(node)] == [
        "Rejected by person:ann.",
        "The breakpoint was cancelled by trigger:fixer.",
    ]
    assert await runs(node) == []


async def test_only_events_that_match_the_hold_condition_are_held(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold={"when": "actortype = 'bot'"})
    await come(node, ci, arrived(actortype="user"), arrived(actortype="bot"), arrived())
    await settle(node)
    assert await stood(node) == [("started", None), ("held", "approval"), ("held", "approval")]


async def test_a_rule_can_approve_a_held_run(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await node.assent.database.write(adding(node, "trigger.fixer"))
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_no_run_starts_if_its_approval_request_cannot_be_created(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold={"expert": ["no\nname"]})
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    assert (firing.state.value, firing.because) == ("held", "retry")
    assert str(firing.error).startswith("The approval request could not be created: ")


async def test_discarding_a_held_firing_cancels_its_approval_request(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await node.assent.database.write(lambda tx: node.assent[TriggeringService].discard(tx, firing.id, by=RITA))
    assert (await breakpoint_of(node, str(firing.breakpoint_id))).status is Status.CANCELLED


# Suspended triggers


async def test_events_queue_while_a_trigger_is_suspended_and_start_in_order_when_resumed(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, enabled="suspended", breaker={"limit": 2})
    came = await come(node, ci, *(arrived() for _ in range(5)))
    await settle(node)
    assert await stood(node) == [("held", "suspended")] * 5
    await switch(node, TriggerState.ENABLED)
    await settle(node)
    assert await stood(node) == [("started", None)] * 5
    assert [run.cause.event_id for run in await runs(node) if run.cause] == came
    assert (await stored(node)).state is TriggerState.ENABLED, "the backlog must not trip the breaker"


async def test_a_firing_approved_while_suspended_starts_when_resumed(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await switch(node, TriggerState.SUSPENDED)
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("held", "suspended")]
    await switch(node, TriggerState.ENABLED)
    await settle(node)
    [started] = await firings(node)
    assert (started.state.value, started.breakpoint_id) == ("started", firing.breakpoint_id)


async def test_the_backlog_of_a_debouncing_trigger_is_merged_when_resumed(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, enabled="suspended", debounce="5s")
    came = await come(node, ci, *(arrived() for _ in range(3)))
    await settle(node)
    await switch(node, TriggerState.ENABLED)
    await settle(node)
    assert await stood(node) == [("skipped", "merged"), ("skipped", "merged"), ("held", "debounce")]
    clock.advance(5)
    await settle(node)
    [run] = await runs(node)
    assert [each["id"] for each in run.inputs["events"]] == came


async def test_removing_a_trigger_discards_its_waiting_firings(node: Node) -> None:
    await process(node)
    ci = await source(node)
    made = await trigger(node, enabled="suspended")
    await come(node, ci, arrived())
    await settle(node)
    await node.assent.database.write(lambda tx: tx[Triggers].remove(made.id, now=tx.now()))
    await settle(node)
    assert await stood(node) == [("skipped", "discarded")]


# Concurrency limits


async def test_events_are_queued_in_order_while_no_slot_is_free(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, concurrency={"limit": 1, "key": "{{ event.repo }}"})
    came = await come(node, ci, arrived(repo="a"), arrived(repo="a"), arrived(repo="a"), arrived(repo="b"))
    await settle(node)
    assert await stood(node) == [("started", None), ("held", "room"), ("held", "room"), ("started", None)]
    [first, _] = await runs(node)
    await end(node, first.id)
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None), ("held", "room"), ("started", None)]
    late = await come(node, ci, arrived(repo="a"))
    await end(node, (await runs(node))[1].id)
    await settle(node)
    assert [run.cause.event_id for run in await runs(node) if run.cause] == came
    assert await stood(node, event_id=late[0]) == [("held", "room")]


async def test_the_skip_setting_drops_events_while_no_slot_is_free(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, concurrency={"limit": 2, "when_full": "skip"})
    await come(node, ci, arrived(), arrived(), arrived())
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None), ("skipped", "busy")]


async def test_the_replace_setting_keeps_only_the_newest_waiting_event(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, concurrency={"when_full": "replace"})
    came = await come(node, ci, arrived(), arrived(), arrived())
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "replaced"), ("held", "room")]
    await end(node, (await runs(node))[0].id)
    await settle(node)
    assert [run.cause.event_id for run in await runs(node) if run.cause] == [came[0], came[2]]


async def test_the_cancel_setting_cancels_the_active_run_and_starts_one_for_the_newest_event(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, concurrency={"when_full": "cancel", "key": "{{ event.repo }}"})
    await come(node, ci, arrived(repo="b"), arrived(repo="a"), arrived(repo="a"))
    await settle(node)
    assert [run.state for run in await runs(node)] == [RunState.QUEUED, RunState.CANCELLED, RunState.QUEUED]
    assert await stood(node) == [("started", None)] * 3


async def test_a_firing_that_waits_for_a_slot_survives_a_suspension(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, concurrency=1)
    await come(node, ci, arrived(), arrived())
    await settle(node)
    await switch(node, TriggerState.SUSPENDED)
    await end(node, (await runs(node))[0].id)
    await settle(node)
    assert await stood(node) == [("started", None), ("held", "suspended")]
    await switch(node, TriggerState.ENABLED)
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None)]
    assert (await event(node, (await firings(node))[1].event_id)).handled_at is not None
