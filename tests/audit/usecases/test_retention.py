"""Retention: content is deleted when due, never while on hold, and its hashes are kept."""

import asyncio
from functools import partial
from typing import Any

import pytest

from assent.audit.store.retention import Hold
from assent.audit.usecases.retention import PURGE_BATCH, RetentionService
from assent.audit.usecases.verify import AuditService
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.files import Files
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal, Role
from assent.core.canonical import sha256
from assent.core.errors import AssentError, Forbidden, InvalidRequest, NotFound
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from tests.audit.usecases.living import live
from tests.db.making import AGENT, create, creation, person, respond, rows
from tests.support.nodes import ManualClock, Node, running_node

DAY = 24 * 3600
ADMIN = Principal(kind=Kind.PERSON, id="per_adm", name="adm", project="default", roles=frozenset({Role.ADMIN}))


async def keep_for(node: Node, days: int | None) -> None:
    policy = {} if days is None else {"retentionDays": days}
    await node.assent.database.write(partial(node.assent[PeopleService].put_policy, policy=policy, by=ADMIN))


async def purge(node: Node) -> int:
    return await node.assent.database.write(node.assent[RetentionService].purge_due)


async def hold(node: Node, breakpoint_id: str | None = None, *, by: Principal = ADMIN) -> Hold:
    return await node.assent.database.write(
        lambda tx: node.assent[RetentionService].place(
            tx, by=by, reason="The court asked.", breakpoint_id=breakpoint_id
        )
    )


async def lift(node: Node, hold_id: str, *, by: Principal = ADMIN) -> None:
    await node.assent.database.write(lambda tx: node.assent[RetentionService].lift(tx, hold_id, by=by))


async def rejected(node: Node, by: Principal, payload: dict[str, Any] | None = None, **top: Any) -> str:
    breakpoint_id = await create(node, payload, **top)
    await respond(node, breakpoint_id, by, approved=False, comment="Unspeakable.")
    return breakpoint_id


async def is_purged(node: Node, breakpoint_id: str) -> bool:
    found = await rows(node, "SELECT purged_at FROM assent_breakpoints WHERE id = :id", id=breakpoint_id)
    return found[0][0] is not None


async def everything(node: Node) -> str:
    """Return all text and bytes stored about breakpoints."""
    found: list[Any] = []
    for table in ("breakpoints", "events", "responses", "comments", "breakpoint_files", "files", "labels"):
        found += await rows(node, f"SELECT * FROM assent_{table}")
    return repr(found)


async def test_texts_are_purged_and_the_history_is_kept(node: Node, clock: ManualClock) -> None:
    lives = await live(node, clock)
    ids = lives.ids
    shown = "id, status, decision, agent_id, gate, tags, digest, created_at, ended_at, ended_by"
    before = await rows(node, f"SELECT {shown} FROM assent_breakpoints ORDER BY id")
    chains = await rows(node, "SELECT breakpoint_id, seq, type, actor, at, previous, hash FROM assent_events")
    await keep_for(node, 30)
    clock.advance(31 * DAY)

    assert await purge(node) == len(ids) - 3

    text = await everything(node)
    for words in ("Ship", "Why?", "Go on.", "It is time.", "No.", "Not today.", "I decide.", "plan.md", "# Plan"):
        assert words not in text, words
    assert "On second thoughts." in text
    assert await rows(node, f"SELECT {shown} FROM assent_breakpoints ORDER BY id") == before
    kept = await rows(node, "SELECT breakpoint_id, seq, type, actor, at, previous, hash FROM assent_events")
    assert {*chains} <= {*kept}
    assert {row[2] for row in {*kept} - {*chains}} == {"purged"}
    waiting = {name for name, each in ids.items() if not await is_purged(node, each)}
    assert waiting == {"waiting", "changed", "moved"}
    audited = await node.assent[AuditService].verify()
    assert (audited.findings, audited.purged) == ([], len(ids) - 3)


async def test_a_purge_event_records_the_number_of_covered_events_and_the_last_hash(
    node: Node, clock: ManualClock
) -> None:
    breakpoint_id = await rejected(node, await person(node, "ann", "reviewer"))
    head = (await rows(node, "SELECT head FROM assent_breakpoints"))[0][0]
    await keep_for(node, 1)
    clock.advance(DAY)
    await purge(node)
    event = (await node.assent.database.read(lambda tx: tx[Breakpoints].events(breakpoint_id)))[-1]
    assert (event.type, str(event.actor), event.at) == ("purged", "system:retention", clock.now())
    assert (event.metadata["events"], event.metadata["head"]) == (3, head)


@pytest.mark.parametrize(("days", "age", "expected"), [(None, 10_000, 0), (30, 29.99, 0), (30, 30, 1), (1, 30, 1)])
async def test_nothing_is_purged_before_its_retention_period_ends(
    node: Node, clock: ManualClock, days: int | None, age: float, expected: int
) -> None:
    await rejected(node, await person(node, "ann", "reviewer"))
    await keep_for(node, days)
    clock.advance(age * DAY)
    await purge(node)
    # The node's scheduler may have purged it already.
    assert len(await rows(node, "SELECT 1 FROM assent_breakpoints WHERE purged_at IS NOT NULL")) == expected


async def test_a_waiting_breakpoint_is_never_purged(node: Node, clock: ManualClock) -> None:
    await create(node)
    await keep_for(node, 1)
    clock.advance(400 * DAY)
    assert await purge(node) == 0


async def test_purging_again_has_no_effect(node: Node, clock: ManualClock) -> None:
    await rejected(node, await person(node, "ann", "reviewer"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert await purge(node) == 1
    after = await everything(node)
    for _ in range(3):
        clock.advance(2 * DAY)
        assert await purge(node) == 0
    assert await everything(node) == after


async def test_purging_works_in_batches(node: Node, clock: ManualClock) -> None:
    for _ in range(PURGE_BATCH + 3):
        breakpoint_id = await create(node)
        await node.assent.database.write(
            partial(node.assent[BreakpointService].cancel, breakpoint_id=breakpoint_id, by=AGENT)
        )
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert [await purge(node) for _ in range(3)] == [PURGE_BATCH, 3, 0]
    assert (await node.assent[AuditService].verify()).findings == []


async def test_projects_have_separate_retention_periods(node: Node, clock: ManualClock) -> None:
    owner = await node.token("admin")
    await node.call("POST", "/api/projects", owner, json={"id": "second"})
    there = Principal(kind=Kind.AGENT, id="tok_there", name="there", project="second")
    ended = []
    for agent in (AGENT, there):
        breakpoint_id = await create(node, by=agent)
        use_case = partial(node.assent[BreakpointService].cancel, breakpoint_id=breakpoint_id, by=agent)
        await node.assent.database.write(use_case)
        ended.append(breakpoint_id)
    await keep_for(node, 1)
    clock.advance(100 * DAY)
    assert await purge(node) == 1
    assert [await is_purged(node, each) for each in ended] == [True, False]


async def test_a_breakpoint_is_not_purged_until_its_holds_are_lifted(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    held, other = await rejected(node, ann), await rejected(node, ann)
    first, second = await hold(node, held), await hold(node, held)
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert await purge(node) == 1
    assert (await is_purged(node, held), await is_purged(node, other)) == (False, True)
    await lift(node, first.id)
    assert await purge(node) == 0
    await lift(node, second.id)
    assert await purge(node) == 1
    assert (await node.assent[AuditService].verify()).findings == []


async def test_a_project_on_hold_is_not_purged_at_all(node: Node, clock: ManualClock) -> None:
    await rejected(node, await person(node, "ann", "reviewer"))
    placed = await hold(node)
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert await purge(node) == 0
    await lift(node, placed.id)
    assert await purge(node) == 1


async def test_a_hold_in_another_project_has_no_effect(node: Node, clock: ManualClock) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "second"})
    await hold(node, by=Principal(kind=Kind.PERSON, id="x", name="x", project="second", roles=ADMIN.roles))
    await rejected(node, await person(node, "ann", "reviewer"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert await purge(node) == 1


async def test_a_hold_records_who_placed_and_lifted_it(node: Node, clock: ManualClock) -> None:
    placed = await hold(node)
    clock.advance(5)
    await lift(node, placed.id)
    (found,) = await node.assent.database.read(partial(node.assent[RetentionService].every, by=ADMIN))
    assert (found.placed_by, found.lifted_by) == ("person:adm", "person:adm")
    assert found.lifted_at == found.placed_at + 5_000_000
    with pytest.raises(NotFound):
        await lift(node, placed.id)
    with pytest.raises(NotFound):
        await lift(node, "hold_none")


async def test_a_missing_or_purged_breakpoint_cannot_be_put_on_hold(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    with pytest.raises(NotFound):
        await hold(node, "bp_none")
    breakpoint_id = await rejected(node, ann)
    with pytest.raises(NotFound):
        await hold(node, breakpoint_id, by=Principal(**{**_fields(ADMIN), "project": "elsewhere"}))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    await purge(node)
    with pytest.raises(InvalidRequest, match="nothing left to preserve"):
        await hold(node, breakpoint_id)


def _fields(principal: Principal) -> dict[str, Any]:
    return {name: getattr(principal, name) for name in ("kind", "id", "name", "project", "roles")}


@pytest.mark.parametrize("role", ["viewer", "reviewer", "rule-admin", "auditor"])
async def test_only_an_admin_can_place_and_lift_holds(node: Node, role: str) -> None:
    somebody = await person(node, "sam", role)
    placed = await hold(node)
    with pytest.raises(Forbidden):
        await hold(node, by=somebody)
    with pytest.raises(Forbidden):
        await lift(node, placed.id, by=somebody)
    every = partial(node.assent[RetentionService].every, by=somebody)
    if role == "auditor":
        assert len(await node.assent.database.read(every)) == 1
    else:
        with pytest.raises(Forbidden):
            await node.assent.database.read(every)


def with_files(*contents: str) -> dict[str, Any]:
    files = [{"path": f"{n}.txt", "format": "text", "content": content} for n, content in enumerate(contents)]
    return {"context": {"files": files}}


async def kept_files(node: Node) -> set[str]:
    return {row[0] for row in await rows(node, "SELECT sha256 FROM assent_files")}


async def test_file_content_is_kept_while_any_breakpoint_uses_it(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    mine, shared = sha256(b"mine"), sha256(b"shared")
    await rejected(node, ann, with_files("mine", "shared", "shared"))
    later = await create(node, with_files("shared"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    assert await purge(node) == 1
    assert await kept_files(node) == {shared}
    assert mine not in await kept_files(node)
    entry = await node.assent.database.read(lambda tx: tx[Files].get_entry(later, 0, project="default"))
    assert entry.content == b"shared"
    await respond(node, later, ann)
    clock.advance(2 * DAY)
    assert await purge(node) == 1
    assert await kept_files(node) == set()


async def test_a_purged_breakpoint_does_not_show_content_that_other_breakpoints_still_use(
    node: Node, clock: ManualClock
) -> None:
    breakpoint_id = await rejected(node, await person(node, "ann", "reviewer"), with_files("shared"))
    await create(node, with_files("shared"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    await purge(node)
    with pytest.raises(NotFound, match="was purged on"):
        await node.assent.database.read(lambda tx: tx[Files].get_entry(breakpoint_id, 0, project="default"))


async def test_the_same_content_in_another_project_is_kept(node: Node, clock: ManualClock) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "second"})
    there = Principal(kind=Kind.AGENT, id="tok_there", name="there", project="second")
    await create(node, with_files("same"), by=there)
    await rejected(node, await person(node, "ann", "reviewer"), with_files("same"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    await purge(node)
    assert await rows(node, "SELECT project_id FROM assent_files") == [("second",)]


async def test_a_search_no_longer_finds_a_purged_breakpoint(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    await rejected(node, ann, {"question": "zebra crossing"})
    kept = await rejected(node, ann, {"question": "zebra stripes"})
    await hold(node, kept)
    viewer = await node.token("viewer")

    async def search(words: str) -> list[str]:
        found = await node.call("GET", "/api/breakpoints", viewer, params={"q": words})
        return [each["id"] for each in found.json()["items"]]

    assert len(await search("zebra")) == 2
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    await purge(node)
    assert await search("zebra") == [kept]
    assert await search("crossing") == []


async def test_the_full_text_index_is_consistent_after_purging(sqlite_settings: Settings, clock: ManualClock) -> None:
    async with running_node(sqlite_settings, clock=clock) as node:
        ann = await person(node, "ann", "reviewer")
        for words in ("one", "two words", ""):
            await rejected(node, ann, {"question": words})
        await create(node)
        await keep_for(node, 1)
        clock.advance(2 * DAY)
        assert await purge(node) == 3
        check = "INSERT INTO assent_search (assent_search, rank) VALUES ('integrity-check', 1)"
        await node.assent.database.write(lambda tx: tx.session.write(check, [{}]))


async def test_a_purged_breakpoint_can_be_read_and_is_marked_as_purged(node: Node, clock: ManualClock) -> None:
    agent = await node.token("agent", expires_in=30 * DAY)
    reviewer = await node.token("reviewer", expires_in=30 * DAY)
    created = await node.create(agent, tags=["prod"])
    await node.feedback(created["id"], agent, comment="Please.")
    await node.feedback(created["id"], reviewer, approved=True, comment="Fine.")
    before = (await node.call("GET", f"/api/breakpoints/{created['id']}", agent)).json()
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    await purge(node)
    answer = await node.call("GET", f"/api/breakpoints/{created['id']}", agent)
    after = answer.json()
    assert after["purgedAt"] == "2027-01-17T08:00:00Z"
    assert "purgedAt" not in before
    assert (after["payload"], after.get("title"), after.get("question")) == ({}, None, None)
    assert after["result"] == {"approved": True, "status": "released", "decision": "approved", "auto": False}
    for name in ("status", "decision", "decidedBy", "digest", "tags", "gate", "agentId", "createdAt", "releasedAt"):
        assert after[name] == before[name]
    assert [each["comment"] for each in after["feedback"]] == ["", ""]
    assert answer.headers["etag"] == f'"v{before["version"] + 1}"'
    status = (await node.call("GET", f"/api/breakpoints/{created['id']}/status", agent)).json()
    assert status["result"]["approved"] is True
    late = await node.feedback(created["id"], reviewer, approved=False)
    assert (late.status_code, late.json()["code"]) == (409, "already_ended")


async def test_purging_neither_wakes_waiters_nor_counts_as_a_decision(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await rejected(node, await person(node, "ann", "reviewer"))
    await keep_for(node, 1)
    clock.advance(2 * DAY)
    hints = await node.assent.database.write(
        lambda tx: (node.assent[RetentionService].purge_due(tx), list(tx.hints))[1]
    )
    assert hints == []
    assert await is_purged(node, breakpoint_id)


async def test_a_hold_and_a_simultaneous_purge_are_serialized(postgres_settings: Settings, clock: ManualClock) -> None:
    """A hold on a breakpoint covers all of its content, or is refused because the content was purged."""
    async with running_node(postgres_settings, clock=clock) as one, running_node(postgres_settings, clock=clock) as two:
        ann = await person(one, "ann", "reviewer")
        await keep_for(one, 1)
        held = 0
        for round_ in range(40):
            breakpoint_id = await rejected(one, ann, {"question": f"Round {round_}?"})
            clock.advance(2 * DAY)
            placing = hold(one, breakpoint_id) if round_ % 2 else hold(one)
            placed, _ = await asyncio.gather(placing, purge(two), return_exceptions=True)
            purged = await is_purged(one, breakpoint_id)
            if isinstance(placed, Hold):
                # A hold on the project may be placed after the purge, and then covers the remaining data.
                after = await rows(one, "SELECT purged_at FROM assent_breakpoints WHERE id = :id", id=breakpoint_id)
                assert not purged or placed.breakpoint_id is None
                assert not purged or after[0][0] <= placed.placed_at
                held += not purged
                await lift(one, placed.id)
                await purge(two)
            else:
                assert isinstance(placed, InvalidRequest)
                assert purged
        assert (await one.assent[AuditService].verify()).findings == []
        del held


async def test_a_concurrent_purge_does_not_delete_a_newly_referenced_file(
    postgres_settings: Settings, clock: ManualClock
) -> None:
    async with running_node(postgres_settings, clock=clock) as one, running_node(postgres_settings, clock=clock) as two:
        ann = await person(one, "ann", "reviewer")
        await keep_for(one, 1)
        for round_ in range(40):
            content = f"bytes of round {round_}"
            await rejected(one, ann, with_files(content))
            clock.advance(2 * DAY)
            named = {"path": "again.txt", "format": "text", "sha256": sha256(content.encode())}
            by_digest = creation(one, {"context": {"files": [named]}})
            made = await asyncio.gather(
                one.assent.database.write(creation(one, with_files(content))),
                one.assent.database.write(by_digest),
                purge(two),
                return_exceptions=True,
            )
            # A digest is rejected if its content was purged; inline content is always accepted.
            assert not isinstance(made[0], BaseException)
            assert not isinstance(made[1], BaseException) or isinstance(made[1], AssentError)
        missing = """
            SELECT e.sha256 FROM assent_breakpoint_files e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
            WHERE b.purged_at IS NULL AND NOT EXISTS (
                SELECT 1 FROM assent_files f WHERE f.sha256 = e.sha256 AND f.project_id = b.project_id)"""
        assert await rows(one, missing) == []
