"""Sources created by people: validation by kind, schedules, and which secrets a person can use."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assent.core.access import Role
from assent.core.durations import seconds
from assent.core.errors import Conflict, Forbidden, InvalidRequest, NotFound
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import Reach
from assent.kernel.settings import resolve
from assent.triggers.sources.registry import KINDS
from assent.triggers.sources.tools import SourceTools
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.scheduler import first_tick
from assent.triggers.usecases.sources import MOST, SourceService
from assent.triggers.usecases.triggers import TriggerService
from tests.support.nodes import ManualClock, Node
from tests.triggers.usecases.triggers_setup import SCHEDULE, person, processes

HOOK = {"secrets": ["env:HOOK_SECRET"]}
ADMIN = person(Role.ADMIN, everywhere=True)
OF_THE_PROJECT = person(Role.ADMIN, name="bob")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret that nobody guesses")
    monkeypatch.setenv("OTHER_SECRET", "another one")


@pytest.fixture
def sqlite_sources(tmp_path: Path) -> SourceService:
    """A service for checks that do not need a database."""
    return SourceService(SourceTools(resolve, lambda: 0, tmp_path), Reach(tmp_path))


async def made(node: Node, name: str = "nightly", kind: str = "schedule", **given: Any) -> StoredSource:
    settings = given.pop("settings", SCHEDULE)
    by = given.pop("by", ADMIN)
    return await node.assent.database.write(
        lambda tx: node.assent[SourceService].create(tx, name, kind, settings, by=by, **given)
    )


async def changed(node: Node, source: str, by: Any = ADMIN, **changes: Any) -> StoredSource:
    return await node.assent.database.write(lambda tx: node.assent[SourceService].change(tx, source, changes, by=by))


async def test_a_new_source_records_its_creator(node: Node) -> None:
    source = await made(node)
    (listed,) = await node.assent.database.read(partial(node.assent[SourceService].listed, by=ADMIN))
    assert listed == source
    assert (source.created_by, source.updated_by, source.origin) == ("person:ann", "person:ann", "api")


async def test_a_source_is_found_by_id_or_name_only_in_its_project(node: Node) -> None:
    source = await made(node)

    def known(tx: Transaction) -> list[StoredSource]:
        return [node.assent[SourceService].known(tx, each, by=ADMIN) for each in (source.id, "nightly")]

    assert await node.assent.database.read(known) == [source, source]
    stranger = person(Role.ADMIN, project="other")
    with pytest.raises(NotFound):
        await node.assent.database.read(lambda tx: node.assent[SourceService].known(tx, source.id, by=stranger))


async def test_a_schedule_fires_on_time_but_not_while_disabled(node: Node, clock: ManualClock) -> None:
    source = await made(node)
    assert source.next_at == first_tick(SCHEDULE, clock.now(), source.id)
    off = await changed(node, source.id, enabled=False)
    assert off.next_at is None
    clock.advance(10 * 86_400)
    on = await changed(node, source.id, enabled=True)
    assert on.next_at == first_tick(SCHEDULE, clock.now(), source.id)


async def test_silence_is_measured_from_when_the_source_is_configured(node: Node, clock: ManualClock) -> None:
    source = await made(node, settings=SCHEDULE | {"expect_every": "2d"})
    assert source.silent_at == clock.now() + seconds("2d") * SECOND


async def test_changes_are_merged_and_null_removes_a_setting(node: Node) -> None:
    source = await made(node, settings=SCHEDULE | {"expect_every": "2d"})
    after = await changed(node, source.id, by=person(Role.ADMIN, name="bob"), settings={"expect_every": None})
    assert after.settings == SCHEDULE
    assert (after.silent_at, after.updated_by) == (None, "person:bob")
    assert after.updated_at > source.updated_at


async def test_a_change_without_effect_is_not_stored(node: Node) -> None:
    source = await made(node)
    assert await changed(node, source.id, settings=SCHEDULE, enabled=True) == source


@pytest.mark.parametrize("change", [{"kind": "github"}, {"name": "other"}, {"colour": 1}])
async def test_the_kind_and_name_of_a_source_cannot_be_changed(node: Node, change: dict[str, Any]) -> None:
    source = await made(node)
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        await changed(node, source.id, **change)


async def test_a_source_name_can_be_reused_only_after_removal(node: Node) -> None:
    source = await made(node)
    with pytest.raises(Conflict):
        await made(node)
    await node.assent.database.write(partial(node.assent[SourceService].remove, source_id=source.id, by=ADMIN))
    again = await made(node)
    assert again.id != source.id


async def test_removing_a_source_lists_the_triggers_that_reference_it(node: Node) -> None:
    source = await made(node)
    processes(node.assent.settings)

    def use_case(tx: Transaction) -> list[str]:
        for name, pattern in (
            ("one", "schedule.tick(source = 'nightly')"),
            ("two", "*(source in ('nightly', 'b'))"),
            ("three", "schedule.tick(source = 'weekly')"),
        ):
            node.assent[TriggerService].create(tx, {"id": name, "on": pattern, "run": "anything"}, by=ADMIN)
        return node.assent[SourceService].remove(tx, source.id, by=ADMIN)

    assert await node.assent.database.write(use_case) == ["one", "two"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trust": "blind"}, "/settings/trust"),
        ({"expect_every": "soon"}, "/settings/expect_every"),
        ({"expect_every": 60}, "/settings/expect_every"),
        ({"max_bytes": 25 * 1024 * 1024 + 1}, "/settings/max_bytes"),
        ({"max_bytes": True}, "/settings/max_bytes"),
        ({"per_minute": 0}, "/settings/per_minute"),
        ({"dedup": "{{ event.nothing }}"}, "/settings/dedup"),
        ({"dedup": " "}, "/settings/dedup"),
        ({"colour": "red"}, "/settings/colour"),
        ({"note": "x" * 20_000}, "/settings"),
    ],
)
@pytest.mark.parametrize(("kind", "base"), [("schedule", SCHEDULE), ("github", HOOK), ("files", {"path": "."})])
def test_common_settings_are_validated_for_every_kind(
    sqlite_sources: SourceService, kind: str, base: dict[str, Any], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sqlite_sources.check(kind, base | settings)
    assert refused.value.message.startswith(said)


def test_an_unknown_kind_is_rejected_with_the_known_kinds(sqlite_sources: SourceService) -> None:
    with pytest.raises(InvalidRequest, match=r"/kind: must be one of .*github.*schedule"):
        sqlite_sources.check("pigeon", {})


def test_a_literal_secret_is_rejected(sqlite_sources: SourceService) -> None:
    with pytest.raises(InvalidRequest, match="/settings/secrets/0: must be a reference, env:NAME or file:PATH"):
        sqlite_sources.check("github", {"secrets": ["a secret that nobody guesses"]})


@pytest.mark.parametrize("name", ["", "Nightly", "-a", "a b", "a/b", "x" * 61])
async def test_a_source_name_must_be_valid_in_a_url(node: Node, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^/name: must start with a lowercase letter"):
        await made(node, name)


async def test_a_project_admin_cannot_use_secrets_without_permission(node: Node) -> None:
    with pytest.raises(Forbidden, match="HOOK_SECRET"):
        await made(node, "hook", "github", settings=HOOK, by=OF_THE_PROJECT)
    source = await made(node, "hook", "github", settings=HOOK)
    with pytest.raises(Forbidden, match="OTHER_SECRET"):
        await changed(node, source.id, by=OF_THE_PROJECT, settings={"secrets": ["env:OTHER_SECRET"]})


async def test_only_an_admin_of_all_projects_can_watch_files(node: Node) -> None:
    with pytest.raises(Forbidden, match="files on this machine"):
        await made(node, "specs", "files", settings={"path": "."}, by=OF_THE_PROJECT)


@pytest.mark.parametrize(
    "use_case",
    [
        lambda service, tx, by: service.create(tx, "x", "schedule", SCHEDULE, by=by),
        lambda service, tx, by: service.change(tx, "x", {}, by=by),
        lambda service, tx, by: service.remove(tx, "x", by=by),
    ],
)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER, Role.RULE_ADMIN, Role.AUDITOR])
async def test_only_admins_can_create_change_or_remove_sources(
    node: Node, use_case: Callable[..., Any], role: Role
) -> None:
    with pytest.raises(Forbidden):
        await node.assent.database.write(lambda tx: use_case(node.assent[SourceService], tx, person(role)))


async def test_a_source_from_assent_yaml_cannot_be_changed_or_removed(node: Node) -> None:
    stored = StoredSource(id="src_1", project="default", name="filed", kind="schedule", settings={}, origin="file")
    await node.assent.database.write(lambda tx: tx[Sources].add(stored))
    with pytest.raises(Conflict, match=r"assent\.yaml"):
        await changed(node, "src_1", enabled=False)
    with pytest.raises(Conflict, match=r"assent\.yaml"):
        await node.assent.database.write(partial(node.assent[SourceService].remove, source_id="src_1", by=ADMIN))


async def test_a_project_has_a_maximum_number_of_sources(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        for n in range(MOST):
            tx[Sources].add(
                StoredSource(id=f"src_{n}", project="default", name=f"s{n}", kind="schedule", settings=SCHEDULE)
            )

    await node.assent.database.write(use_case)
    with pytest.raises(InvalidRequest, match="at most 200 sources"):
        await made(node)


def test_a_webhook_url_contains_the_name_in_the_default_project_and_the_id_in_others(
    sqlite_sources: SourceService,
) -> None:
    hook = StoredSource(id="src_1", project="default", name="hook", kind="github", settings=HOOK)
    other = StoredSource(id="src_2", project="team", name="hook", kind="github", settings=HOOK)
    clock = StoredSource(id="src_3", project="default", name="c", kind="schedule", settings=SCHEDULE)
    found = [sqlite_sources.address(each, "https://a.test") for each in (hook, other, clock)]
    assert found == ["https://a.test/hooks/hook", "https://a.test/hooks/src_2", ""]


def test_a_missing_secret_is_reported_as_a_problem(
    sqlite_sources: SourceService, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = StoredSource(id="src_1", project="default", name="hook", kind="github", settings=HOOK)
    assert sqlite_sources.problem(hook) is None
    monkeypatch.delenv("HOOK_SECRET")
    assert "HOOK_SECRET" in (sqlite_sources.problem(hook) or "")


def test_source_kinds_that_use_secrets_declare_them() -> None:
    assert {each.name for each in KINDS.values() if each.secrets} >= {"github", "gitlab", "webhook"}


@pytest.mark.parametrize("name", ["src_1", "trg_0123456789"])
async def test_a_source_name_cannot_look_like_an_id(node: Node, name: str) -> None:
    with pytest.raises(InvalidRequest, match="must not start with src_ or trg_"):
        await node.assent.database.write(
            partial(node.assent[SourceService].create, name=name, kind="schedule", settings=SCHEDULE, by=ADMIN)
        )


async def test_a_source_id_never_resolves_to_a_source_with_that_name(node: Node) -> None:
    """This also applies to names that earlier versions allowed."""
    create, known = node.assent[SourceService].create, node.assent[SourceService].known
    first = await node.assent.database.write(lambda tx: create(tx, "first", "schedule", SCHEDULE, by=ADMIN))
    other = StoredSource(id="src_other", project="default", name=first.id, kind="schedule", settings=SCHEDULE)
    await node.assent.database.write(lambda tx: tx[Sources].add(other))
    assert (await node.assent.database.read(lambda tx: known(tx, first.id, by=ADMIN))).name == "first"
    await node.assent.database.write(lambda tx: tx[Sources].remove(first.id, now=tx.now()))
    assert (await node.assent.database.read(lambda tx: known(tx, first.id, by=ADMIN))).id == "src_other"
