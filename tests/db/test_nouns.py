"""Files, sessions, sign-in links, tokens, groups, roles and idempotency keys, on both databases."""

from functools import partial

import pytest

from assent.breakpoints.store.files import Files
from assent.breakpoints.store.idempotency import Idempotency
from assent.core.access import EVERY_ROLE, Kind, Principal, Role
from assent.core.canonical import sha256
from assent.core.errors import Conflict, InvalidRequest, NotFound
from assent.core.secrets import secret_hash
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.http.sessions import SESSION_LIFE
from assent.people.store.people import EVERYWHERE, People
from assent.people.store.sessions import Sessions
from assent.people.store.tokens import Tokens
from assent.people.usecases.people import LINK_LIFE, NewToken, PeopleService
from tests.db.making import AGENT, create, person, rows
from tests.support.nodes import ManualClock, Node

CONTENT = b"\x00\xff any bytes"


async def test_identical_content_is_stored_only_once(node: Node) -> None:
    digest = sha256(CONTENT)
    for _ in range(2):
        await node.assent.database.write(lambda tx: tx[Files].put("default", digest, CONTENT, at=1))
    assert await rows(node, "SELECT sha256, size FROM assent_files") == [(digest, len(CONTENT))]
    assert await node.assent.database.read(lambda tx: tx[Files].size("default", digest)) == len(CONTENT)


async def test_a_file_in_another_project_is_not_found(node: Node) -> None:
    digest = sha256(CONTENT)
    await node.assent.database.write(lambda tx: tx[Files].put("default", digest, CONTENT, at=1))
    assert await node.assent.database.read(lambda tx: tx[Files].size("other", digest)) is None


async def test_a_breakpoints_files_are_read_by_number(node: Node) -> None:
    digest = sha256(CONTENT)
    await node.assent.database.write(lambda tx: tx[Files].put("default", digest, CONTENT, at=1))
    files = [
        {"path": "a.md", "format": "markdown", "content": "# A"},
        {"path": "b.bin", "format": "image", "sha256": digest},
        {"path": "c.py", "format": "code", "language": "python"},
    ]
    breakpoint_id = await create(node, {"context": {"files": files}})

    async def entry(n: int, project: str = "default") -> tuple[str, bytes | None]:
        found = await node.assent.database.read(lambda tx: tx[Files].get_entry(breakpoint_id, n, project=project))
        return found.path, found.content

    assert await entry(0) == ("a.md", b"# A")
    assert await entry(1) == ("b.bin", CONTENT)
    for n, project in ((2, "default"), (3, "default"), (-1, "default"), (0, "other")):
        with pytest.raises(NotFound):
            await entry(n, project)


async def test_an_unknown_file_digest_is_rejected_and_nothing_is_stored(node: Node) -> None:
    with pytest.raises(InvalidRequest):
        await create(node, {"context": {"files": [{"path": "a", "format": "text", "sha256": "0" * 64}]}})
    assert await rows(node, "SELECT 1 FROM assent_breakpoints") == []


async def test_a_sign_in_link_works_only_once(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    link = await node.assent.database.write(
        partial(node.assent[PeopleService].create_link, person_id=ann.id, purpose="start")
    )
    use_link = partial(node.assent[PeopleService].use_link, plain=link)
    await node.assent.database.write(use_link)
    with pytest.raises(Exception, match="already used"):
        await node.assent.database.write(use_link)


async def test_a_sign_in_link_expires(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    link = await node.assent.database.write(
        partial(node.assent[PeopleService].create_link, person_id=ann.id, purpose="start")
    )
    clock.advance(LINK_LIFE / SECOND)
    with pytest.raises(Exception, match="has expired"):
        await node.assent.database.write(partial(node.assent[PeopleService].use_link, plain=link))


async def test_only_the_hash_of_a_sign_in_link_is_stored(node: Node) -> None:
    ann = await person(node, "ann", "reviewer")
    link = await node.assent.database.write(
        partial(node.assent[PeopleService].create_link, person_id=ann.id, purpose="start")
    )
    assert await rows(node, "SELECT secret_hash FROM assent_sign_in_links") == [(secret_hash(link),)]


async def test_a_session_ends_when_it_expires_or_is_removed_or_its_account_is_deactivated(
    node: Node, clock: ManualClock
) -> None:
    ann = await person(node, "ann", "reviewer")

    async def fresh() -> str:
        return (await node.assent.database.write(partial(node.assent[PeopleService].open_session, person_id=ann.id)))[0]

    async def valid(plain: str) -> bool:
        found = await node.assent.database.read(partial(node.assent[PeopleService].session_principal, plain=plain))
        return found is not None

    first, second, third = await fresh(), await fresh(), await fresh()
    assert [await valid(each) for each in (first, second, third)] == [True, True, True]
    await node.assent.database.write(lambda tx: tx[Sessions].remove(secret_hash(first)))
    assert [await valid(each) for each in (first, second)] == [False, True]
    await node.assent.database.write(lambda tx: tx[Sessions].remove_all(ann.id))
    assert not await valid(second)
    last = await fresh()
    clock.advance(SESSION_LIFE / SECOND)
    assert not await valid(last)
    newest = await fresh()

    def close_account(tx: Transaction) -> None:
        node.assent[PeopleService].change_person(tx, "ann", {"active": False}, by=_admin(tx))

    await node.assent.database.write(close_account)
    assert not await valid(newest)


def _admin(tx: Transaction) -> Principal:
    owner = tx[People].get_by_name("owner")
    return Principal(kind=Kind.PERSON, id=owner.id, name="owner", project="default", roles=EVERY_ROLE, everywhere=True)


async def test_a_token_can_be_revoked_only_once_and_only_in_its_project(node: Node, clock: ManualClock) -> None:
    new = NewToken(kind="agent", name="ci", gates=("ci.*",), agent_ids=("ci-*",), creates_per_minute=5)
    token, plain = await node.assent.database.write(
        partial(node.assent[PeopleService].create_token, new=new, project="default", by="system:test")
    )
    listed = await node.assent.database.read(lambda tx: tx[Tokens].every("default"))
    assert [each for each in listed if each.id == token.id] == [token]
    assert await rows(node, "SELECT secret_hash FROM assent_tokens WHERE id = :id", id=token.id) == [
        (secret_hash(plain),)
    ]

    async def revoke(project: str) -> None:
        await node.assent.database.write(lambda tx: tx[Tokens].revoke(token.id, project=project, now=clock.now()))

    with pytest.raises(NotFound):
        await revoke("other")
    await revoke("default")
    with pytest.raises(NotFound):
        await revoke("default")


async def test_a_token_cannot_have_roles_that_its_person_lacks(node: Node) -> None:
    await person(node, "ann", "viewer")
    for kind, roles in (("reviewer", None), ("admin", frozenset({Role.ADMIN})), ("viewer", frozenset(Role))):
        new = NewToken(kind=kind, name="t", person="ann", roles=roles)
        with pytest.raises(InvalidRequest):
            await node.assent.database.write(
                partial(node.assent[PeopleService].create_token, new=new, project="default", by="system:test")
            )


async def test_roles_end_when_a_grant_is_removed_a_token_expires_or_an_account_is_deactivated(
    node: Node, clock: ManualClock
) -> None:
    ann = await person(node, "ann", "reviewer", "viewer")
    token, _ = await node.assent.database.write(
        partial(
            node.assent[PeopleService].create_token,
            new=NewToken(kind="reviewer", name="t", person="ann", expires_in=60),
            project="default",
            by="system:test",
        )
    )

    async def live(token_id: str | None = None, project: str = "default") -> set[str]:
        found = await node.assent.database.read(
            lambda tx: tx[People].live_roles(ann.id, project=project, token_id=token_id, now=clock.now())
        )
        return set(map(str, found))

    assert await live() == await live(token.id) == {"reviewer", "viewer"}
    assert await live(project="other") == set()
    clock.advance(60)
    assert await live(token.id) == set()
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, "default", [Role.VIEWER]))
    assert await live() == {"viewer"}
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, EVERYWHERE, [Role.AUDITOR]))
    assert await live() == {"viewer", "auditor"}
    assert await live(project="other") == {"auditor"}
    await node.assent.database.write(
        lambda tx: tx.session.change("UPDATE assent_people SET active = 0 WHERE id = :id", {"id": ann.id})
    )
    assert await live() == set()


async def test_person_names_are_unique(node: Node) -> None:
    await person(node, "ann", "reviewer")
    with pytest.raises(Conflict):
        await person(node, "ann", "viewer")


async def test_a_group_contains_exactly_its_current_members(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "viewer")

    async def put(*members: str) -> None:
        await node.assent.database.write(lambda tx: tx[People].put_group("default", "ops", members, at=1))

    async def groups() -> dict[str, list[str]]:
        return await node.assent.database.read(lambda tx: tx[People].groups("default"))

    await put(ann.id, bob.id, ann.id)
    assert await groups() == {"ops": ["ann", "bob"]}
    directory = await node.assent.database.read(lambda tx: tx[People].directory("default", ["ops", "bob", "owner"]))
    assert directory.carriers("ops") == {"ann"}, "only reviewers count as experts"
    assert directory.carriers("bob") == frozenset()
    assert directory.carriers("owner") == {"owner"}
    await put()
    assert await groups() == {"ops": []}
    await node.assent.database.write(lambda tx: tx[People].remove_group("default", "ops"))
    assert await groups() == {}
    with pytest.raises(NotFound):
        await node.assent.database.write(lambda tx: tx[People].remove_group("default", "ops"))


async def test_old_idempotency_keys_are_deleted(node: Node, clock: ManualClock) -> None:
    claim = partial(_claim, key="k", now=clock.now())
    assert await node.assent.database.write(partial(claim, breakpoint_id="bp_1")) is None
    assert await node.assent.database.write(partial(claim, breakpoint_id="bp_2")) == "bp_1"
    assert await node.assent.database.write(lambda tx: tx[Idempotency].forget(clock.now())) == 0
    assert await node.assent.database.write(lambda tx: tx[Idempotency].forget(clock.now() + 1)) == 1
    assert await node.assent.database.write(partial(claim, breakpoint_id="bp_3")) is None


def _claim(tx: Transaction, *, key: str, breakpoint_id: str, now: int) -> str | None:
    return tx[Idempotency].claim(AGENT.id, key, fingerprint="f", breakpoint_id=breakpoint_id, now=now)
