"""Sources and triggers in assent.yaml are validated before a node starts and stored when it starts."""

from pathlib import Path
from typing import Any

import pytest

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.platform.config_file import Misplaced
from assent.triggers.model import TriggerState
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.config_reload import Reloading
from assent.triggers.usecases.configuration import SAYS_SO
from assent.triggers.usecases.scheduler import first_tick
from assent.triggers.usecases.sources import SourceService
from assent.triggers.usecases.triggers import TriggerService
from tests.support.nodes import ManualClock, Node, running_node
from tests.triggers.usecases.triggers_setup import BODY, SCHEDULE, TICK, person, processes

NIGHTLY: dict[str, Any] = {"kind": "schedule", **SCHEDULE}
Standing = tuple[list[StoredSource], list[StoredTrigger]]
ANN = person(Role.ADMIN, everywhere=True)


def configured(settings: Settings, *, sources: Any = None, triggers: Any = (TICK,)) -> Settings:
    given = {"nightly": NIGHTLY} if sources is None else sources
    return settings.model_copy(update={"sources": given, "triggers": triggers})


async def applied(node: Node, settings: Settings, **parts: Any) -> Standing:
    """Apply these sections as a starting node does, and return the stored sources and triggers."""
    setup = ServerNode(configured(settings, **parts))[Reloading].setup

    def use_case(tx: Transaction) -> Standing:
        setup.apply(tx)
        return tx[Sources].in_project("default"), tx[Triggers].in_project("default")

    return await node.assent.database.write(use_case)


async def test_the_sections_of_the_file_are_stored_when_a_node_starts(settings: Settings) -> None:
    processes(settings)
    async with running_node(settings):
        pass
    async with running_node(configured(settings, triggers=(BODY, TICK)), worker=True) as node:
        sources = await node.assent.database.read(lambda tx: tx[Sources].in_project("default"))
        triggers = await node.assent.database.read(lambda tx: tx[Triggers].in_project("default"))
        assert node.assent[Reloading].problems == []
    assert [(each.name, each.kind, each.settings, each.origin) for each in sources] == [
        ("nightly", "schedule", SCHEDULE, "file")
    ]
    assert [(each.name, each.origin, each.created_by) for each in triggers] == [
        ("audit", "file", "system:assent.yaml"),
        ("fix-red-main", "file", "system:assent.yaml"),
    ]


async def test_a_second_start_changes_nothing(node: Node, settings: Settings, clock: ManualClock) -> None:
    whole = TICK | {"debounce": "30s", "concurrency": 2, "hold": True, "note": "", "enabled": "suspended"}
    first = await applied(node, settings, triggers=[whole])
    clock.advance(3600)
    assert await applied(node, settings, triggers=[whole]) == first


async def test_entries_missing_from_the_file_are_removed_and_others_are_kept(node: Node, settings: Settings) -> None:
    processes(node.assent.settings)
    await applied(node, settings)

    def write(tx: Transaction) -> None:
        node.assent[SourceService].create(tx, "own", "schedule", SCHEDULE, by=ANN)
        node.assent[TriggerService].create(tx, TICK | {"id": "own"}, by=ANN)

    await node.assent.database.write(write)
    sources, triggers = await applied(node, settings, sources={}, triggers=())
    assert ([each.name for each in sources], [each.name for each in triggers]) == (["own"], ["own"])


async def test_changing_a_trigger_in_the_file_creates_a_new_version(
    node: Node, settings: Settings, clock: ManualClock
) -> None:
    (source,), (trigger,) = await applied(node, settings)
    clock.advance(86_400)
    sources, triggers = await applied(
        node, settings, sources={"nightly": NIGHTLY | {"cron": "0 4 * * *"}}, triggers=[TICK | {"note": "New."}]
    )
    assert [(each.id, each.version, each.trigger.note) for each in triggers] == [(trigger.id, 2, "New.")]
    assert [(each.id, each.settings["cron"]) for each in sources] == [(source.id, "0 4 * * *")]
    assert sources[0].next_at == first_tick(SCHEDULE | {"cron": "0 4 * * *"}, clock.now(), source.id)


async def test_an_unchanged_schedule_keeps_its_next_time(node: Node, settings: Settings, clock: ManualClock) -> None:
    (source,), _ = await applied(node, settings)
    clock.advance(10 * 86_400)
    (after,), _ = await applied(node, settings, triggers=[TICK | {"note": "New."}])
    assert after == source


async def test_changing_the_kind_of_a_source_in_the_file_creates_a_new_source(
    node: Node, settings: Settings, tmp_path: Path
) -> None:
    (source,), _ = await applied(node, settings)
    (after,), _ = await applied(node, settings, sources={"nightly": {"kind": "files", "path": str(tmp_path)}})
    assert (after.kind, after.id != source.id, after.next_at) == ("files", True, None)


async def test_a_source_disabled_in_the_file_does_not_fire(node: Node, settings: Settings) -> None:
    (source,), _ = await applied(node, settings, sources={"nightly": NIGHTLY | {"enabled": False}})
    assert (source.enabled, source.next_at) == (False, None)


async def switched(node: Node, state: str) -> StoredTrigger:
    service = node.assent[TriggerService]
    switch = service.suspend if state == "suspended" else service.resume
    return await node.assent.database.write(lambda tx: switch(tx, "audit", by=ANN))


async def test_a_suspension_survives_reloads_that_do_not_override_it(node: Node, settings: Settings) -> None:
    await applied(node, settings)
    before = await switched(node, "suspended")
    _, (after,) = await applied(node, settings, sources={})
    assert after == before
    changed = TICK | {"note": "It is fixed."}
    _, (after,) = await applied(node, settings, triggers=[changed])
    assert (after.state, after.because, after.trigger.note) == (before.state, before.because, "It is fixed.")
    _, (off,) = await applied(node, settings, triggers=[changed | {"enabled": False}])
    assert (off.state, off.because) == (TriggerState.DISABLED, None)
    _, (on,) = await applied(node, settings, triggers=[changed])
    assert (on.state, on.because) == (TriggerState.ENABLED, None)


async def test_a_resumed_trigger_stays_enabled_until_the_file_changes_its_state(node: Node, settings: Settings) -> None:
    off = TICK | {"enabled": "suspended"}
    _, (first,) = await applied(node, settings, triggers=[off])
    assert (first.state, first.because) == (TriggerState.SUSPENDED, SAYS_SO)
    await switched(node, "resumed")
    _, (still,) = await applied(node, settings, triggers=[off])
    assert still.state is TriggerState.ENABLED
    await switched(node, "suspended")
    _, (on,) = await applied(node, settings)
    assert (on.state, on.because) == (TriggerState.ENABLED, None)


async def test_triggers_are_stored_in_the_project_named_in_the_file(node: Node, settings: Settings) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "team", "name": "Team"})
    _, triggers = await applied(node, settings, triggers=[TICK, TICK | {"project": "team"}])
    theirs = await node.assent.database.read(lambda tx: tx[Triggers].in_project("team"))
    assert ([each.name for each in triggers], [each.name for each in theirs]) == (["audit"], ["audit"])


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"sources": {"Nightly": NIGHTLY}}, "sources/Nightly/name: must start with a lowercase letter"),
        ({"sources": {"n": {"kind": "pigeon"}}}, "sources/n/kind: must be one of"),
        ({"sources": {"n": NIGHTLY | {"cron": "61 * * * *"}}}, "sources/n/cron: "),
        ({"sources": {"n": NIGHTLY | {"colour": 1}}}, "sources/n/colour: "),
        ({"sources": {"n": NIGHTLY | {"enabled": "yes"}}}, "sources/n/enabled: must be true or false"),
        ({"sources": {"n": 7}}, "sources/n: must be a mapping"),
        ({"triggers": [TICK, TICK]}, "triggers[1]/id: audit is already used by triggers[0]"),
        ({"triggers": [TICK | {"on": "schedule.tick(sorce = 'x')"}]}, "triggers[0]/on: Line 1, column 15: "),
        (
            {"triggers": [TICK | {"inputs": {"a": {"b": "{{ event.x }}"}}}]},
            "triggers[0]/inputs/a/b: events do not have a field named x",
        ),
        ({"triggers": [TICK | {"project": 7}]}, "triggers[0]/project: must be a project name"),
        ({"triggers": [TICK | {"a/b": 7}]}, "triggers[0]/a/b: is not a known field"),
    ],
)  # fmt: skip
def test_an_invalid_file_prevents_the_start_and_the_error_names_the_location(
    sqlite_settings: Settings, parts: dict[str, Any], said: str
) -> None:
    with pytest.raises(Misplaced) as refused:
        ServerNode(configured(sqlite_settings, **parts))
    assert refused.value.message.startswith(said)


def test_all_problems_are_reported_at_once(sqlite_settings: Settings) -> None:
    broken = {"id": "a b", "on": "x(", "run": "", "once": "", "max_depth": 99, "colour": 1}
    with pytest.raises(Misplaced) as refused:
        ServerNode(configured(sqlite_settings, sources={"n": 7}, triggers=[broken, TICK | {"on": ""}]))
    for place in ("sources/n", *(f"triggers[0]/{name}" for name in broken), "triggers[1]/on"):
        assert f"{place}: " in refused.value.message


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"sources": {"own": NIGHTLY}}, "sources/own: a source named own already exists"),
        ({"triggers": [TICK | {"id": "own"}]}, "triggers[0]/id: a trigger named own already exists"),
        ({"triggers": [TICK | {"project": "none"}]}, "triggers[0]: Project none not found."),
    ],
)
async def test_conflicts_with_stored_data_prevent_the_start_and_change_nothing(
    node: Node, settings: Settings, parts: dict[str, Any], said: str
) -> None:
    processes(node.assent.settings)

    def write(tx: Transaction) -> None:
        node.assent[SourceService].create(tx, "own", "schedule", SCHEDULE, by=ANN)
        node.assent[TriggerService].create(tx, TICK | {"id": "own"}, by=ANN)

    await node.assent.database.write(write)
    with pytest.raises(Misplaced) as refused:
        await applied(node, settings, **parts)
    assert refused.value.message.startswith(said)
    sources = await node.assent.database.read(lambda tx: tx[Sources].every())
    assert [each.origin for each in sources] == ["api"]


async def test_a_start_with_mismatched_triggers_keeps_the_stored_ones_and_reports_problems(
    settings: Settings,
) -> None:
    processes(settings)
    async with running_node(settings) as node:
        await applied(node, settings)
    wrong = [BODY | {"inputs": {"repo": "x"}}, TICK | {"run": "gone"}]
    async with running_node(configured(settings, sources={}, triggers=wrong), worker=True) as node:
        sources = await node.assent.database.read(lambda tx: tx[Sources].in_project("default"))
        triggers = await node.assent.database.read(lambda tx: tx[Triggers].in_project("default"))
        problems = node.assent[Reloading].problems
    assert ([each.name for each in sources], [each.name for each in triggers]) == ([], ["audit"])
    assert [each.split(": ")[0] for each in problems] == ["triggers[0]/inputs", "triggers[1]/run"]
