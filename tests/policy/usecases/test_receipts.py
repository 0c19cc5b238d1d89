"""Receipts on real databases: one nonce per approval, one key for all nodes, and a single use."""

import asyncio
import base64
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.access import Kind, Principal, Role
from assent.core.errors import (
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidReceipt,
    NoReceipt,
    NotFound,
    ReceiptExpired,
    ReceiptMismatch,
    ReceiptUsed,
    Unavailable,
)
from assent.core.receipts import Receipt, Use, check, public_key, sign
from assent.installation import key_file
from assent.kernel.settings import Settings
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import PeopleService
from assent.people.usecases.secrets import SecretService
from assent.policy.store.receipts import Receipts, StoredKey
from assent.policy.usecases.receipts import ReceiptService, trusted
from tests.db.making import AGENT, adding, create, person, respond, rows
from tests.support.nodes import ManualClock, Node, running_node

HOUR = 3600
ADMIN = Principal(kind=Kind.PERSON, id="per_o", name="owner", project="default", roles=frozenset({Role.ADMIN}))
OTHER_AGENT = replace(AGENT, id="tok_other", name="deployer", agent_ids=("deployer",))
DEPLOYER = {"consumer": "deployer"}


async def issue(node: Node, breakpoint_id: str, by: Principal = AGENT) -> Receipt:
    return await node.assent.database.write(
        partial(node.assent[ReceiptService].issue, breakpoint_id=breakpoint_id, by=by)
    )


async def consume(node: Node, receipt: Receipt, by: Principal = AGENT, once: Once | None = None) -> Use:
    use_case = partial(node.assent[ReceiptService].consume, receipt=receipt, by=by, once=once)
    return await node.assent.database.write(use_case, locks=receipt.approval.breakpoint_id)


async def keys(node: Node, by: Principal = AGENT) -> list[StoredKey]:
    return await node.assent.database.write(partial(node.assent[ReceiptService].keys, by=by))


async def rotate(node: Node, *, revoke: bool = False, by: Principal = ADMIN) -> list[StoredKey]:
    return await node.assent.database.write(partial(node.assent[ReceiptService].rotate, by=by, revoke=revoke))


async def approved(node: Node, payload: dict[str, Any] | None = None, name: str = "ann", **answer: Any) -> str:
    ann = await person(node, name, "reviewer")
    breakpoint_id = await create(node, payload)
    await respond(node, breakpoint_id, ann, **answer)
    return breakpoint_id


async def test_an_approval_by_a_person_has_a_valid_receipt(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node, {"editable": ["size"], "options": ["a", "b"]}, option="a", edits={"size": 1.5})
    receipt = await issue(node, breakpoint_id)
    stored = await node.assent.database.read(lambda tx: tx[Breakpoints].look(breakpoint_id, project="default"))

    check(receipt, trusted(await keys(node)), now=clock.now(), digest=stored.digest, agent_id="agent-1")
    told = receipt.approval
    assert [(each.by, each.via) for each in told.approvers] == [("person:ann", "api")]
    assert (told.digest, told.event, told.gate) == (stored.digest, stored.head, stored.gate)
    assert (told.option, told.edits) == ("a", {"size": 1.5})
    assert receipt.expires_at == told.decided_at + HOUR * 1_000_000


async def test_an_approval_by_a_rule_has_a_receipt_that_names_the_rule(node: Node, clock: ManualClock) -> None:
    rule = await node.assent.database.write(adding(node, "routine.*"))
    breakpoint_id = await create(node, {"breakpointId": "routine.check"})
    receipt = await issue(node, breakpoint_id)

    check(receipt, trusted(await keys(node)), now=clock.now())
    assert [(each.by, each.via) for each in receipt.approval.approvers] == [(f"rule:{rule.id}", "rule")]


async def test_a_quorum_receipt_lists_only_the_approvers(node: Node) -> None:
    people = [await person(node, name, "reviewer") for name in ("ann", "bob", "cem")]
    breakpoint_id = await create(node, {"expert": ["ann", "bob", "cem"], "strategy": "quorum"})
    for each, yes in zip(people, (True, False, True), strict=True):
        await respond(node, breakpoint_id, each, approved=yes)

    told = (await issue(node, breakpoint_id)).approval
    assert {(each.by, each.expert) for each in told.approvers} == {("person:ann", "ann"), ("person:cem", "cem")}


async def test_all_receipts_for_an_approval_have_the_same_nonce(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node)
    first = await issue(node, breakpoint_id)
    clock.advance(5)
    second = await issue(node, breakpoint_id)

    assert first.approval == second.approval
    assert first.issued_at < second.issued_at
    assert (await issue(node, await approved(node, name="bob"))).approval.nonce != first.approval.nonce


@pytest.mark.parametrize("end", ["waiting", "rejected", "expired", "cancelled", "timed out"])
async def test_only_an_approval_has_a_receipt(node: Node, clock: ManualClock, end: str) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node, ttlSeconds=60, onTimeout="reject" if end == "timed out" else "expire")
    if end == "rejected":
        await respond(node, breakpoint_id, ann, approved=False)
    elif end == "cancelled":
        use_case = partial(node.assent[BreakpointService].cancel, breakpoint_id=breakpoint_id, by=AGENT)
        await node.assent.database.write(use_case)
    elif end != "waiting":
        clock.advance(61)
        await node.assent.database.write(node.assent[BreakpointService].time_out_due)

    with pytest.raises(NoReceipt, match="Only approved breakpoints"):
        await issue(node, breakpoint_id)


async def test_a_purged_breakpoint_has_no_receipt_and_invalidates_earlier_ones(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node)
    receipt = await issue(node, breakpoint_id)
    policy = partial(node.assent[PeopleService].put_policy, policy={"retentionDays": 1}, by=ADMIN)
    await node.assent.database.write(policy)
    clock.advance(2 * 24 * HOUR)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    clock.advance(-2 * 24 * HOUR)

    for attempt in (issue(node, breakpoint_id), consume(node, receipt)):
        with pytest.raises(NoReceipt, match="purged"):
            await attempt


async def test_a_receipt_expires_after_the_configured_time(sqlite_settings: Settings, clock: ManualClock) -> None:
    settings = sqlite_settings.model_copy(update={"receipt_seconds": 5})
    async with running_node(settings, clock=clock) as node:
        breakpoint_id = await approved(node)
        receipt = await issue(node, breakpoint_id)
        clock.advance(4.999999)
        check(await issue(node, breakpoint_id), trusted(await keys(node)), now=clock.now())
        clock.advance(0.000001)
        for attempt in (issue(node, breakpoint_id), consume(node, receipt)):
            with pytest.raises(ReceiptExpired):
                await attempt
        assert await rows(node, "SELECT * FROM assent_receipt_uses") == []


async def test_only_callers_who_can_see_a_breakpoint_get_its_receipt(node: Node) -> None:
    breakpoint_id = await approved(node)
    viewer = replace(ADMIN, roles=frozenset({Role.VIEWER}))

    assert (await issue(node, breakpoint_id, viewer)).approval == (await issue(node, breakpoint_id)).approval
    for stranger in (OTHER_AGENT, replace(AGENT, project="shop"), replace(ADMIN, project="shop")):
        with pytest.raises(NotFound):
            await issue(node, breakpoint_id, stranger)
    with pytest.raises(Forbidden):
        await issue(node, breakpoint_id, Principal(kind=Kind.SERVICE, id="s", name="s", project="default"))


async def test_a_receipt_can_be_used_once_and_then_names_its_consumer(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node, DEPLOYER)
    receipt = await issue(node, breakpoint_id)
    use = await consume(node, receipt, OTHER_AGENT)
    clock.advance(1)

    assert use == Use(clock.now() - 1_000_000, "agent:deployer")
    for again in (receipt, await issue(node, breakpoint_id)):
        with pytest.raises(ReceiptUsed, match="agent:deployer") as refused:
            await consume(node, again)
        assert refused.value.details["usedBy"] == "agent:deployer"
    shown = await issue(node, breakpoint_id)
    assert shown.used == use
    with pytest.raises(ReceiptUsed):
        check(shown, trusted(await keys(node)), now=clock.now())


async def test_exactly_one_of_many_concurrent_uses_of_a_receipt_succeeds(settings: Settings) -> None:
    async with running_node(settings) as one, running_node(settings) as two:
        for n in range(10):
            breakpoint_id = await approved(one, name=f"ann{n}")
            receipts = [await issue(node, breakpoint_id) for node in (one, two)]
            attempts = [consume(node, each) for node in (one, two) for each in receipts for _ in range(4)]
            found = await asyncio.gather(*attempts, return_exceptions=True)

            assert sum(isinstance(each, Use) for each in found) == 1
            assert sum(isinstance(each, ReceiptUsed) for each in found) == len(found) - 1
            counted = await rows(
                one, "SELECT count(*) FROM assent_receipt_uses WHERE breakpoint_id = :id", id=breakpoint_id
            )
            assert counted == [(1,)]


async def test_a_retried_request_counts_as_the_same_use_of_a_receipt(node: Node, clock: ManualClock) -> None:
    receipt = await issue(node, await approved(node, DEPLOYER))
    once = Once("k", "f")
    first = await consume(node, receipt, once=once)
    clock.advance(HOUR)

    assert await consume(node, receipt, once=once) == first
    with pytest.raises(IdempotencyMismatch):
        await consume(node, receipt, once=Once("k", "another body"))
    with pytest.raises((ReceiptUsed, ReceiptExpired)):
        await consume(node, receipt, OTHER_AGENT, once=once)


async def test_a_rejected_use_of_a_receipt_stores_nothing(node: Node) -> None:
    receipt = await issue(node, await approved(node))
    once = Once("k", "f")
    with pytest.raises(InvalidReceipt):
        await consume(node, replace(receipt, signature=bytes(64)), once=once)

    assert await rows(node, "SELECT * FROM assent_receipt_uses") == []
    assert await rows(node, "SELECT * FROM assent_idempotency") == []
    await consume(node, receipt, once=once)


async def test_a_token_without_access_to_a_gate_cannot_use_its_receipts(node: Node) -> None:
    receipt = await issue(node, await approved(node, DEPLOYER | {"breakpointId": "deploy.production"}))
    viewer = replace(ADMIN, roles=frozenset({Role.VIEWER}))
    for who in (viewer, replace(OTHER_AGENT, gates=("deploy.staging",))):
        with pytest.raises(Forbidden):
            await consume(node, receipt, who)
    await consume(node, receipt, replace(OTHER_AGENT, gates=("deploy.*",), agent_ids=("deployer",)))


@pytest.mark.parametrize(
    ("bound", "consumer", "counts"),
    [
        (("*",), None, False),
        (("*",), "*", False),
        (("**",), None, False),
        (("*", "agent-1"), None, False),
        (("agent-1",), None, True),
        (("agent-*",), None, True),
        (("deployer",), None, False),
        (("deployer",), "deployer", True),
        (("deployer",), "deploy*", True),
        (("deploy*",), "deployer", True),
        (("deploy-eu-*",), "deploy-*", True),
        (("deploy-*",), "deploy-eu-*", False),
        (("builder", "deployer"), "deployer", True),
        (("deployer",), "build*", False),
    ],
)
async def test_only_the_requesting_agent_or_the_named_consumer_can_use_a_receipt(
    node: Node, bound: tuple[str, ...], consumer: str | None, *, counts: bool
) -> None:
    breakpoint_id = await approved(node, {"consumer": consumer} if consumer else None)
    receipt = await issue(node, breakpoint_id)
    other = replace(AGENT, id="tok_other", name="other", agent_ids=bound)

    if counts:
        assert (await consume(node, receipt, other)).by == "agent:other"
        return
    with pytest.raises(Forbidden, match="Only the agent that created the breakpoint"):
        await consume(node, receipt, other)
    assert (await consume(node, receipt)).by == "agent:maker"


async def test_a_person_cannot_use_an_agents_receipt(node: Node) -> None:
    receipt = await issue(node, await approved(node))
    with pytest.raises(Forbidden, match="Only the agent that created the breakpoint"):
        await consume(node, receipt, ADMIN)


async def test_a_receipt_from_another_project_is_not_trusted(node: Node) -> None:
    await node.assent.database.write(lambda tx: tx[Projects].add(Project("shop", "shop", None, {}, tx.now())))
    receipt = await issue(node, await approved(node))
    neighbour = replace(AGENT, project="shop")

    ours, theirs = await keys(node), await keys(node, neighbour)
    assert ours[0].key_id != theirs[0].key_id
    with pytest.raises(InvalidReceipt, match="is not trusted"):
        await consume(node, receipt, neighbour)


async def seed_of(node: Node) -> bytes:
    def use_case(tx: Any) -> bytes:
        return node.assent[ReceiptService]._seed(tx, tx[Receipts].keys("default")[0])

    return await node.assent.database.read(use_case)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"gate": "another"},
        {"agent_id": "another"},
        {"edits": {"size": 9}},
        {"option": "b"},
        {"event": "0" * 64},
        {"nonce": "0" * 64},
        {"decided_at": 1},
        {"breakpoint_id": "bp_" + "0" * 26},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_even_a_signed_receipt_must_match_its_breakpoint(node: Node, change: dict[str, Any]) -> None:
    receipt = await issue(node, await approved(node))
    forged = sign(replace(receipt, approval=replace(receipt.approval, **change)), await seed_of(node))

    with pytest.raises((ReceiptMismatch, NotFound)):
        await consume(node, forged)
    assert await rows(node, "SELECT * FROM assent_receipt_uses") == []


async def test_a_signed_receipt_for_a_rejected_breakpoint_is_invalid(node: Node) -> None:
    receipt = await issue(node, await approved(node))
    bob = await person(node, "bob", "reviewer")
    rejected = await create(node)
    await respond(node, rejected, bob, approved=False)
    forged = sign(replace(receipt, approval=replace(receipt.approval, breakpoint_id=rejected)), await seed_of(node))

    with pytest.raises(NoReceipt, match="rejected"):
        await consume(node, forged)


async def test_nodes_creating_the_first_key_concurrently_get_the_same_key(settings: Settings) -> None:
    async with running_node(settings) as one, running_node(settings) as two:
        found = await asyncio.gather(*(keys(node) for node in (one, two) * 10))
        breakpoint_id = await approved(one)
        check(await issue(two, breakpoint_id), trusted(found[0]), now=two.assent.clock.now())
    assert len({each[0].key_id for each in found}) == 1
    assert {len(each) for each in found} == {1}


async def test_earlier_receipts_stay_valid_after_a_rotation(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node)
    before = await issue(node, breakpoint_id)
    new, old = await rotate(node)
    after = await issue(node, breakpoint_id)

    assert [(each.version, each.state) for each in (new, old)] == [(2, "current"), (1, "retired")]
    assert (before.key_id, after.key_id) == (old.key_id, new.key_id)
    for receipt in (before, after):
        check(receipt, trusted(await keys(node)), now=clock.now())
    await consume(node, before)
    with pytest.raises(ReceiptUsed):
        await consume(node, replace(after, used=None))


async def test_receipts_signed_with_a_revoked_key_are_invalid(node: Node) -> None:
    breakpoint_id = await approved(node)
    before = await issue(node, breakpoint_id)
    assert [each.state for each in await rotate(node, revoke=True)] == ["current", "revoked"]

    with pytest.raises(InvalidReceipt, match="is not trusted"):
        await consume(node, before)
    await consume(node, await issue(node, breakpoint_id))


async def test_concurrent_rotations_leave_one_current_key_and_no_gap(settings: Settings) -> None:
    async with running_node(settings) as one, running_node(settings) as two:
        await keys(one)
        found = await asyncio.gather(*(rotate(node) for node in (one, two) * 5), return_exceptions=True)
        listed = await keys(one)
        await issue(one, await approved(one))
    done = [each for each in found if not isinstance(each, BaseException)]
    assert all(isinstance(each, list | Conflict) for each in found)
    assert [each.version for each in listed] == list(range(len(done) + 1, 0, -1))
    assert [each.state for each in listed] == ["current", *["retired"] * len(done)]


async def test_only_admins_can_rotate_keys(node: Node) -> None:
    for who in (AGENT, replace(ADMIN, roles=frozenset({Role.REVIEWER}))):
        with pytest.raises(Forbidden):
            await rotate(node, by=who)


async def test_postgresql_without_secret_keys_signs_nothing_and_names_the_missing_setting(
    postgres_settings: Settings,
) -> None:
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as node:
        breakpoint_id = await approved(node)
        for attempt in (issue(node, breakpoint_id), keys(node), rotate(node)):
            with pytest.raises(Unavailable, match="ASSENT_SECRET_KEYS"):
                await attempt
        assert await rows(node, "SELECT * FROM assent_receipt_keys") == []


async def test_nothing_is_signed_if_the_public_key_does_not_match_its_secret_key(node: Node) -> None:
    """Otherwise, a person who can write to the database could insert their own key and have receipts issued for it."""
    breakpoint_id = await approved(node)
    await keys(node)
    other = public_key(bytes(32))
    forge = (
        "INSERT INTO assent_receipt_keys VALUES ('default', 2, 'rkey_0000000000000000', :public, 1, 'eve', NULL, NULL)"
    )
    params = {"public": base64.b64encode(other).decode()}
    await node.assent.database.write(lambda tx: tx.session.write(forge, [params]))

    with pytest.raises(Unavailable, match="does not match its public key"):
        await issue(node, breakpoint_id)


async def test_rotating_the_encryption_key_also_reencrypts_the_signing_key(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        breakpoint_id = await approved(node)
        before = await issue(node, breakpoint_id)
        key_file(sqlite_settings).add_newest()
        done = await node.assent.database.write(node.assent[SecretService].rotate_key)

        assert done.resealed == 1
        assert (await issue(node, breakpoint_id)).key_id == before.key_id
