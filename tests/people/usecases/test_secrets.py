"""Callback secrets: created once, valid for a day after a rotation, and readable only by admins."""

import asyncio
import base64
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assent.core.access import Kind, Principal, Role
from assent.core.errors import Conflict, Forbidden, NotFound, Unavailable
from assent.db.transaction import Transaction
from assent.kernel.keyring import Keyring
from assent.kernel.settings import Settings
from assent.people.store.projects import Project, Projects
from assent.people.store.secrets import Secrets, StoredSecret
from assent.people.usecases.secrets import BATCH, CallbackSecret, Rotated, SecretService
from tests.db.making import rows
from tests.support.keys import key_reference, new_key
from tests.support.nodes import ManualClock, Node, running_node

OWNER = Principal(
    kind=Kind.PERSON, id="per_o", name="owner", project="default", roles=frozenset({Role.ADMIN}), everywhere=True
)
DAY = 24 * 3600


async def valid(node: Node, project: str = "default") -> list[CallbackSecret]:
    return await node.assent.database.write(partial(node.assent[SecretService].callback_secrets, project=project))


async def rotate(node: Node, by: Principal = OWNER, project: str = "default") -> list[CallbackSecret]:
    use_case = partial(node.assent[SecretService].rotate_callback_secret, project=project, by=by)
    return await node.assent.database.write(use_case)


async def add_project(node: Node, name: str) -> None:
    await node.assent.database.write(lambda tx: tx[Projects].add(Project(name, name, None, {}, tx.now())))


async def test_the_first_secret_is_created_on_demand_and_kept(node: Node) -> None:
    first, again = await valid(node), await valid(node)

    assert first == again
    (made,) = first
    assert made.value.startswith("whsec_")
    assert len(base64.b64decode(made.value.removeprefix("whsec_"), validate=True)) == 32
    assert (made.version, made.created_by, made.valid_until) == (1, "system:secrets", None)
    assert made.value not in repr(made)


async def test_projects_have_separate_secrets(node: Node) -> None:
    await add_project(node, "shop")
    assert (await valid(node))[0].value != (await valid(node, "shop"))[0].value


async def test_nodes_creating_the_first_secret_concurrently_get_the_same_secret(settings: Settings) -> None:
    async with running_node(settings) as one, running_node(settings) as two:
        found = await asyncio.gather(*(valid(node) for node in (one, two) * 10))
    assert len({secrets[0].value for secrets in found}) == 1


async def test_the_old_secret_is_valid_for_exactly_a_day(node: Node, clock: ManualClock) -> None:
    (old,) = await valid(node)
    new, before = await rotate(node)

    assert (new.version, new.valid_until) == (2, None)
    assert before.value == old.value != new.value
    assert before.valid_until == clock.now() + DAY * 1_000_000
    clock.advance(DAY - 1)
    assert [each.version for each in await valid(node)] == [2, 1]
    clock.advance(1)
    assert [each.version for each in await valid(node)] == [2]


async def test_rotating_twice_immediately_invalidates_the_first_secret(node: Node) -> None:
    await valid(node)
    await rotate(node)
    assert [each.version for each in await rotate(node)] == [3, 2]


async def test_concurrent_rotations_leave_one_current_secret_and_no_gap(settings: Settings) -> None:
    async with running_node(settings) as one, running_node(settings) as two:
        await valid(one)
        found = await asyncio.gather(*(rotate(node) for node in (one, two) * 5), return_exceptions=True)
        current = await rows(one, "SELECT version FROM assent_secrets WHERE retired_at IS NULL")
        versions = await rows(one, "SELECT version FROM assent_secrets ORDER BY version")
    done = [each for each in found if not isinstance(each, Exception)]
    assert all(isinstance(each, list | Conflict) for each in found)
    assert [version for (version,) in versions] == list(range(1, len(done) + 2))
    assert len(current) == 1


async def test_only_admins_can_see_and_rotate_secrets(node: Node) -> None:
    reviewer = Principal(kind=Kind.PERSON, id="p", name="rita", project="default", roles=frozenset({Role.REVIEWER}))
    stranger = Principal(kind=Kind.PERSON, id="q", name="sam", project="shop", roles=frozenset({Role.ADMIN}))
    agent = Principal(kind=Kind.AGENT, id="t", name="bot", project="default")
    for who, refusal in ((reviewer, Forbidden), (agent, Forbidden), (stranger, NotFound)):
        for ask in (
            node.assent[SecretService].show_callback_secrets,
            node.assent[SecretService].rotate_callback_secret,
        ):
            with pytest.raises(refusal):
                await node.assent.database.write(partial(ask, project="default", by=who))
    with pytest.raises(NotFound):
        await rotate(node, project="nowhere")


SWAP = """
    UPDATE assent_secrets SET ciphertext = (
      SELECT o.ciphertext FROM assent_secrets o WHERE o.project_id = :other AND o.version = :version)
    WHERE project_id = :project AND version = 1"""


@pytest.mark.parametrize(("other", "version"), [("shop", 1), ("default", 2)])
async def test_a_secret_swapped_with_another_row_is_not_used(node: Node, other: str, version: int) -> None:
    await add_project(node, "shop")
    await valid(node, "shop")
    await valid(node)
    await rotate(node)
    params = {"other": other, "version": version, "project": "default"}
    await node.assent.database.write(lambda tx: tx.session.write(SWAP, [params]))

    assert [each.version for each in await valid(node)] == [2], "the swapped secret cannot be decrypted and is left out"
    row = await node.assent.database.read(lambda tx: tx[Secrets].newest("default", "callback", limit=2)[1])
    with pytest.raises(Unavailable, match="changed or moved"):
        node.assent[SecretService]._opened(row)


async def test_a_tampered_current_secret_is_not_used(node: Node) -> None:
    await valid(node)
    change = "UPDATE assent_secrets SET ciphertext = :bytes"
    await node.assent.database.write(lambda tx: tx.session.write(change, [{"bytes": b"\x01" + bytes(60)}]))

    with pytest.raises(Unavailable, match="changed or moved"):
        await valid(node)
    assert [each.version for each in await rotate(node)] == [2], "a rotation must replace the broken secret"


async def test_postgresql_without_keys_stores_no_secret_but_otherwise_works(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as node:
        with pytest.raises(Unavailable, match="ASSENT_SECRET_KEYS"):
            await valid(node)
        answer = await node.call("GET", "/api/projects/default/callback-secret", await node.token("admin"))
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert await rows(node, "SELECT * FROM assent_secrets") == []
        assert (await node.create())["status"] == "waiting"


async def test_the_error_names_a_missing_key_and_rotation_works_without_it(
    tmp_path: Path, sqlite_settings: Settings
) -> None:
    keys = {"secret_keys": (key_reference(tmp_path),)}
    async with running_node(sqlite_settings.model_copy(update=keys)) as node:
        await valid(node)
        (used,) = node.assent.keyring.load()
    key_reference(tmp_path, new_key())
    async with running_node(sqlite_settings.model_copy(update=keys)) as node:
        with pytest.raises(Unavailable, match=used):
            await valid(node)
        assert [each.version for each in await rotate(node)] == [2]


def with_keys(*keys: str) -> SecretService:
    random = iter(range(10**9))
    ring = Keyring(lambda: [("test", " ".join(keys))], lambda n: next(random).to_bytes(n, "big"))
    return SecretService(ring, lambda n: next(random).to_bytes(n, "big"))


async def in_all_batches(node: Node, service: SecretService, stop_after: int = 10**6) -> list[Rotated]:
    done = [await node.assent.database.write(service.rotate_key)]
    while done[-1].after is not None and len(done) < stop_after:
        after = done[-1].after
        done.append(await node.assent.database.write(partial(service.rotate_key, after=after)))
    return done


async def test_reencryption_with_a_new_key_runs_in_batches_and_survives_an_interruption(node: Node) -> None:
    old, new = new_key(), new_key()
    before, after = with_keys(old), with_keys(new, old)
    projects = [f"p{n:04}" for n in range(BATCH * 2 + 5)]

    def fill(tx: Transaction) -> None:
        for name in projects:
            tx[Projects].add(Project(name, name, None, {}, tx.now()))
            before.callback_secrets(tx, name)

    await node.assent.database.write(fill)
    plain = await node.assent.database.write(lambda tx: [before.callback_secrets(tx, name) for name in projects])

    interrupted = await in_all_batches(node, after, stop_after=1)
    rest = await in_all_batches(node, after)

    assert [each.resealed for each in interrupted] == [BATCH]
    assert sum(each.resealed for each in rest) == BATCH + 5
    assert sum(each.resealed for each in await in_all_batches(node, after)) == 0
    only_new = with_keys(new)
    assert await node.assent.database.write(lambda tx: [only_new.callback_secrets(tx, p) for p in projects]) == plain


async def test_undecryptable_secrets_are_counted_and_kept(node: Node) -> None:
    lost, old, new = new_key(), new_key(), new_key()
    await add_project(node, "shop")
    await node.assent.database.write(partial(with_keys(lost).callback_secrets, project="default"))
    await node.assent.database.write(partial(with_keys(old).callback_secrets, project="shop"))

    (done,) = await in_all_batches(node, with_keys(new, old))

    assert (done.resealed, done.unreadable, done.after) == (1, 1, None)
    await node.assent.database.write(partial(with_keys(lost).callback_secrets, project="default"))


def a_second(row: StoredSecret) -> Any:
    values = {"project_id": row.project, "name": row.name, "version": row.version + 1, "at": row.created_at}
    statement = """
        INSERT INTO assent_secrets (project_id, name, version, ciphertext, key_id, created_at, created_by)
        VALUES (:project_id, :name, :version, '', 'k', :at, 'x')"""
    return lambda tx: tx.session.write(statement, [values])


async def test_the_database_rejects_a_second_current_secret(node: Node) -> None:
    await valid(node)
    row = await node.assent.database.read(lambda tx: tx[Secrets].every()[0])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await node.assent.database.write(a_second(row))


async def test_secrets_never_appear_in_logs_or_metrics(
    node: Node, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    admin = await node.token("admin")
    shown = (await node.call("GET", "/api/projects/default/callback-secret", admin)).json()
    turned = (await node.call("POST", "/api/projects/default/callback-secret/rotate", admin)).json()
    metrics = (await node.call("GET", "/metrics", admin)).text
    printed = "".join(capfd.readouterr()) + caplog.text + metrics

    assert [each["secret"] for page in (shown, turned) for each in page["items"] if each["secret"] in printed] == []
