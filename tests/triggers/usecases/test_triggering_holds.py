"""A run starts exactly as it was approved, and a run that requires an approval never starts without one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from assent.core.access import Principal
from assent.core.breakpoint import Status
from assent.runs.processes import FolderOfProcesses
from assent.triggers.event import Trust
from assent.triggers.model import TriggerState
from assent.triggers.usecases.triggers import TriggerService
from tests.db.making import person, respond
from tests.db.making import stored as breakpoint_of
from tests.support.nodes import ManualClock, Node
from tests.triggers.usecases.triggering import (
    PLAIN,
    RITA,
    arrived,
    come,
    end,
    firings,
    process,
    runs,
    settle,
    source,
    stood,
    trigger,
)


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


async def edit(node: Node, **changes: Any) -> None:
    await node.assent.database.write(lambda tx: node.assent[TriggerService].change(tx, "fixer", changes, by=RITA))


async def test_an_approval_of_one_process_never_starts_another(node: Node, ann: Principal) -> None:
    await process(node)
    await process(node, "destroy")
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await edit(node, run="destroy")
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert [each.process for each in await runs(node)] == [], "ann was asked about fix"


async def test_no_approval_is_requested_for_a_missing_process(node: Node, clock: ManualClock, ann: Principal) -> None:
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    assert (firing.breakpoint_id, firing.because) == (None, "retry")
    assert str(firing.error).startswith("process fix not found")
    await process(node)
    clock.advance(5)
    await settle(node)
    [firing] = await firings(node)
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert [each.process for each in await runs(node)] == ["fix"], "a single approval must be enough"


async def test_an_approval_of_some_inputs_never_starts_a_run_with_different_ones(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True, inputs={"target": "staging"})
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await edit(node, inputs={"target": "production"})
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert [each.inputs["target"] for each in await runs(node)] == [], "ann was shown staging"


async def test_an_approved_run_that_waits_for_a_slot_does_not_change(node: Node, ann: Principal) -> None:
    await process(node)
    await process(node, "destroy")
    ci = await source(node)
    await trigger(node, hold={"when": "actor = 'stranger'"}, concurrency=1)
    await come(node, ci, arrived(actor="friend"), arrived(actor="stranger"))
    await settle(node)
    [first] = await runs(node)
    [_, waiting] = await firings(node)
    await respond(node, str(waiting.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("started", None), ("held", "room")]
    await edit(node, run="destroy")
    await end(node, first.id)
    await settle(node)
    assert [each.process for each in await runs(node)] == ["fix"]


async def test_an_event_that_requires_approval_is_not_merged_into_one_that_does_not(
    node: Node, clock: ManualClock
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="5s", hold={"when": "trust = 'untrusted'"})
    await come(node, ci, arrived(trust=Trust.UNTRUSTED, data={"n": "evil"}), arrived(trust=Trust.TRUSTED))
    await settle(node)
    clock.advance(6)
    await settle(node)
    given = [each["data"] for run in await runs(node) for each in run.inputs.get("events", [])]
    assert {"n": "evil"} not in given, "it started without approval"


async def test_removing_a_trigger_cancels_its_approval_request(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await node.assent.database.write(lambda tx: node.assent[TriggerService].remove(tx, "fixer", by=RITA))
    await settle(node)
    assert (await breakpoint_of(node, str(firing.breakpoint_id))).status is not Status.WAITING


async def test_queued_events_that_no_longer_match_a_changed_trigger_do_not_start_runs(node: Node) -> None:
    """A trigger with an overly broad pattern is suspended, narrowed and resumed."""
    await process(node)
    ci = await source(node)
    await trigger(node, enabled="suspended")
    await come(node, ci, arrived(branch="main"), arrived(branch="dev"))
    await settle(node)
    await edit(node, on="*(branch = 'main')")
    await node.assent.database.write(lambda tx: node.assent[TriggerService].resume(tx, "fixer", by=RITA))
    await settle(node)
    assert [each.inputs["event"]["branch"] for each in await runs(node)] == ["main"]


async def test_changing_an_input_cancels_the_first_request_and_creates_a_new_one(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True, inputs={"target": "staging"})
    await come(node, ci, arrived())
    await settle(node)
    [first] = await firings(node)
    await edit(node, inputs={"target": "production"})
    await settle(node)
    [second] = await firings(node)
    assert (second.because, second.trigger_version) == ("approval", 2)
    assert (await breakpoint_of(node, str(first.breakpoint_id))).status is Status.CANCELLED
    asked = await breakpoint_of(node, str(second.breakpoint_id))
    assert asked.payload["context"]["inputs"] == {"target": "production"}
    await respond(node, asked.id, ann)
    await settle(node)
    assert [each.inputs["target"] for each in await runs(node)] == ["production"]


async def test_an_approval_remains_valid_if_nothing_it_covers_has_changed(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [first] = await firings(node)
    await edit(node, note="Ask Ann.")
    await settle(node)
    [second] = await firings(node)
    assert second.breakpoint_id == first.breakpoint_id
    await respond(node, str(first.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_a_changed_process_requires_a_new_approval(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [first] = await firings(node)
    before = node.assent[FolderOfProcesses].find("fix")
    await process(node, source=f"DANGER = True\n{PLAIN}")
    assert before is not None
    assert node.assent[FolderOfProcesses].find("fix") != before
    await respond(node, str(first.breakpoint_id), ann)
    await settle(node)
    [second] = await firings(node)
    assert (second.because, second.breakpoint_id != first.breakpoint_id) == ("approval", True)
    await respond(node, str(second.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_a_rejection_is_final_even_after_the_trigger_is_changed(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await respond(node, str(firing.breakpoint_id), ann, approved=False)
    await edit(node, inputs={"target": "production"})
    await settle(node)
    assert await stood(node) == [("skipped", "not-approved")]


async def test_an_approval_request_shows_the_number_of_events(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="5s", hold=True)
    await trigger(node, "own", debounce="5s", hold={"question": "Fix {{ event.repo }}?"})
    await trigger(node, "blank", hold={"question": "{{ event.title }}"})
    await come(node, ci, arrived("ci.a", repo="a"), arrived("ci.b", repo="b"), arrived("ci.c", repo="c"))
    await settle(node)
    clock.advance(6)
    await settle(node)
    asked = {
        each.trigger_name: (await breakpoint_of(node, each.breakpoint_id)).payload
        for each in await firings(node, because="approval")
        if each.breakpoint_id is not None
    }
    assert asked["fixer"]["question"] == "Start fix for ci.c and 2 earlier events?"
    assert asked["own"]["question"] == "Fix c? (this and 2 earlier events)"
    assert asked["own"]["context"]["events"] == 3
    assert asked["blank"]["question"] == "Start fix for ci.c?"


async def test_one_event_that_requires_approval_holds_the_whole_merged_batch(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="5s", hold={"when": "trust = 'untrusted'"})
    await come(node, ci, arrived(trust=Trust.UNTRUSTED), arrived(trust=Trust.TRUSTED))
    await settle(node)
    clock.advance(6)
    await settle(node)
    [_, firing] = await firings(node)
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    [run] = await runs(node)
    assert len(run.inputs["events"]) == 2


async def test_an_unverified_event_requires_approval_even_without_a_hold(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node)
    await come(node, ci, replace(arrived(), verified="none"))
    await settle(node)
    [firing] = await firings(node)
    assert firing.because == "approval"
    assert (await breakpoint_of(node, str(firing.breakpoint_id))).gate == "trigger.fixer"
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_an_approval_can_be_requested_for_a_huge_event(node: Node) -> None:
    await process(node)
    ci = await source(node)
    inputs = {"all": "{{ event.data }}", "title": "{{ event.title }}"}
    await trigger(node, hold=True, inputs=inputs)
    wide = {f"{'k' * 40}{n}": [[str(n)] * 20] * 20 for n in range(2_000)}
    await come(node, ci, arrived(title="\u00e9" * 5_000, data={"text": "x" * 300_000}), arrived(data=wide))
    await settle(node)
    for firing in await firings(node):
        assert firing.because == "approval"
        asked = await breakpoint_of(node, str(firing.breakpoint_id))
        assert len(json.dumps(asked.payload["context"])) < 17 * 1024


async def test_disabling_a_trigger_cancels_its_approval_request(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await edit(node, enabled=False)
    await settle(node)
    assert await stood(node) == [("skipped", "discarded")]
    assert (await breakpoint_of(node, str(firing.breakpoint_id))).status is Status.CANCELLED


async def test_only_debounced_events_that_still_match_are_used(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="5s")
    several = [arrived(branch=each) for each in ("main", "dev", "main", "dev")]
    [first, _, third, _] = await come(node, ci, *several)
    await settle(node)
    await edit(node, on="*(branch = 'main')")
    clock.advance(6)
    await settle(node)
    [run] = await runs(node)
    assert [each["id"] for each in run.inputs["events"]] == [first, third]
    assert run.inputs["event"]["id"] == third


async def test_an_approval_given_during_a_suspension_takes_effect_after_resuming(node: Node, ann: Principal) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    await node.assent.database.write(lambda tx: node.assent[TriggerService].suspend(tx, "fixer", by=RITA))
    await settle(node)
    await respond(node, str(firing.breakpoint_id), ann)
    await settle(node)
    assert await stood(node) == [("held", "suspended")]
    resumed = await node.assent.database.write(lambda tx: node.assent[TriggerService].resume(tx, "fixer", by=RITA))
    assert resumed.state is TriggerState.ENABLED
    await settle(node)
    assert await stood(node) == [("started", None)]
