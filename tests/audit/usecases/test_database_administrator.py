"""Edits that a database administrator could make, each detected by `audit verify` or `fsck`, on both databases."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from assent.audit.usecases.checkpoints import CheckpointService
from assent.audit.usecases.retention import RetentionService
from assent.audit.usecases.verify import AuditService
from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.store.links import Links
from assent.delivery.store.routes import Routes
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.tokens import Tokens
from assent.people.usecases.people import PeopleService
from assent.people.usecases.secrets import SecretService
from assent.platform.admin_events import BASELINE, INSTALLATION
from assent.platform.admin_log import AdminLog
from assent.platform.admin_state import KINDS, STATE_VERSION
from assent.platform.epochs import Epochs
from tests.db.making import adding, create, person, respond
from tests.delivery.usecases.delegating import channel, route, settle, wishes
from tests.policy.usecases.test_receipts import ADMIN, approved, consume, issue, rotate
from tests.support.nodes import Node, running_node
from tests.support.tampering import Raw, put, raw, resting, unlocked, write

Edit = Callable[[Raw, Mapping[str, str]], None]
NOW = 1_800_000_000_000_000


def run(statement: str) -> Edit:
    def edit(opened: Raw, ids: Mapping[str, str]) -> None:
        opened.run(statement, **{name: value for name, value in ids.items() if f":{name}" in statement})

    return edit


def grant_a_role(opened: Raw, ids: Mapping[str, str]) -> None:
    put(opened, "assent_grants", {"person_id": ids["cid"], "project_id": "default", "role": "admin"})


def insert_a_person(opened: Raw, ids: Mapping[str, str]) -> None:
    del ids
    row = {"id": "per_eve", "name": "eve", "display_name": "Eve", "email": None, "password_hash": None}
    put(opened, "assent_people", row | {"active": 1, "created_at": 1})


def insert_a_token(opened: Raw, ids: Mapping[str, str]) -> None:
    row = opened.one("assent_tokens", id=ids["token"])
    put(opened, "assent_tokens", row | {"id": "tok_forged", "secret_hash": "f" * 64})


def insert_a_receipt_use(opened: Raw, ids: Mapping[str, str]) -> None:
    row = {"breakpoint_id": ids["unused"], "nonce": "n", "key_id": "k", "used_at": NOW, "used_by": "agent:eve"}
    put(opened, "assent_receipt_uses", row)


def insert_an_admin_event(opened: Raw, ids: Mapping[str, str]) -> None:
    del ids
    row = opened.one("assent_admin_events", chain_id="adm_default", seq=1)
    put(opened, "assent_admin_events", row | {"seq": 900})


def insert_a_response(opened: Raw, ids: Mapping[str, str]) -> None:
    row = opened.one("assent_responses", breakpoint_id=ids["unused"], person_id=ids["ann"])
    put(opened, "assent_responses", row | {"person_id": ids["bob"], "person": "bob"})


def insert_a_rule(opened: Raw, ids: Mapping[str, str]) -> None:
    put(opened, "assent_rules", opened.one("assent_rules", id=ids["rule"]) | {"id": "rule-forged", "pattern": "*"})


def insert_preferences(opened: Raw, ids: Mapping[str, str]) -> None:
    row = opened.one("assent_preferences", person_id=ids["ann"])
    put(opened, "assent_preferences", row | {"person_id": ids["bob"]})


def insert_a_routing(opened: Raw, ids: Mapping[str, str]) -> None:
    row = opened.one("assent_routings", breakpoint_id=ids["routed"])
    put(opened, "assent_routings", row | {"breakpoint_id": ids["waiting"], "deputies": '[["bob",null]]'})


def escalate_to(target: str, *, name: str, **changes: str | None) -> Edit:
    """Change the copy of the route that a pending breakpoint uses."""

    def edit(opened: Raw, ids: Mapping[str, str]) -> None:
        kept = {"pattern": "*", "channels": ["mail"], "to": ["experts"], "escalate": [{"after": "1s", "to": [target]}]}
        row = {"route": msgspec.json.encode(kept).decode()} | changes
        write(opened, "assent_routings", {"breakpoint_id": ids[name]}, row)

    return edit


def follow(other: str, *, name: str) -> Edit:
    """Make a pending breakpoint use another recorded route, including its id and content."""

    def edit(opened: Raw, ids: Mapping[str, str]) -> None:
        route_ = opened.one("assent_routes", id=ids[other])
        write(
            opened,
            "assent_routings",
            {"breakpoint_id": ids[name]},
            {"route_id": ids[other], "route": route_["content"]},
        )

    return edit


def move_a_checkpoint(opened: Raw, ids: Mapping[str, str]) -> None:
    del ids
    write(opened, "assent_checkpoints", {"number": 1}, {"root": "0" * 64})


EDITS: Mapping[str, Edit] = {
    "a decision is changed": run("UPDATE assent_breakpoints SET decision = 'rejected' WHERE id = :used"),
    "a breakpoint is approved": run(
        "UPDATE assent_breakpoints SET status = 'released', decision = 'approved', ended_by = :forger"
        ", ended_at = 5 WHERE id = :waiting"
    ),
    "the question is changed": run("UPDATE assent_breakpoints SET payload = '{}' WHERE id = :asked"),
    "the deadline is moved": run("UPDATE assent_breakpoints SET due_at = due_at + 5 WHERE id = :asked"),
    "the strategy is weakened": run("UPDATE assent_breakpoints SET strategy = 'quorum' WHERE id = :last"),
    "an event is changed": run("UPDATE assent_events SET actor = :forger WHERE breakpoint_id = :used AND seq = 2"),
    "an event is deleted": run("DELETE FROM assent_events WHERE breakpoint_id = :unused AND seq = 2"),
    "a response is changed": run("UPDATE assent_responses SET approved = 0 WHERE breakpoint_id = :fourth"),
    "a response is deleted": run("DELETE FROM assent_responses WHERE breakpoint_id = :third"),
    "a response is inserted": insert_a_response,
    "a comment is changed": run("UPDATE assent_comments SET comment = 'Never.' WHERE breakpoint_id = :fourth"),
    "a rule is widened": run("UPDATE assent_rules SET pattern = '*' WHERE id = :rule"),
    "a rule is inserted": insert_a_rule,
    "a rule event is deleted": run("DELETE FROM assent_rule_events WHERE rule_id = :rule"),
    "the policy gains a key": run(
        """UPDATE assent_projects SET policy = '{"alwaysBreakOn": ["prod"], "autoApproveFloor": 1}'
        WHERE id = 'default'"""
    ),
    "the policy is changed": run("UPDATE assent_projects SET policy = '{}' WHERE id = 'default'"),
    "the owner is changed": run("UPDATE assent_projects SET owner_id = :bob WHERE id = 'default'"),
    "a restore is forgotten": run("DELETE FROM assent_epochs"),
    "a role is granted": grant_a_role,
    "a role is removed": run("DELETE FROM assent_grants WHERE person_id = :bob"),
    "a person is added": insert_a_person,
    "a password is exchanged": run("UPDATE assent_people SET password_hash = 'x' WHERE id = :ann"),
    "an account is reopened": run("UPDATE assent_people SET active = 1 WHERE id = :gone"),
    "an address is changed": run("UPDATE assent_people SET email = 'eve@example.org' WHERE id = :bob"),
    "a group gains a member": run("UPDATE assent_group_members SET person_id = :bob WHERE group_name = 'ops'"),
    "a group is deleted": run("DELETE FROM assent_groups WHERE name = 'empty'"),
    "a token is inserted": insert_a_token,
    "a revoked token is revived": run("UPDATE assent_tokens SET revoked_at = NULL WHERE id = :revoked"),
    "a token's limits are widened": run("""UPDATE assent_tokens SET gates = '["*"]' WHERE id = :token"""),
    "a token's processes are widened": run("""UPDATE assent_tokens SET processes = '["*"]' WHERE id = :token"""),
    "a token's agent is changed": run("UPDATE assent_tokens SET agent = :revoked WHERE id = :other"),
    "a token's secret is exchanged": run("UPDATE assent_tokens SET secret_hash = 'e' WHERE id = :other"),
    "a receipt use is deleted": run("DELETE FROM assent_receipt_uses WHERE breakpoint_id = :used"),
    "a receipt use is inserted": insert_a_receipt_use,
    "a receipt key is exchanged": run("UPDATE assent_receipt_keys SET public_key = 'AAAA'"),
    "a legal hold is lifted": run("UPDATE assent_holds SET lifted_at = 5, lifted_by = :forger"),
    "a sign-in identity is moved": run("UPDATE assent_identities SET person_id = :bob"),
    "a stored secret is exchanged": run("UPDATE assent_secrets SET key_id = 'forged' WHERE name = 'callback'"),
    "an administrative event is changed": run("UPDATE assent_admin_events SET actor = :forger WHERE seq = 3"),
    "an administrative event is deleted": run("DELETE FROM assent_admin_events WHERE chain_id = 'adm_*' AND seq = 2"),
    "an administrative event is inserted": insert_an_admin_event,
    "a deputy is inserted": run(
        """UPDATE assent_routings SET deputies = '[["cid","ann"],["bob","ann"]]' WHERE breakpoint_id = :routed"""
    ),
    "an escalation is invented": run(
        """UPDATE assent_routings SET deputies = '[["cid","ann"],["bob",null]]' WHERE breakpoint_id = :routed"""
    ),
    "a deputy is removed": run("UPDATE assent_routings SET deputies = '[]' WHERE breakpoint_id = :routed"),
    "the deputies cannot be read": run("UPDATE assent_routings SET deputies = '[7' WHERE breakpoint_id = :sixth"),
    "a routing is deleted": run("DELETE FROM assent_routings WHERE breakpoint_id = :forgotten"),
    "a routing with a deputy is inserted": insert_a_routing,
    "an escalation target is exchanged": escalate_to("person:bob", name="second"),
    "a route without a name gains an escalation": escalate_to("person:bob", name="fifth", route_id=None),
    "the route of another gate is followed": follow("play", name="seventh"),
    "a disabled route is followed": follow("disabled", name="eighth"),
    "a deputy is named for a person": run(
        """UPDATE assent_preferences SET content = '{"away": {"deputy": "bob"}}' WHERE person_id = :ann"""
    ),
    "a person is made absent": insert_preferences,
    "the preferences of a person are deleted": run("DELETE FROM assent_preferences WHERE person_id = :cid"),
    "an expert is added": run("""UPDATE assent_breakpoints SET seats = '[["bob",[],false]]' WHERE id = :routed"""),
    "the requester is changed": run("UPDATE assent_breakpoints SET created_by_id = :bob WHERE id = :forgotten"),
    "a channel account is moved": run("UPDATE assent_links SET person_id = :bob"),
    "the mark of a reset is removed": run("UPDATE assent_people SET reset_by = NULL WHERE id = :gone"),
    "the consumer of a receipt is changed": run(
        "UPDATE assent_receipt_uses SET used_by = :forger WHERE breakpoint_id = :again"
    ),
    "a revoked receipt key is revived": run("UPDATE assent_receipt_keys SET revoked_at = NULL WHERE version = 1"),
    "a checkpoint is changed": move_a_checkpoint,
    "a checkpoint is deleted": run("DELETE FROM assent_checkpoints WHERE number = 1"),
    "a log entry is deleted": run("DELETE FROM assent_leaves WHERE position = 3"),
}


async def lived(node: Node) -> dict[str, str]:
    assent = node.assent
    people = {name: (await person(node, name, "reviewer")).id for name in ("bob", "cid", "gone")}
    used = await approved(node, comment="Yes.")
    ann = (await node.assent.database.read(lambda tx: tx[People].get_by_name("ann"))).id
    by_ann = ADMIN.__class__(kind=ADMIN.kind, id=ann, name="ann", project="default", roles=frozenset({Role.REVIEWER}))
    ids = people | {"ann": ann, "used": used}
    for name in ("unused", "third", "fourth", "again"):
        ids[name] = await create(node)
        await respond(node, ids[name], by_ann, comment="Yes.")
    await consume(node, await issue(node, used))
    await consume(node, await issue(node, ids["again"]))
    await rotate(node, revoke=True)
    ids["waiting"], ids["asked"] = await create(node), await create(node)
    ids["rule"] = (await assent.database.write(adding(node, "gate.*", "auto-approve"))).id
    write_ = assent.database.write
    people_service = assent[PeopleService]
    await write_(partial(people_service.put_policy, policy={"alwaysBreakOn": ["prod"]}, by=ADMIN))
    await write_(partial(people_service.put_group, name="ops", members=["ann"], by=ADMIN))
    await write_(partial(people_service.put_group, name="empty", members=[], by=ADMIN))
    closed = {"active": False, "email": "gone@example.org"}
    await write_(partial(people_service.change_person, name="gone", changes=closed, by=ADMIN))
    await write_(partial(people_service.link_identity, name="ann", issuer="https://id", subject="1", by=ADMIN))
    await write_(partial(assent[RetentionService].place, by=ADMIN, reason="Court", breakpoint_id=None))
    await write_(partial(assent[SecretService].rotate_callback_secret, project="default", by=ADMIN))
    for _ in range(3):
        await node.token("agent", gates=("a.*",))
    tokens = await assent.database.read(lambda tx: [each.id for each in tx[Tokens].every("default")])
    ids |= dict(zip(("token", "revoked", "other"), tokens[-3:], strict=True))
    await write_(partial(people_service.revoke_token, token_id=ids["revoked"], by=ADMIN))
    await write_(lambda tx: tx[Epochs].restored(backup="2026-01-01", now=1))
    await write_(assent[CheckpointService].make)
    ids["last"] = await create(node)
    ids |= await delegated(node, ids)
    await write_(assent[CheckpointService].make)
    return ids


async def delegated(node: Node, ids: Mapping[str, str]) -> dict[str, str]:
    """Create breakpoints with a route, and with a deputy for the absent expert."""
    mail = await channel(node, "mail", "email")
    await node.assent.database.write(
        lambda tx: tx[Links].link(mail, "ann@example.org", person_id=ids["ann"], by="person:ann", now=tx.now())
    )
    await route(node, "mail", escalate=[{"after": "1h", "to": ["person:cid"]}])
    lax = [{"after": "1h", "to": ["person:bob"]}]
    play = await route(node, "mail", pattern="play.*", escalate=lax)

    def add_disabled(tx: Transaction) -> str:
        stored = tx[Routes].get(play, project="default")
        new = replace(stored, id=tx.new_id("rte"), route=replace(stored.route, pattern="*"), enabled=False)
        tx[Routes].add(new)
        return new.id

    routes = {"play": play, "disabled": await node.assent.database.write(add_disabled)}
    await wishes(node, ids["ann"], away={"deputy": "cid"})
    await wishes(node, ids["cid"], channels=["mail"])
    names = ("routed", "forgotten", "second", "fifth", "sixth", "seventh", "eighth")
    routed = {name: await create(node, {"expert": "ann"}) for name in names}
    await settle(node)
    return routed | routes


async def found(settings: Settings) -> set[str]:
    async with resting(settings) as node:
        checks = await node[AuditService].check()
    return {f"{each.name} {finding}" for each in checks for finding in each.findings}


def test_every_edit_by_a_database_administrator_is_detected(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = settings.model_copy(update={"checkpoint_seconds": 0})

    async def live() -> dict[str, str]:
        async with running_node(quiet) as node:
            return await lived(node)

    ids = asyncio.run(live()) | {"forger": "person:eve"}
    before = asyncio.run(found(quiet))
    assert before == set()
    missed: list[str] = []
    for name, edit in EDITS.items():
        with unlocked(quiet) as opened:
            if quiet.database_url is None:
                opened.run("PRAGMA foreign_keys = OFF")
            edit(opened, ids)
        after = asyncio.run(found(quiet))
        if not after - before:
            missed.append(name)
        before = after
    with capsys.disabled():
        print(f"\n{len(EDITS) - len(missed)} of {len(EDITS)} edits found on {_database(quiet)}")  # noqa: T201
    assert not missed, missed
    assert len(EDITS) >= 24


def _database(settings: Settings) -> str:
    return "postgresql" if settings.database_url else "sqlite"


def test_a_forged_absence_is_detected_even_after_it_is_reverted(settings: Settings) -> None:
    quiet = settings.model_copy(update={"checkpoint_seconds": 0})

    async def live() -> str:
        async with running_node(quiet) as node:
            ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
            await channel(node, "mail", "email")
            await route(node, "mail")
            await wishes(node, ann.id, channels=["mail"])
            with raw(quiet) as opened:
                before = {"content": opened.one("assent_preferences", person_id=ann.id)["content"]}
                forged = {"content": '{"away": {"deputy": "bob"}}'}
                write(opened, "assent_preferences", {"person_id": ann.id}, forged)
                delegated_id = await create(node, {"expert": "ann"})
                await settle(node)
                write(opened, "assent_preferences", {"person_id": ann.id}, before)
            await respond(node, delegated_id, bob)
            return delegated_id

    breakpoint_id = asyncio.run(live())
    [what] = asyncio.run(found(quiet))
    assert breakpoint_id in what
    assert "ann's recorded preferences do not include an absence with bob as deputy" in what


def test_preferences_saved_without_an_event_are_reported_until_changed(settings: Settings) -> None:
    """docs/how-to/upgrade.md describes this for nodes that run an earlier version during a rolling update."""
    quiet = settings.model_copy(update={"checkpoint_seconds": 0})

    async def live() -> None:
        async with running_node(quiet) as node:
            ann = await person(node, "ann", "reviewer")

            async def reports() -> list[str]:
                checks = await node.assent[AuditService].check()
                return [each.name for each in checks if not each.holds]

            with raw(quiet) as opened:
                put(opened, "assent_preferences", {"person_id": ann.id, "content": "{}", "updated_at": 1})
            assert await reports() == ["I13"]
            await wishes(node, ann.id, channels=["mail"])
            assert await reports() == []
            await wishes(node, ann.id)
            assert await reports() == []

    asyncio.run(live())


def test_the_baseline_recorded_by_an_upgrade_does_not_hide_earlier_edits(settings: Settings) -> None:
    quiet = settings.model_copy(update={"checkpoint_seconds": 0})
    edits = ("a token is inserted", "a token's limits are widened", "a revoked token is revived", "a person is added")

    async def live() -> dict[str, str]:
        async with running_node(quiet) as node:
            return await lived(node)

    def upgrade(tx: Transaction) -> None:
        older = {"version": STATE_VERSION - 1, "kinds": sorted(KINDS)}
        tx[AdminLog].record(BASELINE, BASELINE, project=INSTALLATION, more=older)
        tx[AdminLog].baseline()

    async def upgraded() -> None:
        async with resting(quiet) as node:
            await node.database.write(upgrade)

    ids = asyncio.run(live()) | {"forger": "person:eve"}
    with unlocked(quiet) as opened:
        if quiet.database_url is None:
            opened.run("PRAGMA foreign_keys = OFF")
        for name in edits:
            EDITS[name](opened, ids)
    before = asyncio.run(found(quiet))
    asyncio.run(upgraded())

    assert len(before) >= len(edits)
    assert {each for each in before if each.startswith("I13")} <= asyncio.run(found(quiet))
