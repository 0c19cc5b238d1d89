"""Triggers created by people: parsed, validated against their process, suspended and resumed."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.core.access import Role
from assent.core.errors import Conflict, Forbidden, InvalidRequest, NotFound
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.runs.processes import FolderOfProcesses
from assent.triggers.model import TriggerState
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.triggers import MOST, TriggerService, naming
from tests.support.nodes import ManualClock, Node, running_node
from tests.triggers.usecases.triggers_setup import BODY, TICK, person, processes

ANN = person(Role.RULE_ADMIN)
BOB = person(Role.RULE_ADMIN, name="bob")


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    processes(settings)
    async with running_node(settings, clock=clock) as running:
        yield running


@pytest.fixture
async def sqlite_node(sqlite_settings: Settings) -> AsyncIterator[Node]:
    processes(sqlite_settings)
    async with running_node(sqlite_settings) as running:
        yield running


async def made(node: Node, body: dict[str, Any] | None = None, **more: Any) -> StoredTrigger:
    given = (body or BODY) | more
    return await node.assent.database.write(lambda tx: node.assent[TriggerService].create(tx, given, by=ANN))


async def changed(node: Node, trigger: str, **changes: Any) -> StoredTrigger:
    return await node.assent.database.write(lambda tx: node.assent[TriggerService].change(tx, trigger, changes, by=BOB))


async def suspended(node: Node, trigger: str, because: str | None = None) -> StoredTrigger:
    return await node.assent.database.write(
        lambda tx: node.assent[TriggerService].suspend(tx, trigger, by=BOB, because=because)
    )


async def resumed(node: Node, trigger: str) -> StoredTrigger:
    return await node.assent.database.write(lambda tx: node.assent[TriggerService].resume(tx, trigger, by=BOB))


async def filed(node: Node, **more: Any) -> StoredTrigger:
    """Store a trigger as if it came from assent.yaml."""
    trigger = node.assent[TriggerService].check(TICK | more)
    stored = StoredTrigger(id="trg_filed", project="default", trigger=trigger, said=trigger.state, origin="file")
    await node.assent.database.write(lambda tx: tx[Triggers].add(stored))
    return stored


async def test_a_new_trigger_records_its_creator(node: Node) -> None:
    trigger = await made(node)
    (listed,) = await node.assent.database.read(partial(node.assent[TriggerService].listed, by=ANN))
    assert listed == trigger
    assert (trigger.created_by, trigger.updated_by, trigger.version) == ("person:ann", "person:ann", 1)
    assert (trigger.state, trigger.origin) == (TriggerState.ENABLED, "api")


async def test_a_trigger_is_found_by_id_or_name_only_in_its_project(node: Node) -> None:
    trigger = await made(node)

    def known(tx: Transaction) -> list[StoredTrigger]:
        return [node.assent[TriggerService].known(tx, each, by=ANN) for each in (trigger.id, trigger.name)]

    assert await node.assent.database.read(known) == [trigger, trigger]
    stranger = person(Role.RULE_ADMIN, project="other")
    with pytest.raises(NotFound):
        await node.assent.database.read(lambda tx: node.assent[TriggerService].known(tx, trigger.id, by=stranger))


@pytest.mark.parametrize(
    ("change", "pointer", "said"),
    [
        ({"on": "github.push(branhc = 'main')"}, "/on", "Did you mean branch?"),
        ({"on": "github.push(branch = "}, "/on", "Line 1, column"),
        ({"on": ""}, "/on", "Line 1"),
        ({"on": None}, "/on", "must be an event pattern"),
        (
            {"inputs": {"repo": "{{ event.repository }}", "sha": "x"}},
            "/inputs/repo",
            "events do not have a field named repository",
        ),
        ({"inputs": {"repo": "{{ event.repo", "sha": "x"}}, "/inputs/repo", "unmatched"),
        ({"inputs": {"repo": "x", "sha": "{{ event.sha.short }}"}}, "/inputs/sha", "does not have fields"),
        ({"once": "{{ event.no }}"}, "/once", "events do not have a field named no"),
        ({"run": "nothing"}, "/run", "nothing"),
        ({"run": "../etc/passwd"}, "/run", "must be a process name"),
        ({"inputs": {"repo": "x"}}, "/inputs", "sha"),
        ({"inputs": {"repo": "x", "sha": "x", "more": 1}}, "/inputs", "more"),
        ({"inputs": {"repo": 7, "sha": "x"}}, "/inputs", "repo"),
        ({"inputs": {"event": 1}}, "/inputs/event", "is a built-in input"),
        ({"id": "Fix It"}, "/id", "must start with a lowercase letter"),
        ({"colour": "red"}, "/colour", "is not a known field"),
        ({"enabled": "perhaps"}, "/enabled", "must be true, false or suspended"),
    ],
)  # fmt: skip
async def test_the_error_for_an_invalid_trigger_points_to_the_field(
    sqlite_node: Node, change: dict[str, Any], pointer: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await made(sqlite_node, **change)
    assert refused.value.message.startswith(f"{pointer}: ")
    assert said in refused.value.message
    with pytest.raises(InvalidRequest):
        sqlite_node.assent[TriggerService].check(BODY | change)


def test_a_path_and_a_name_refer_to_the_same_process(sqlite_settings: Settings) -> None:
    processes(sqlite_settings)
    service = TriggerService(FolderOfProcesses(sqlite_settings.process_folder))
    assert {service.check(BODY | {"run": run}).run for run in ("fix-ci", "processes/fix_ci.py")} == {"fix-ci"}


async def test_a_change_increments_the_version_and_records_its_author(node: Node) -> None:
    trigger = await made(node)
    after = await changed(node, trigger.id, note="Only main.", once="{{ event.sha }}")
    assert (after.version, after.updated_by, after.created_by) == (2, "person:bob", "person:ann")
    assert (after.trigger.note, after.trigger.once, after.trigger.on) == ("Only main.", "{{ event.sha }}", BODY["on"])
    bare = await changed(node, trigger.id, once=None)
    assert (bare.version, bare.trigger.once, bare.trigger.note) == (3, None, "Only main.")


async def test_a_change_without_effect_is_not_stored(node: Node) -> None:
    trigger = await made(node)
    assert await changed(node, trigger.id, on=BODY["on"]) == trigger


async def test_changes_are_also_validated_against_the_process(node: Node) -> None:
    trigger = await made(node)
    with pytest.raises(InvalidRequest, match=r"^/inputs: "):
        await changed(node, trigger.id, inputs={"repo": "x"})


async def test_the_name_of_a_trigger_cannot_be_changed(node: Node) -> None:
    trigger = await made(node)
    with pytest.raises(InvalidRequest, match=r"^/id: cannot be changed"):
        await changed(node, trigger.id, id="other")


async def test_a_suspension_and_its_reason_survive_other_changes(node: Node) -> None:
    trigger = await made(node)
    await suspended(node, trigger.id, "It fires too often.")
    after = await changed(node, trigger.id, note="Quieter.")
    assert (after.state, after.because) == (TriggerState.SUSPENDED, "It fires too often.")
    on = await changed(node, trigger.id, enabled=True)
    assert (on.state, on.because) == (TriggerState.ENABLED, None)


async def test_suspending_and_resuming_a_trigger_record_the_author(node: Node) -> None:
    trigger = await made(node)
    off = await suspended(node, trigger.name)
    assert (off.state, off.because, off.updated_by) == (TriggerState.SUSPENDED, "Suspended by bob.", "person:bob")
    assert off.version == 2
    again = await suspended(node, trigger.id, "Once more.")
    assert again == off
    on = await resumed(node, trigger.id)
    assert (on.state, on.because, on.version) == (TriggerState.ENABLED, None, 3)


async def test_a_disabled_trigger_can_be_neither_suspended_nor_resumed(node: Node) -> None:
    trigger = await made(node, enabled=False)
    for switch in (suspended, resumed):
        with pytest.raises(Conflict, match="is disabled"):
            await switch(node, trigger.id)


async def test_a_trigger_created_as_suspended_names_its_creator_in_the_reason(node: Node) -> None:
    assert (await made(node, enabled="suspended")).because == "Suspended by ann."


async def test_a_trigger_from_assent_yaml_can_be_suspended_but_not_edited(node: Node) -> None:
    stored = await filed(node)
    assert (await suspended(node, stored.id)).state is TriggerState.SUSPENDED
    assert (await resumed(node, stored.id)).state is TriggerState.ENABLED
    with pytest.raises(Conflict, match=r"assent\.yaml"):
        await changed(node, stored.id, note="x")
    with pytest.raises(Conflict, match=r"assent\.yaml"):
        await node.assent.database.write(lambda tx: node.assent[TriggerService].remove(tx, stored.id, by=ANN))


async def test_removing_a_trigger_frees_its_name(node: Node) -> None:
    trigger = await made(node)
    with pytest.raises(Conflict, match="already exists"):
        await made(node)
    await node.assent.database.write(lambda tx: node.assent[TriggerService].remove(tx, trigger.id, by=BOB))
    removed = await node.assent.database.read(lambda tx: tx[Triggers].find(trigger.id))
    assert removed is not None
    assert (removed.removed_at is not None, removed.updated_by) == (True, "person:bob")
    assert (await made(node)).id != trigger.id


async def test_a_project_has_a_maximum_number_of_triggers(sqlite_node: Node) -> None:
    trigger = sqlite_node.assent[TriggerService].check(TICK)

    def use_case(tx: Transaction) -> None:
        for n in range(MOST):
            named = replace(trigger, name=f"t{n}")
            tx[Triggers].add(StoredTrigger(id=f"trg_{n}", project="default", trigger=named))

    await sqlite_node.assent.database.write(use_case)
    with pytest.raises(InvalidRequest, match="at most 1,000 triggers"):
        await made(sqlite_node)


@pytest.mark.parametrize(
    "use_case",
    [
        lambda service, tx, by: service.create(tx, BODY, by=by),
        lambda service, tx, by: service.change(tx, "x", {}, by=by),
        lambda service, tx, by: service.remove(tx, "x", by=by),
        lambda service, tx, by: service.suspend(tx, "x", by=by),
        lambda service, tx, by: service.resume(tx, "x", by=by),
    ],
)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER, Role.AUDITOR])
async def test_only_rule_admins_and_admins_can_create_or_change_triggers(
    sqlite_node: Node, use_case: Callable[..., Any], role: Role
) -> None:
    with pytest.raises(Forbidden):
        await sqlite_node.assent.database.write(
            lambda tx: use_case(sqlite_node.assent[TriggerService], tx, person(role))
        )


async def test_triggers_that_reference_a_source_are_found(node: Node) -> None:
    one = await made(node, TICK)
    two = await made(node, TICK, id="own", on="webhook.nightly")
    three = await made(node, TICK, id="other", on="schedule.tick(source = 'weekly')")
    assert naming([one, two, three], "nightly") == [one, two]
