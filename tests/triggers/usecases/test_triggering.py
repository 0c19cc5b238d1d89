"""Trigger events: a match starts a run only once, and every event records why each trigger did or did not match."""

from dataclasses import replace

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.core.access import Kind
from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import Conflict
from assent.db.transaction import Transaction
from assent.people.store.projects import Project, Projects
from assent.runs.model import RunState
from assent.runs.store import Runs
from assent.triggers.event import EventState
from assent.triggers.model import FiringState
from assent.triggers.store.events import TriggerEvents
from assent.triggers.usecases.dispatch import TriggeringService
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


async def test_a_matching_event_starts_one_run_that_records_its_cause(node: Node) -> None:
    await process(node)
    ci = await source(node)
    made = await trigger(node, on="ci.done(branch = 'main')", inputs={"sha": "{{ event.sha }}"})
    [event_id] = await come(node, ci, arrived(branch="main", sha="abc", data={"big": [1, 2]}))
    await settle(node)
    [run] = await runs(node)
    assert (run.process, run.state, run.started_by, run.agent_id) == (
        "fix",
        RunState.QUEUED,
        "trigger:fixer",
        "trigger/fixer",
    )
    assert run.cause is not None
    assert (run.cause.event_id, run.cause.trigger, run.cause.depth) == (event_id, "fixer", 0)
    assert (run.principal.kind, run.principal.id, run.principal.roles) == (Kind.TRIGGER, made.id, frozenset())
    inputs = run.inputs
    assert inputs["sha"] == "abc"
    assert inputs["event"]["data"] == {"big": [1, 2]}
    assert inputs["event"]["trust"] == "untrusted"
    [firing] = await firings(node)
    assert (firing.state, firing.run_id, firing.trigger_version) == (FiringState.STARTED, run.id, 1)
    assert (await event(node, event_id)).state is EventState.MATCHED
    assert (await stored(node)).fired_at is not None


async def test_every_event_records_why_each_trigger_did_or_did_not_match(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, "a-main", on="ci.done(branch = 'main' AND conclusion = 'failure')")
    await trigger(node, "b-other", on="github.push(branch = 'main')")
    await trigger(node, "c-off", enabled=False)
    await trigger(node, "d-yes", on="ci.*(sha exists)")
    [event_id] = await come(node, ci, arrived(branch="main", conclusion="success", sha="1"))
    await settle(node)
    found = await event(node, event_id)
    told = {each["trigger"]: each for each in _listed(found.trace)}
    assert [each["matched"] for each in told.values()] == [False, False, False, True]
    assert told["a-main"]["findings"] == [
        {"part": "ci.done", "actual": "ci.done", "held": True},
        {"part": "branch = 'main'", "actual": "main", "held": True},
        {"part": "conclusion = 'failure'", "actual": "success", "held": False},
    ]
    assert told["b-other"]["findings"] == [{"part": "github.push", "actual": "ci.done", "held": False}]
    assert told["c-off"]["note"] == "disabled: not evaluated"
    assert told["d-yes"]["note"] == "started"
    assert [each.trigger_name for each in await firings(node)] == ["d-yes"]


async def test_an_unmatched_event_is_kept_but_starts_no_run(node: Node) -> None:
    ci = await source(node)
    await trigger(node, on="github.push")
    [event_id] = await come(node, ci, arrived())
    await settle(node)
    assert (await event(node, event_id)).state is EventState.UNMATCHED
    assert (await runs(node), await firings(node)) == ([], [])


async def test_all_matching_triggers_fire(node: Node) -> None:
    await process(node)
    ci = await source(node)
    for name in ("one", "two"):
        await trigger(node, name)
    await come(node, ci, arrived())
    await settle(node)
    assert sorted(each.started_by for each in await runs(node)) == ["trigger:one", "trigger:two"]


async def test_triggers_in_another_project_do_not_see_the_event(node: Node) -> None:
    await process(node)
    await node.assent.database.write(lambda tx: tx[Projects].add(Project("other", "Other", None, {}, tx.now())))
    ci = await source(node)
    await trigger(node, project="other")
    [event_id] = await come(node, ci, arrived())
    await settle(node)
    assert (await event(node, event_id)).trace == []


async def test_a_second_event_with_the_same_once_key_is_recorded_as_skipped(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.repo }}@{{ event.sha }}")
    await come(node, ci, arrived(repo="a", sha="1"), arrived(repo="a", sha="1"), arrived(repo="a", sha="2"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "once"), ("started", None)]
    assert [each.once_key for each in await firings(node)] == ["a@1", None, "a@2"]


async def test_keys_with_unstorable_characters_are_accepted(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(
        node,
        once="{{ event.data.x }}",
        debounce={"quiet": "1s", "key": "{{ event.data.x }}"},
        concurrency={"key": "{{ event.data.x }}"},
        hold={"question": "{{ event.data.x }}?"},
    )
    await come(node, ci, arrived(data={"x": "a\x00b"}))
    await settle(node)
    assert await stood(node) == [("held", "debounce")]


async def test_an_event_beyond_the_maximum_depth_is_skipped_as_a_loop(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, max_depth=1)
    [first] = await come(node, ci, arrived())
    await settle(node)
    [run] = await runs(node)
    [second] = await come(node, ci, arrived(mark=run.id))
    await settle(node)
    [_, run] = await runs(node)
    assert run.depth == 1
    [third] = await come(node, ci, arrived(mark=run.id))
    await settle(node)
    assert [each["note"] for each in _listed((await event(node, third)).trace)] == ["skipped (loop)"]
    assert await stood(node) == [("started", None), ("started", None), ("skipped", "loop")]
    found = await node.assent.database.read(lambda tx: node.assent[TriggeringService].event(tx, third, by=RITA))
    assert [each.id for each in found.chain] == [first, second, third]
    assert found.event.correlation_id == first


async def test_a_replay_is_a_new_event(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}")
    [event_id] = await come(node, ci, arrived(sha="1"))
    await settle(node)

    def again(tx: Transaction, trigger: str | None = None) -> str:
        return node.assent[TriggeringService].replay(tx, event_id, by=RITA, trigger=trigger).id

    everywhere = await node.assent.database.write(again)
    await settle(node)
    clock.advance(1)
    only = await node.assent.database.write(lambda tx: again(tx, "fixer"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "once"), ("started", None)]
    for each in (everywhere, only):
        found = await event(node, each)
        assert (found.replay_of, found.causation_id, found.correlation_id, found.depth) == (
            event_id,
            event_id,
            event_id,
            0,
        )


async def test_a_replay_for_one_trigger_does_not_fire_others(node: Node) -> None:
    await process(node)
    ci = await source(node)
    for name in ("one", "two"):
        await trigger(node, name, on="github.push")
    [event_id] = await come(node, ci, arrived("github.push"))
    await settle(node)
    await node.assent.database.write(
        lambda tx: node.assent[TriggeringService].replay(tx, event_id, by=RITA, trigger="two")
    )
    await settle(node)
    assert [each.trigger_name for each in await firings(node)][-1:] == ["two"]
    assert len(await firings(node)) == 3


async def test_an_unknown_process_is_retried_until_the_firing_is_dead(node: Node, clock: ManualClock) -> None:
    ci = await source(node)
    await trigger(node, run="nowhere", once="{{ event.sha }}")
    await come(node, ci, arrived(sha="1"))
    for pause in (5, 30, 120, 600, 1_800):
        await settle(node)
        assert await stood(node) == [("held", "retry")]
        clock.advance(pause)
    await settle(node)
    [firing] = await firings(node)
    assert (firing.state, firing.once_key) == (FiringState.DEAD, None)
    assert firing.error == "process nowhere not found; available: none"
    await process(node, "nowhere")
    await node.assent.database.write(lambda tx: node.assent[TriggeringService].retry(tx, firing.id, by=RITA))
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_a_process_added_during_the_retries_is_started(node: Node, clock: ManualClock) -> None:
    ci = await source(node)
    await trigger(node)
    await come(node, ci, arrived())
    await settle(node)
    await process(node)
    clock.advance(5)
    await settle(node)
    assert await stood(node) == [("started", None)]


async def test_a_trigger_with_mismatched_inputs_starts_no_run(node: Node) -> None:
    await process(
        node,
        source="""
        from dataclasses import dataclass

        @dataclass
        class Inputs:
            number: int

        async def process(inputs: Inputs, ctx):
            return inputs.number
        """,
    )
    ci = await source(node)
    await trigger(node, inputs={"number": "{{ event.data.number }}"})
    await come(node, ci, arrived(data={"number": "seven"}), arrived(data={"number": 7}))
    await settle(node)
    assert await stood(node) == [("held", "retry"), ("started", None)]
    [firing, _] = await firings(node)
    assert firing.error is not None
    assert "Expected `int`, got `str`" in firing.error


async def test_a_held_firing_can_be_discarded_only_once(node: Node) -> None:
    ci = await source(node)
    await trigger(node, run="nowhere")
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)

    def discard(tx: Transaction) -> str | None:
        return node.assent[TriggeringService].discard(tx, firing.id, by=RITA).error

    assert await node.assent.database.write(discard) == "Discarded by person:rita."
    with pytest.raises(Conflict, match="already skipped"):
        await node.assent.database.write(discard)
    assert await stood(node) == [("skipped", "discarded")]


async def test_events_that_started_no_run_are_deleted_after_a_month(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, on="ci.done", once="{{ event.sha }}")
    await come(node, ci, arrived(sha="1"), arrived(sha="1"), arrived("ci.begun"))
    await settle(node)
    clock.advance(30 * 86_400 + 1)
    await node.assent.database.write(node.assent[TriggeringService].forget)
    found = await node.assent.database.read(lambda tx: tx[TriggerEvents].page("default", {}, before=None, limit=9))
    assert len(found) == 1, "an event is kept as long as the run that it started"
    assert await stood(node) == [("started", None)]


async def test_an_event_is_deleted_with_the_run_that_it_started(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node)
    await come(node, ci, arrived())
    await settle(node)
    [run] = await runs(node)
    await node.assent.database.write(lambda tx: tx[Runs].writes(run.id, ["/tmp/x"], now=tx.now()))
    await end(node, run.id)
    await node.assent.database.write(
        lambda tx: tx[Projects].save(replace(tx[Projects].get("default"), policy={"retentionDays": 40}))
    )
    clock.advance(41 * 86_400)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    assert (await runs(node), await firings(node)) == ([], [])
    await node.assent.database.write(node.assent[TriggeringService].forget)
    assert await node.assent.database.read(lambda tx: tx[TriggerEvents].page("default", {}, before=None, limit=9)) == []


async def test_an_unreadable_trigger_matches_nothing_and_is_reported_in_the_trace(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, "a-bad")
    await trigger(node, "b-good")
    spoil = "UPDATE assent_triggers SET content = :content, version = 2 WHERE name = 'a-bad'"
    content = '{"id": "a-bad", "on": "*", "run": "fix", "hold": 7}'
    await node.assent.database.write(lambda tx: tx.session.write(spoil, [{"content": content}]))
    [event_id] = await come(node, ci, arrived())
    await settle(node)
    [bad, good] = _listed((await event(node, event_id)).trace)
    assert (bad["matched"], good["matched"]) == (False, True)
    assert str(bad["problem"]).startswith("The trigger's pattern is no longer valid: ")
    assert [each.started_by for each in await runs(node)] == ["trigger:b-good"]


async def test_a_trace_with_over_two_hundred_triggers_always_includes_the_matches(node: Node) -> None:
    await process(node)
    ci = await source(node)
    for n in range(201):
        await trigger(node, f"t{n:03}", on="github.push")
    await trigger(node, "zz-last", on="ci.done")
    [event_id] = await come(node, ci, arrived())
    await settle(node)
    told = _listed((await event(node, event_id)).trace)
    assert (len(told), told[-1]["trigger"], told[-1]["matched"]) == (201, "zz-last", True)


def _listed(trace: Json) -> list[dict[str, Json]]:
    assert is_array(trace)
    return [dict(each) for each in trace if is_object(each)]
