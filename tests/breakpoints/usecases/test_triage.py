"""Claiming, assigning and snoozing, none of which grants permissions."""

from functools import partial

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.audit.usecases.verify import AuditService
from assent.breakpoints.store.undo_window import Held
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.triage import Marks, TriageService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.access import Kind, Principal, Role
from assent.core.errors import AlreadyClaimed, AlreadyEnded, AssentError, Forbidden, InvalidRequest, NotFound
from assent.core.timestamps import SECOND
from assent.people.store.people import People
from tests.breakpoints.usecases.test_holding import hold
from tests.db.making import AGENT, create, person, respond, rows, stored
from tests.support.nodes import ManualClock, Node

HOUR = 3600 * SECOND


async def claim(node: Node, breakpoint_id: str, by: Principal) -> None:
    use_case = partial(node.assent[TriageService].claim, breakpoint_id=breakpoint_id, by=by)
    await node.assent.database.write(use_case, locks=breakpoint_id)


async def unclaim(node: Node, breakpoint_id: str, by: Principal) -> None:
    use_case = partial(node.assent[TriageService].unclaim, breakpoint_id=breakpoint_id, by=by)
    await node.assent.database.write(use_case, locks=breakpoint_id)


async def assign(node: Node, breakpoint_id: str, to: str, by: Principal) -> None:
    use_case = partial(node.assent[TriageService].assign, breakpoint_id=breakpoint_id, person=to, by=by)
    await node.assent.database.write(use_case, locks=breakpoint_id)


async def snooze(node: Node, breakpoint_id: str, until: int, by: Principal) -> None:
    use_case = partial(node.assent[TriageService].snooze, breakpoint_id=breakpoint_id, until=until, by=by)
    await node.assent.database.write(use_case)


async def marks(node: Node, breakpoint_id: str, by: Principal) -> Marks:
    use_case = partial(node.assent[TriageService].marks, breakpoint_ids=[breakpoint_id], person_id=by.id)
    return (await node.assent.database.read(use_case)).get(breakpoint_id, Marks())


async def history(node: Node, breakpoint_id: str) -> list[tuple[str, str, dict[str, object]]]:
    found = await node.assent[InboxService].history(breakpoint_id)
    return [(each.type, str(each.actor), dict(each.metadata)) for each in found[1:]]


async def test_a_claim_shows_its_owner_and_does_not_prevent_decisions(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    await claim(node, breakpoint_id, ann)
    await claim(node, breakpoint_id, ann)
    assert (await marks(node, breakpoint_id, bob)).claimed_by == "ann"
    for refused in (claim, unclaim):
        with pytest.raises(AlreadyClaimed) as conflict:
            await refused(node, breakpoint_id, bob)
        assert "ann" in conflict.value.message
        assert conflict.value.details == {"claimedBy": "ann"}
    assert await history(node, breakpoint_id) == [("claimed", "person:ann", {})]
    await respond(node, breakpoint_id, bob)
    assert (await stored(node, breakpoint_id)).decision == "approved"
    with pytest.raises(AlreadyEnded):
        await claim(node, breakpoint_id, bob)


async def test_an_unclaimed_breakpoint_can_be_claimed_again(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    await unclaim(node, breakpoint_id, ann)
    await claim(node, breakpoint_id, ann)
    await unclaim(node, breakpoint_id, ann)
    await claim(node, breakpoint_id, bob)
    assert [each[:2] for each in await history(node, breakpoint_id)] == [
        ("claimed", "person:ann"),
        ("unclaimed", "person:ann"),
        ("claimed", "person:bob"),
    ]


async def test_assigning_records_the_previous_and_new_assignee(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    await assign(node, breakpoint_id, "bob", ann)
    await assign(node, breakpoint_id, "bob", ann)
    await assign(node, breakpoint_id, "ann", ann)
    assert (await marks(node, breakpoint_id, bob)).claimed_by == "ann"
    assert await history(node, breakpoint_id) == [
        ("assigned", "person:ann", {"to": "bob"}),
        ("assigned", "person:ann", {"to": "ann", "from": "bob"}),
    ]


async def test_only_a_person_who_can_answer_can_be_assigned(node: Node) -> None:
    ann, maker = await person(node, "ann", "reviewer"), await person(node, "maker", "reviewer")
    for name, role in (("vic", "viewer"), ("adm", "admin"), ("bob", "reviewer")):
        await person(node, name, role)
    asked = await create(node, {"expert": "ann"})
    own = await create(node, by=maker)
    for breakpoint_id, name in ((asked, "bob"), (asked, "adm"), (asked, "vic"), (asked, "ghost"), (own, "maker")):
        with pytest.raises(InvalidRequest) as refused:
            await assign(node, breakpoint_id, name, ann)
        assert name in refused.value.message
    assert await rows(node, "SELECT 1 FROM assent_claims") == []
    await assign(node, own, "bob", ann)


async def test_a_claim_does_not_grant_permissions(node: Node) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node, {"expert": "ann"})
    with pytest.raises(Forbidden):
        await claim(node, breakpoint_id, bob)
    await claim(node, breakpoint_id, ann)
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, "default", [Role.VIEWER]))
    with pytest.raises(Forbidden):
        await respond(node, breakpoint_id, ann)


async def test_viewers_agents_and_outsiders_cannot_claim_assign_or_snooze(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    vic = await person(node, "vic", "viewer")
    gone = await person(node, "gone", "reviewer")
    await node.assent.database.write(lambda tx: tx[People].grant(gone.id, "default", []))
    breakpoint_id = await create(node)
    for who in (vic, AGENT, gone, Principal(kind=Kind.SERVICE, id="tok_s", name="s", project="default")):
        for attempt in (
            claim(node, breakpoint_id, who),
            unclaim(node, breakpoint_id, who),
            assign(node, breakpoint_id, "ann", who),
            snooze(node, breakpoint_id, clock.now() + HOUR, who),
        ):
            with pytest.raises(Forbidden):
                await attempt
    stranger = Principal(kind=Kind.PERSON, id=gone.id, name="gone", project="other", roles=frozenset({Role.REVIEWER}))
    for attempt in (claim(node, breakpoint_id, stranger), assign(node, breakpoint_id, "ann", stranger)):
        with pytest.raises(AssentError):
            await attempt
    assert await history(node, breakpoint_id) == []


async def test_a_snooze_affects_only_the_person_who_set_it_and_ends_automatically(
    node: Node, clock: ManualClock
) -> None:
    ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
    breakpoint_id = await create(node)
    until = clock.now() + HOUR
    await snooze(node, breakpoint_id, clock.now() + 1, ann)
    await snooze(node, breakpoint_id, until, ann)
    assert await marks(node, breakpoint_id, ann) == Marks(snoozed_until=until)
    assert await marks(node, breakpoint_id, bob) == Marks()
    assert await history(node, breakpoint_id) == []
    wake = partial(node.assent[TriageService].wake, breakpoint_id=breakpoint_id, by=ann)
    await node.assent.database.write(wake)
    await node.assent.database.write(wake)
    assert await marks(node, breakpoint_id, ann) == Marks()
    await snooze(node, breakpoint_id, until, ann)
    clock.advance(3600)
    assert await marks(node, breakpoint_id, ann) == Marks()
    await snooze(node, await create(node), clock.now() + HOUR, ann)
    assert len(await rows(node, "SELECT 1 FROM assent_snoozes")) == 1, "expired snoozes are deleted"


async def test_a_snooze_cannot_exceed_the_deadline_or_a_year(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id, mortal = await create(node), await create(node, ttlSeconds=3600)
    for which, until in (
        (breakpoint_id, clock.now()),
        (breakpoint_id, clock.now() + 367 * 24 * HOUR),
        (mortal, clock.now() + HOUR),
    ):
        with pytest.raises(InvalidRequest):
            await snooze(node, which, until, ann)
    with pytest.raises(NotFound):
        await snooze(node, "bp_none", clock.now() + HOUR, ann)
    await snooze(node, mortal, clock.now() + HOUR - 1, ann)
    await respond(node, breakpoint_id, ann)
    with pytest.raises(AlreadyEnded):
        await snooze(node, breakpoint_id, clock.now() + HOUR, ann)


async def test_marks_for_a_list_contain_only_marked_breakpoints(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    ids = [await create(node) for _ in range(3)]
    await claim(node, ids[0], ann)
    await snooze(node, ids[0], clock.now() + HOUR, ann)
    held = await hold(node, ids[1], ann)
    use_case = partial(node.assent[TriageService].marks, breakpoint_ids=ids, person_id=ann.id)
    found = await node.assent.database.read(use_case)
    assert isinstance(held, Held)
    assert found == {ids[0]: Marks("ann", clock.now() + HOUR), ids[1]: Marks(held=held)}
    assert await node.assent.database.read(partial(use_case, breakpoint_ids=[])) == {}


async def test_claims_and_snoozes_neither_wake_nor_notify_agents(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await person(node, "bob", "reviewer")
    breakpoint_id = await create(node, callbackUrl="https://hooks.example/x")
    waiter = node.assent.hub.register(breakpoint_id, "tok_y")
    inbox = node.assent.hub.open_inbox("default", "tok_x")
    await claim(node, breakpoint_id, ann)
    await assign(node, breakpoint_id, "bob", ann)
    await snooze(node, breakpoint_id, clock.now() + HOUR, ann)
    await inbox.ready.wait()
    assert not waiter.future.done()
    assert await rows(node, "SELECT type FROM assent_deliveries") == [("created",)]
    node.assent.hub.remove(waiter)
    node.assent.hub.close_inbox(inbox)


async def test_purging_deletes_claims_and_snoozes(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    breakpoint_id = await create(node)
    await claim(node, breakpoint_id, ann)
    await snooze(node, breakpoint_id, clock.now() + HOUR, ann)
    await respond(node, breakpoint_id, ann)
    await node.call("PUT", "/api/policy", await node.token("admin"), json={"retentionDays": 1})
    clock.advance(2 * 24 * 3600)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    assert [each.type for each in await node.assent[InboxService].history(breakpoint_id)][-1] == "purged"
    assert (
        await rows(node, "SELECT breakpoint_id FROM assent_claims UNION ALL SELECT breakpoint_id FROM assent_snoozes")
        == []
    )


async def test_the_audit_accepts_claims_and_pending_answers(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await person(node, "bob", "reviewer")
    ids = [await create(node) for _ in range(3)]
    for each in ids:
        await claim(node, each, ann)
        await assign(node, each, "bob", ann)
        await hold(node, each, ann)
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, "default", []))
    clock.advance(6)
    while await node.assent.database.write(node.assent[HoldingService].commit_due):
        pass
    checks = await node.assent[AuditService].check()
    assert [each for check in checks for each in check.findings] == []
