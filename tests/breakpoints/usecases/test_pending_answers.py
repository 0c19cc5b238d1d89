"""Several reviewers during an undo window: all see the pending answer, rejections win, and no reason is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.pages.unsent import unsent_notices
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.undo_window import PendingAnswer, UnsentAnswer
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.breakpoints.usecases.triage import TriageService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.access import Principal
from assent.core.breakpoint import Status
from assent.core.errors import AlreadyEnded, RejectionPending
from assent.core.timestamps import LAST, SECOND
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from tests.breakpoints.usecases.test_holding import closed, give_due, hold, kinds, lost_role, take_back
from tests.db.making import AGENT, create, person, respond, rows, stored
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until

REASON = "Not on a Friday."
VOTE = {"expert": ["ann", "bea", "cy"]}


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    async with running_node(settings.model_copy(update={"undo_seconds": 6}), clock=clock) as running:
        yield running


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


@pytest.fixture
async def bea(node: Node) -> Principal:
    return await person(node, "bea", "reviewer")


@pytest.fixture
async def cy(node: Node) -> Principal:
    return await person(node, "cy", "reviewer")


async def unsent(node: Node, who: Principal) -> list[UnsentAnswer]:
    return await node.assent.database.read(partial(node.assent[HoldingService].unsent, by=who))


async def comments(node: Node, breakpoint_id: str) -> list[tuple[str, str]]:
    found = await node.assent.database.read(lambda tx: tx[Breakpoints].comments(breakpoint_id))
    return [(each.author, each.comment) for each in found]


async def responses(node: Node, breakpoint_id: str) -> list[tuple[str, bool]]:
    found = await node.assent.database.read(lambda tx: tx[Breakpoints].responses(breakpoint_id))
    return [(each.person, each.approved) for each in found]


async def pending(node: Node, breakpoint_id: str, by: Principal) -> tuple[PendingAnswer, ...]:
    marks = await node.assent.database.read(
        partial(node.assent[TriageService].marks, breakpoint_ids=[breakpoint_id], person_id=by.id)
    )
    return marks[breakpoint_id].pending if breakpoint_id in marks else ()


async def test_other_reviewers_see_a_pending_answer_and_its_author_does_not_see_it_twice(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    assert await pending(node, breakpoint_id, bea) == (PendingAnswer("ann", True, clock.now() + 6 * SECOND),)
    assert await pending(node, breakpoint_id, ann) == ()
    await take_back(node, breakpoint_id, ann)
    assert await pending(node, breakpoint_id, bea) == ()


async def test_the_api_shows_pending_answers_to_people_and_not_to_agents(node: Node, ann: Principal) -> None:
    created = await node.create()
    path = f"/api/breakpoints/{created['id']}"
    reviewer, agent = await node.person("rae", "reviewer"), await node.token("agent")
    assert "pendingAnswers" not in (await node.call("GET", path, reviewer)).json()
    found = await hold(node, created["id"], ann)
    assert found is not None
    body = (await node.call("GET", path, reviewer)).json()
    assert [(each["by"], each["approved"]) for each in body["pendingAnswers"]] == [("ann", True)]
    assert "pendingAnswers" not in (await node.call("GET", path, agent)).json()
    await take_back(node, created["id"], ann)
    assert "pendingAnswers" not in (await node.call("GET", path, reviewer)).json()


async def test_a_rejection_during_a_pending_approval_takes_effect_immediately(
    node: Node, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, comment="Looks fine.")
    assert await hold(node, breakpoint_id, bea, approved=False, comment=REASON) is None
    ended = await stored(node, breakpoint_id)
    assert (ended.decision, str(ended.ended_by)) == ("rejected", "person:bea")
    assert await responses(node, breakpoint_id) == [("bea", False)]
    assert sorted(await comments(node, breakpoint_id)) == [("person:ann", "Looks fine."), ("person:bea", REASON)]
    assert await kinds(node, breakpoint_id) == ["created", "responded", "answer-dropped", "commented", "released"]
    [told] = await unsent(node, ann)
    assert (told.breakpoint_id, told.approved, told.comment, told.why) == (
        breakpoint_id,
        True,
        "Looks fine.",
        "bea rejected the breakpoint.",
    )
    assert await unsent(node, bea) == []
    assert await rows(node, "SELECT 1 FROM assent_held_answers") == []


async def test_a_notice_can_be_dismissed_only_by_its_recipient(node: Node, ann: Principal, bea: Principal) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    await hold(node, breakpoint_id, bea, approved=False, comment=REASON)
    [told] = await unsent(node, ann)
    dismiss = node.assent[HoldingService].dismiss
    await node.assent.database.write(partial(dismiss, unsent_id=told.id, by=bea))
    assert await unsent(node, ann) == [told]
    for _ in range(2):
        await node.assent.database.write(partial(dismiss, unsent_id=told.id, by=ann))
    assert await unsent(node, ann) == []


async def test_a_second_approval_is_recorded_as_a_response(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, comment="Ship it.")
    clock.advance(1)
    assert await hold(node, breakpoint_id, bea, comment="Agreed.") is not None
    clock.advance(5)
    await give_due(node)
    ended = await stored(node, breakpoint_id)
    assert (ended.decision, str(ended.ended_by)) == ("approved", "person:ann")
    assert sorted(await responses(node, breakpoint_id)) == [("ann", True), ("bea", True)]
    assert ended.result is not None
    assert ended.result["respondedBy"] == "ann"
    assert ended.result["feedback"] == "ann: Ship it.\n\nbea: Agreed."
    assert await kinds(node, breakpoint_id) == ["created", "responded", "responded", "released"]
    assert await unsent(node, ann) + await unsent(node, bea) == []


async def test_the_second_approval_stays_pending_when_the_first_is_undone(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    clock.advance(1)
    await hold(node, breakpoint_id, bea)
    await take_back(node, breakpoint_id, ann)
    clock.advance(5)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
    clock.advance(1)
    await give_due(node)
    assert await responses(node, breakpoint_id) == [("bea", True)]


async def test_an_approval_cannot_overtake_a_pending_rejection(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    root = await person(node, "root", "admin")
    await hold(node, breakpoint_id, ann, approved=False, comment=REASON)
    clock.advance(2)
    for answering in (
        hold(node, breakpoint_id, bea),
        respond(node, breakpoint_id, bea),
        hold(node, breakpoint_id, root),
    ):
        with pytest.raises(RejectionPending) as refused:
            await answering
        assert refused.value.message == (
            "ann is rejecting this. The rejection takes effect in 4 s unless ann undoes it."
        )
    clock.advance(4)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).decision == "rejected"
    assert await comments(node, breakpoint_id) == [("person:ann", REASON)]


async def test_an_approval_is_possible_again_after_the_rejection_is_undone(
    node: Node, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, approved=False, comment=REASON)
    await take_back(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, bea)
    assert (await stored(node, breakpoint_id)).decision == "approved"


async def cancelled(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del clock, bea
    cancel = partial(node.assent[BreakpointService].cancel, breakpoint_id=breakpoint_id, by=AGENT)
    await node.assent.database.write(cancel)


async def expired_by_admin(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del clock, bea
    root = await person(node, "root", "admin")
    expire = partial(node.assent[BreakpointService].expire, breakpoint_id=breakpoint_id, by=root)
    await node.assent.database.write(expire)


async def expired_by_sweep(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del bea
    clock.advance(60)

    async def status() -> Status:
        await node.assent.database.write(node.assent[BreakpointService].time_out_due, locks=LAST)
        return (await stored(node, breakpoint_id)).status

    await until(status, lambda found: found is Status.EXPIRED)


async def expired_by_reader(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    clock.advance(60)
    assert (await node.assent[InboxService].whole(breakpoint_id, bea)).status == "expired"


async def expired_when_due(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del breakpoint_id, bea
    clock.advance(60)
    await give_due(node)


async def rejected_by_api(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del clock
    await respond(node, breakpoint_id, bea, approved=False)


async def rejected_on_a_page(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del clock
    await hold(node, breakpoint_id, bea, approved=False)


async def overridden(node: Node, breakpoint_id: str, clock: ManualClock, bea: Principal) -> None:
    del clock, bea
    root = await person(node, "root", "admin")
    await respond(node, breakpoint_id, root, approved=False)


Ending = Callable[[Node, str, ManualClock, Principal], Awaitable[None]]


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (cancelled, "maker cancelled the breakpoint."),
        (expired_by_admin, "root expired the breakpoint."),
        (expired_by_sweep, "The deadline passed."),
        (expired_by_reader, "The deadline passed."),
        (expired_when_due, "The deadline passed."),
        (rejected_by_api, "bea rejected the breakpoint."),
        (rejected_on_a_page, "bea rejected the breakpoint."),
        (overridden, "root rejected the breakpoint."),
    ],
)
async def test_any_ending_notifies_the_losing_reviewer_and_keeps_the_reason(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal, ending: Ending, why: str
) -> None:
    breakpoint_id = await create(node, ttlSeconds=30)
    await hold(node, breakpoint_id, ann, comment=REASON)
    await ending(node, breakpoint_id, clock, bea)
    await until(lambda: rows(node, "SELECT 1 FROM assent_held_answers"), lambda left: not left)
    assert (await stored(node, breakpoint_id)).status is not Status.WAITING
    assert [(each.why, each.comment) for each in await unsent(node, ann)] == [(why, REASON)]
    assert ("person:ann", REASON) in await comments(node, breakpoint_id)
    found = await kinds(node, breakpoint_id)
    assert found[-3:-1] == ["answer-dropped", "commented"]


@pytest.mark.parametrize("happens", [lost_role, closed])
async def test_an_answer_whose_author_lost_access_keeps_its_reason(
    node: Node, clock: ManualClock, ann: Principal, happens: Any
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, approved=False, comment=REASON)
    await happens(node, ann)
    clock.advance(6)
    await give_due(node)
    assert (await stored(node, breakpoint_id)).status is Status.WAITING
    assert await comments(node, breakpoint_id) == [("person:ann", REASON)]
    assert [(each.approved, each.comment) for each in await unsent(node, ann)] == [(False, REASON)]


async def test_answering_elsewhere_keeps_the_reason_typed_on_the_page(node: Node, ann: Principal) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann, comment=REASON)
    await respond(node, breakpoint_id, ann, approved=False, comment="No.")
    assert (await stored(node, breakpoint_id)).decision == "rejected"
    assert sorted(await comments(node, breakpoint_id)) == [("person:ann", "No."), ("person:ann", REASON)]
    [told] = await unsent(node, ann)
    assert told.why == "ann submitted another answer (api)."


async def test_an_answer_stored_by_an_older_version_still_creates_a_notice(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id, other = await create(node), await create(node)
    await hold(node, breakpoint_id, ann, comment=REASON)
    await respond(node, other, bea)

    def leave(tx: Transaction) -> None:
        tx.session.write(
            "UPDATE assent_held_answers SET breakpoint_id = :other WHERE breakpoint_id = :id",
            [{"id": breakpoint_id, "other": other}],
        )

    await node.assent.database.write(leave)
    clock.advance(6)
    await give_due(node)
    [told] = await unsent(node, ann)
    assert (told.breakpoint_id, told.comment) == (other, REASON)
    assert "approved by person:bea" in told.why


@pytest.mark.parametrize("strategy", ["quorum", "collect-all"])
async def test_pending_votes_are_recorded_when_other_votes_decide(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal, cy: Principal, strategy: str
) -> None:
    breakpoint_id = await create(node, VOTE | {"strategy": strategy})
    await respond(node, breakpoint_id, bea)
    await hold(node, breakpoint_id, ann, approved=False, comment=REASON)
    clock.advance(1)
    await respond(node, breakpoint_id, cy)
    clock.advance(5)
    await give_due(node)
    ended = await stored(node, breakpoint_id)
    assert ended.decision == ("approved" if strategy == "quorum" else "rejected")
    assert sorted(await responses(node, breakpoint_id)) == [("ann", False), ("bea", True), ("cy", True)]
    assert ("person:ann", REASON) in await comments(node, breakpoint_id)
    assert await unsent(node, ann) == []


async def test_a_pending_vote_change_takes_effect_before_an_approval(
    node: Node, ann: Principal, bea: Principal, cy: Principal
) -> None:
    breakpoint_id = await create(node, VOTE | {"strategy": "collect-all"})
    await respond(node, breakpoint_id, ann)
    await respond(node, breakpoint_id, bea)
    await hold(node, breakpoint_id, ann, approved=False, comment=REASON)
    await respond(node, breakpoint_id, cy)
    ended = await stored(node, breakpoint_id)
    assert (ended.decision, str(ended.ended_by)) == ("rejected", "person:ann")
    assert ended.result is not None
    assert ended.result["respondedBy"] == "ann"


async def test_a_pending_change_to_approval_does_not_revert_a_rejection(
    node: Node, ann: Principal, bea: Principal, cy: Principal
) -> None:
    breakpoint_id = await create(node, VOTE | {"strategy": "collect-all"})
    await respond(node, breakpoint_id, ann, approved=False)
    await respond(node, breakpoint_id, bea)
    await hold(node, breakpoint_id, ann, comment="Fine after all.")
    await respond(node, breakpoint_id, cy)
    assert (await stored(node, breakpoint_id)).decision == "rejected"
    [told] = await unsent(node, ann)
    assert told.comment == "Fine after all."
    assert ("person:ann", "Fine after all.") in await comments(node, breakpoint_id)


async def test_a_second_approver_who_lost_access_is_notified_and_not_counted(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node)
    await hold(node, breakpoint_id, ann)
    clock.advance(1)
    await hold(node, breakpoint_id, bea, comment="Me too.")
    await lost_role(node, bea)
    clock.advance(5)
    await give_due(node)
    assert await responses(node, breakpoint_id) == [("ann", True)]
    assert [each.comment for each in await unsent(node, bea)] == ["Me too."]
    assert ("person:bea", "Me too.") in await comments(node, breakpoint_id)


async def test_an_admin_who_overrides_records_the_agreeing_answers(node: Node, ann: Principal) -> None:
    await person(node, "bea", "reviewer")
    breakpoint_id = await create(node, {"expert": ["ann", "bea"], "strategy": "collect-all"})
    root = await person(node, "root", "admin")
    await hold(node, breakpoint_id, ann, comment="Yes.")
    await respond(node, breakpoint_id, root)
    assert (await stored(node, breakpoint_id)).decision == "approved"
    assert sorted(await responses(node, breakpoint_id)) == [("ann", True), ("root", True)]


async def test_racing_approvals_and_rejections_lose_no_reason(settings: Settings) -> None:
    """Six reviewers answer each breakpoint at the same time."""
    patient = settings.model_copy(update={"undo_seconds": 1})
    async with running_node(patient) as one:
        people = [await person(one, f"p{n}", "reviewer") for n in range(6)]
        ids = [await create(one) for _ in range(8)]

        async def answer(breakpoint_id: str, n: int, who: Principal) -> str:
            reason = f"{n}: because"
            try:
                await hold(one, breakpoint_id, who, approved=n % 3 > 0, comment=reason)
            except (AlreadyEnded, RejectionPending):
                return "refused"
            return reason

        sent = {each: await asyncio.gather(*(answer(each, n, who) for n, who in enumerate(people))) for each in ids}

        async def open_ones() -> int:
            return len(await rows(one, "SELECT 1 FROM assent_breakpoints WHERE status = 'waiting'"))

        await until(open_ones, lambda count: count == 0)
        for each in ids:
            kept = {text for _, text in await comments(one, each)}
            assert {reason for reason in sent[each] if reason != "refused"} == kept
            assert (await stored(one, each)).decision == "rejected"
        assert await rows(one, "SELECT 1 FROM assent_held_answers") == []


async def test_a_simultaneous_undo_and_rejection_have_one_outcome(settings: Settings) -> None:
    """Undoing a batch does not lock its breakpoints, so another reviewer can reject them at the same time."""
    async with running_node(settings.model_copy(update={"undo_seconds": 60})) as one:
        ann, bea = await person(one, "ann", "reviewer"), await person(one, "bea", "reviewer")
        ids = [await create(one) for _ in range(12)]
        for each in ids:
            await hold(one, each, ann, batch="b1", comment="Batch.")
        undo = partial(one.assent[HoldingService].take_back_batch, batch="b1", by=ann)
        results = await asyncio.gather(
            one.assent.database.write(undo),
            *(hold(one, each, bea, approved=False, comment=REASON) for each in ids),
            return_exceptions=True,
        )
        undone = [] if isinstance(results[0], BaseException) else results[0].breakpoint_ids  # type: ignore[union-attr]
        told = {each.breakpoint_id for each in await unsent(one, ann)}
        assert told.isdisjoint(undone)
        # A rejection that found no pending answer waits in its undo window; all others took effect immediately.
        assert told | set(undone) == set(ids)


async def test_the_audit_accepts_answers_in_their_undo_windows(
    node: Node, clock: ManualClock, ann: Principal, bea: Principal
) -> None:
    first, second = await create(node), await create(node)
    for each in (first, second):
        await hold(node, each, ann, comment="One.")
        clock.advance(1)
    await hold(node, first, bea, comment="Two.")
    await hold(node, second, bea, approved=False, comment="Three.")
    clock.advance(6)
    await give_due(node)
    assert {(await stored(node, each)).decision for each in (first, second)} == {"approved", "rejected"}
    assert (await node.assent[AuditService].verify()).findings == []


async def test_a_notice_from_another_project_hides_content_its_recipient_cannot_read(
    node: Node, ann: Principal, bea: Principal
) -> None:
    breakpoint_id = await create(node, title="Deploy the shop")
    await hold(node, breakpoint_id, ann, comment="Looks fine.")
    await hold(node, breakpoint_id, bea, approved=False, comment=REASON)
    elsewhere = replace(ann, project="other", roles=frozenset())
    [shown] = await node.assent.database.read(
        partial(unsent_notices, holding=node.assent[HoldingService], by=elsewhere)
    )
    assert (shown.name, shown.readable, shown.answer.comment) == (
        "A breakpoint in project default",
        False,
        "Looks fine.",
    )
    await node.assent.database.write(
        partial(node.assent[HoldingService].dismiss, unsent_id=shown.answer.id, by=elsewhere)
    )
    assert await unsent(node, ann) == []
