"""assent.yaml is reloaded while a node runs: applied completely or not at all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assent.delivery.store.channels import Channels
from assent.delivery.store.routes import Routes
from assent.kernel.settings import Settings
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.config_reload import Reloading
from tests.support.nodes import Node, running_node
from tests.support.until import until
from tests.triggers.usecases.triggers_setup import person, processes

TEXT = """\
sources:
  nightly: {kind: schedule, cron: "30 2 * * *", timezone: UTC}
triggers:
  - id: audit
    on: schedule.tick(source = 'nightly')
    run: anything
"""
ROUTE = """\
channels:
  - {name: hook, type: webhook, settings: {url: "https://example.org/hook", secrets: [env:HOOK_SECRET]}}
routes:
  - {pattern: "deploy.*", channels: [hook]}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOOK_SECRET", "whsec_YSBzZWNyZXQgb2YgMjQgYnl0ZXMgb3Igc28=")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    found = here / "assent.yaml"
    found.write_text(TEXT)
    return found


@pytest.fixture
async def node(settings: Settings, path: Path) -> AsyncIterator[Node]:
    """A node that was started with the file and has no worker to watch it."""
    del path
    processes(settings)
    async with running_node(settings.model_copy(update=_parts())) as running:
        await running.assent[Reloading].begin()
        yield running


def _parts() -> dict[str, object]:
    """Read the sections from the file, which did not exist yet when the settings fixture was created."""
    read = Settings()
    return {name: getattr(read, name) for name in ("channels", "routes", "sources", "triggers")}


def write(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


async def triggers(node: Node) -> list[StoredTrigger]:
    return await node.assent.database.read(lambda tx: tx[Triggers].in_project("default"))


def result(node: Node, name: str) -> float:
    return node.assent.metrics.registry.get_sample_value("assent_config_reloads_total", {"result": name}) or 0


async def test_a_changed_file_is_applied_in_full(node: Node, path: Path) -> None:
    write(path, TEXT.replace("audit", "check") + ROUTE)
    assert await node.assent[Reloading].reload()
    channels = await node.assent.database.read(lambda tx: tx[Channels].in_project("default"))
    routes = await node.assent.database.read(lambda tx: tx[Routes].in_project("default"))
    assert [each.name for each in await triggers(node)] == ["check"]
    assert ([each.name for each in channels], [each.route.pattern for each in routes]) == (["hook"], ["deploy.*"])
    assert (result(node, "applied"), node.assent[Reloading].problems) == (1, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT + "triggers: []\n", "assent.yaml line 7: triggers is defined twice, first on line 3"),
        (TEXT + "  - id: [\n", "assent.yaml line "),
        (TEXT.replace("'nightly')", "'nightly'"), "assent.yaml line 5: triggers[0]/on: Line 1"),
        (TEXT.replace("anything", "nothing"), "assent.yaml line 6: triggers[0]/run: "),
        (TEXT.replace("30 2", "99 2"), "assent.yaml line 2: sources/nightly/cron: "),
        ("triggers: 7\n", "assent.yaml line 1: triggers: must be a list"),
        ("sources: []\n", "assent.yaml line 1: sources: must map names to values"),
        (ROUTE.replace("[hook]", "[none]"), "assent.yaml line 4: routes[0]/channels/0: channel none not found"),
        (TEXT + "    project: none\n", "assent.yaml line 4: triggers[0]: Project none not found."),
        ("", "assent.yaml is empty; the last valid configuration stays in effect."),
    ],
)
async def test_an_invalid_file_keeps_the_old_configuration_and_is_reported_with_its_line(
    node: Node, path: Path, text: str, said: str
) -> None:
    before = await triggers(node)
    write(path, text)
    assert not await node.assent[Reloading].reload()
    assert node.assent[Reloading].problems[0].startswith(said)
    assert await triggers(node) == before
    assert await node.assent.database.read(lambda tx: tx[Channels].in_project("default")) == []
    assert result(node, "refused") == 1


async def test_a_corrected_file_clears_its_problems(node: Node, path: Path) -> None:
    write(path, "triggers: 7\n")
    await node.assent[Reloading].reload()
    write(path, TEXT)
    assert await node.assent[Reloading].reload()
    assert node.assent[Reloading].problems == []


async def test_only_an_admin_of_all_projects_sees_the_details(node: Node, path: Path) -> None:
    reloading = node.assent[Reloading]
    assert reloading.told_to(person()) == []
    write(path, "triggers: 7\n")
    await reloading.reload()
    listed = (await node.call("GET", "/api/triggers", await node.token("admin"))).json()
    assert reloading.told_to(person(everywhere=True)) == ["assent.yaml line 1: triggers: must be a list"]
    assert reloading.told_to(person()) == [
        "assent.yaml is invalid and was not applied. An admin with access to all projects can see the details."
    ]
    assert ([each["name"] for each in listed["items"]], len(listed["problems"])) == (["audit"], 1)


async def test_a_missing_file_changes_nothing(node: Node, path: Path) -> None:
    before = await triggers(node)
    remove(path)
    await node.assent[Reloading].look()
    assert node.assent[Reloading].problems == ["assent.yaml is missing; the last valid configuration stays in effect."]
    assert await triggers(node) == before


async def test_an_unchanged_file_is_not_reloaded(node: Node) -> None:
    await node.assent[Reloading].look()
    assert (result(node, "applied"), result(node, "refused")) == (0, 0)


async def test_a_process_that_no_longer_matches_is_reported_until_it_is_restored(
    node: Node, settings: Settings
) -> None:
    process = settings.process_folder / "anything.py"
    good = process.read_text()
    process.unlink()
    await node.assent[Reloading].look()
    assert node.assent[Reloading].problems[0].startswith("assent.yaml line 6: triggers[0]/run: ")
    process.write_text(good)
    await node.assent[Reloading].look()
    assert node.assent[Reloading].problems == []


async def test_an_environment_variable_takes_precedence_over_the_file(
    settings: Settings, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes(settings)
    monkeypatch.setenv("ASSENT_TRIGGERS", '[{"id": "own", "on": "github.push", "run": "anything"}]')
    async with running_node(settings.model_copy(update=_parts())) as node:
        write(path, TEXT.replace("nightly:", "daily:"))
        assert await node.assent[Reloading].reload()
        sources = await node.assent.database.read(lambda tx: tx[Sources].in_project("default"))
        assert [each.name for each in sources] == ["daily"]
        assert [each.name for each in await triggers(node)] == ["own"]


async def test_two_nodes_that_reload_concurrently_agree(postgres_settings: Settings, path: Path) -> None:
    processes(postgres_settings)
    both = postgres_settings.model_copy(update=_parts())
    async with running_node(both) as one, running_node(both) as two:
        write(path, TEXT.replace("audit", "check"))
        done = await asyncio.gather(one.assent[Reloading].reload(), two.assent[Reloading].reload())
        found = await triggers(one)
    assert ([*done], [(each.name, each.version) for each in found]) == ([True, True], [("check", 1)])


def replaced(path: Path, text: str) -> None:
    """Replace the file, as editors do."""
    other = path.with_name("other.yaml")
    other.write_text(text)
    other.replace(path)


def linked(path: Path, text: str) -> None:
    """Switch a symbolic link to another folder, as Kubernetes does for a ConfigMap."""
    folder = path.with_name("new")
    folder.mkdir()
    (folder / path.name).write_text(text)
    link = path.with_name("link")
    link.symlink_to(folder / path.name)
    link.replace(path)


CHANGES = {"written": write, "replaced": replaced, "linked": linked}


@pytest.mark.parametrize("how", sorted(CHANGES))
async def test_a_node_with_a_worker_detects_every_kind_of_file_change(
    sqlite_settings: Settings, path: Path, how: str
) -> None:
    processes(sqlite_settings)
    async with running_node(sqlite_settings):
        pass
    async with running_node(sqlite_settings.model_copy(update=_parts()), worker=True) as node:
        CHANGES[how](path, TEXT.replace("audit", "check"))
        found = await until(lambda: triggers(node), lambda found: [each.name for each in found] == ["check"])
    assert found[0].origin == "file"


async def test_a_file_created_after_the_start_is_applied(sqlite_settings: Settings, path: Path) -> None:
    remove(path)
    folder = processes(sqlite_settings)
    moved = folder.rename(folder.with_name("later"))
    async with running_node(sqlite_settings, worker=True) as node:
        assert node.assent[Reloading].problems == []
        moved.rename(folder)
        write(path, TEXT)
        await until(lambda: triggers(node), lambda found: [each.name for each in found] == ["audit"])
