"""Dry runs show what a trigger would do with an event, and sketches draft a trigger for an event, without writing
anything.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from assent.core.errors import Forbidden, InvalidRequest
from assent.db.transaction import Transaction
from assent.triggers.file_format import checked
from assent.triggers.model import TriggerState
from assent.triggers.usecases.dispatch import Trial, TriggeringService
from tests.db.making import AGENT, rows
from tests.support.nodes import Node
from tests.triggers.usecases.triggering import RITA, arrived, come, firings, process, settle, source, trigger

TABLES = ("assent_trigger_events", "assent_firings", "assent_runs", "assent_breakpoints", "assent_triggers")


async def tried(node: Node, body: Mapping[str, Any], **options: Any) -> list[Trial]:
    def use_case(tx: Transaction) -> list[Trial]:
        event = node.assent[TriggeringService].supposed(tx, body, by=RITA)
        return node.assent[TriggeringService].try_out(tx, by=RITA, event=event, **options)

    return await node.assent.database.read(use_case)


async def would(node: Node, body: Mapping[str, Any] | None = None, **draft: Any) -> str:
    made = checked({"id": "draft", "on": "*", "run": "fix"} | draft)
    [found] = await tried(node, {"type": "ci.done", "branch": "main"} | dict(body or {}), drafts=[made])
    return found.would


async def test_a_dry_run_of_a_draft_describes_the_outcome(node: Node) -> None:
    await process(node)
    assert await would(node) == "It would start fix."
    assert await would(node, on="github.push") == "It does not match."
    assert await would(node, enabled=False) == "It matches, but the trigger is disabled, so the event would be ignored."
    assert await would(node, enabled="suspended") == "It would wait until the trigger is resumed."
    assert await would(node, {"depth": 9}) == (
        "It would be skipped as a possible loop: the event comes from a chain of 9 runs, and the limit is 3."
    )
    assert await would(node, debounce="30s", hold=True) == (
        "It would wait until no events arrive for 30s, but at most 5m, then would ask for approval at the gate "
        "trigger.draft, then would start fix."
    )


async def test_a_dry_run_reports_problems(node: Node) -> None:
    await process(node)
    draft = checked({"id": "draft", "on": "ci.*", "run": "nowhere", "inputs": {"sha": "{{ event.sha }}"}})
    [found] = await tried(node, {"type": "ci.done", "sha": "1", "data": {"n": 1}}, drafts=[draft])
    assert found.problem == "process nowhere not found; available: fix"
    assert found.inputs is not None
    assert (found.inputs["sha"], found.inputs["event"]["data"]) == ("1", {"n": 1})


async def test_a_dry_run_of_stored_triggers_considers_their_current_state(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, "once", once="{{ event.sha }}")
    for full in ("queue", "skip", "replace", "cancel"):
        await trigger(node, full, concurrency={"when_full": full})
    await trigger(node, "wild", enabled="suspended")
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    before = [await rows(node, f"SELECT count(*) FROM {table}") for table in TABLES]
    found = {each.trigger.name: each.would for each in await tried(node, {"type": "ci.done", "sha": "1"})}
    assert found == {
        "cancel": "It would cancel an active run, then would start fix.",
        "once": "It would be skipped: the trigger has already fired for '1'.",
        "queue": "It would wait for a free slot, then would start fix.",
        "replace": "It would wait for a free slot and replace events that are already waiting, then would start fix.",
        "skip": "It would be skipped, because the limit on concurrent runs has been reached.",
        "wild": "It would wait until the trigger is resumed.",
    }
    [one] = await tried(node, {"type": "ci.done", "sha": "2"}, only="once")
    assert one.would == "It would start fix."
    assert [await rows(node, f"SELECT count(*) FROM {table}") for table in TABLES] == before, "the dry run wrote data"


async def test_an_event_can_be_supplied_as_an_envelope_or_as_its_view(node: Node) -> None:
    ci = await source(node)
    envelope = {
        "specversion": "1.0",
        "id": "1",
        "source": "/sources/ci",
        "type": "github.push",
        "subject": "acme/shop",
        "time": "2030-01-01T00:00:00Z",
        "trust": "trusted",
        "data": {"ref": "x"},
        "view": {"repo": "acme/shop", "paths": ["a.md"], "unknown": 1},
    }

    def use_case(tx: Transaction) -> Any:
        return node.assent[TriggeringService].supposed(tx, envelope, by=RITA)

    found = await node.assent.database.read(use_case)
    assert (found.source, found.source_id, found.type) == ("ci", ci.id, "github.push")
    assert found.arrived.view == {"repo": "acme/shop", "paths": ["a.md"]}
    assert (found.arrived.trust.value, found.arrived.occurred_at) == ("trusted", 1_893_456_000_000_000)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "/event/type"),
        ({"type": " "}, "/event/type"),
        ({"type": "a", "paths": "b"}, "/event/paths"),
        ({"type": "a", "trust": "yes"}, "/event/trust"),
        ({"type": "a", "depth": -1}, "/event/depth"),
        ({"type": "a", "time": "soon"}, "/event/time"),
        ({"type": "a", "subject": 1}, "/event/subject"),
    ],
)
async def test_the_error_for_an_invalid_event_points_to_the_field(node: Node, body: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidRequest, match=place):
        await tried(node, body)


async def test_a_trigger_drafted_from_an_event_matches_it(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, "github.push", on="nothing")
    [event_id] = await come(
        node, ci, arrived("github.push", repo="acme/o'hare", branch="main", sha="1", url="https://x.test/\x00")
    )
    await settle(node)
    body = await node.assent.database.read(lambda tx: node.assent[TriggeringService].sketch(tx, event_id, by=RITA))
    assert body == {
        "id": "github.push-2",
        "on": "github.push(source = 'ci' AND repo = \"acme/o'hare\" AND branch = 'main')",
        "run": "fix",
        "inputs": {
            "repo": "{{ event.repo }}",
            "branch": "{{ event.branch }}",
            "sha": "{{ event.sha }}",
            "url": "{{ event.url }}",
        },
        "once": "{{ event.repo }}@{{ event.sha }}",
        "hold": True,
    }
    draft = checked(body)
    found = await node.assent.database.read(lambda tx: node.assent[TriggeringService].event(tx, event_id, by=RITA))
    [trial] = await node.assent.database.read(
        lambda tx: node.assent[TriggeringService].try_out(tx, by=RITA, event=found.event, drafts=[draft])
    )
    assert trial.trace.matched
    assert draft.state is TriggerState.ENABLED


async def test_agents_can_neither_read_nor_replay_events(node: Node) -> None:
    ci = await source(node)
    [event_id] = await come(node, ci, arrived())
    await settle(node)
    machine = node.assent[TriggeringService]
    use_cases: list[Callable[[Transaction], object]] = [
        partial(machine.event, event_id=event_id, by=AGENT),
        partial(machine.events, filters={}, by=AGENT, before=None, limit=1),
        partial(machine.firings, filters={}, by=AGENT, before=None, limit=1),
        partial(machine.sketch, event_id=event_id, by=AGENT),
    ]
    for use_case in use_cases:
        with pytest.raises(Forbidden):
            await node.assent.database.read(use_case)
    with pytest.raises(Forbidden):
        await node.assent.database.write(lambda tx: node.assent[TriggeringService].replay(tx, event_id, by=AGENT))
    assert await firings(node) == []
