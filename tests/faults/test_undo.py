"""The undo window during races and kills: an answer counts exactly once or not at all."""

import asyncio
import random
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.access import Principal
from assent.core.errors import AlreadyEnded, AnswerStands, AssentError
from assent.core.terms import Answer
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from tests.db.making import AGENT, create, person
from tests.faults.kills import said, secured
from tests.faults.load import rows
from tests.support.lanes import scaled
from tests.support.nodes import ManualClock, Node, running_node, start_server
from tests.support.until import until

ROUNDS = scaled(240, __name__)
HELD = 60
KILLS = 4
HOUR = 3600 * SECOND
OUTCOMES = """
    SELECT b.id, b.status, b.decision, b.ended_by,
        (SELECT count(*) FROM assent_events e
         WHERE e.breakpoint_id = b.id AND e.type IN ('released', 'expired', 'cancelled')),
        (SELECT count(*) FROM assent_events e
         WHERE e.breakpoint_id = b.id AND e.type = 'responded' AND e.actor = 'person:ann'),
        (SELECT count(*) FROM assent_held_answers h WHERE h.breakpoint_id = b.id)
    FROM assent_breakpoints b ORDER BY b.id"""


async def hold(node: Node, breakpoint_id: str, by: Principal) -> None:
    answer = Answer(approved=True)
    use_case = partial(node.assent[HoldingService].hold, breakpoint_id=breakpoint_id, answer=answer, by=by, via="web")
    await node.assent.database.write(use_case, locks=breakpoint_id)


async def attempted(node: Node, breakpoint_id: str, use_case: Any, **options: Any) -> str:
    """Run a use case, and return "done", "nothing" or the error code."""
    try:
        found = await node.assent.database.write(
            partial(use_case, breakpoint_id=breakpoint_id, **options), locks=breakpoint_id
        )
    except AssentError as error:
        return error.code
    return "nothing" if found is None and use_case.__name__ == "take_back" else "done"


@pytest.mark.timeout(600)
async def test_a_pending_answer_under_concurrent_actions_has_one_outcome(
    postgres_settings: Settings, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed := random.randrange(2**32))
    async with running_node(postgres_settings, clock=clock) as one, running_node(postgres_settings, clock=clock) as two:
        nodes = (one, two)
        ann, bob = await person(one, "ann", "reviewer"), await person(one, "bob", "reviewer")
        eve = await person(one, "eve", "admin")
        ids = [await create(one) for _ in range(ROUNDS)]
        # Half of the answers become due before the race, the other half during it.
        due, pending = ids[: ROUNDS // 2], ids[ROUNDS // 2 :]
        for each in due:
            await hold(chance.choice(nodes), each, ann)
        clock.advance(3)
        for each in pending:
            await hold(chance.choice(nodes), each, ann)

        async def race(breakpoint_id: str) -> dict[str, str]:
            service, undo = one.assent[BreakpointService], one.assent[HoldingService].take_back
            rejected: dict[str, Any] = {"answer": Answer(approved=False), "by": bob, "via": "api"}
            actors: dict[str, Any] = {
                "take back": partial(attempted, use_case=undo, by=ann),
                "decide": partial(attempted, use_case=service.respond, **rejected),
                "expire": partial(attempted, use_case=service.expire, by=eve),
                "cancel": partial(attempted, use_case=service.cancel, by=AGENT),
            }
            chosen = chance.sample(list(actors), (1, 2, 2, 4)[ids.index(breakpoint_id) % 4])
            if "take back" not in chosen:
                chosen[0] = "take back"
            done = await asyncio.gather(*(actors[name](chance.choice(nodes), breakpoint_id) for name in chosen))
            return dict(zip(chosen, done, strict=True))

        async def give(node: Node) -> None:
            while await node.assent.database.write(node.assent[HoldingService].commit_due):
                pass

        # Both nodes also apply due answers with their schedulers.
        clock.advance(3)
        shuffled = chance.sample(ids, len(ids))
        giving = [asyncio.create_task(give(node)) for node in nodes * 2]
        told = await asyncio.gather(*map(race, shuffled))
        clock.advance(3)
        await asyncio.gather(*giving, *map(give, nodes))
        left = partial(one.assent.database.read, lambda tx: tx.session.all("SELECT 1 FROM assent_held_answers", {}))
        await until(left, lambda found: not found)
    answers = dict(zip(shuffled, told, strict=True))
    wrong, seen = judged(answers, rows(postgres_settings, OUTCOMES))
    with capsys.disabled():
        sys.stdout.write(f"\nundo: {ROUNDS} races (seed {seed}), {len(wrong)} wrong; {dict(seen)}\n")
    assert wrong == []
    assert seen["taken back"] > 0
    assert seen["given"] > 0
    assert said(postgres_settings, "fsck") == []


def judged(answers: dict[str, dict[str, str]], found: Any) -> tuple[list[str], Counter[str]]:
    """Compare the response that each actor received with the stored data."""
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    for breakpoint_id, status, decision, _, ends, given, held in found:
        told = answers[breakpoint_id]
        undo, ender = told["take back"], [name for name, code in told.items() if name != "take back" and code == "done"]
        won = len(ender) + (given if decision == "approved" else 0)
        if held or given > 1 or ends != (status != "waiting") or won != ends:
            wrong.append(f"{breakpoint_id} is {status}: {told}, {ends} ends, {given} answers of ann, {held} held")
        if undo == "done" and given:
            wrong.append(f"{breakpoint_id}: taken back, and yet given")
        if undo not in {"done", AlreadyEnded.code, AnswerStands.code}:
            wrong.append(f"{breakpoint_id}: {undo}, but it was neither given nor taken back")
        seen["taken back" if undo == "done" else "given" if given else "too late"] += 1
    return wrong, seen


@pytest.mark.timeout(900)
async def test_kill_9_leaves_an_answer_either_pending_or_applied(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = settings.model_copy(update={"undo_seconds": 60})
    async with running_node(mine) as node:
        ann = await person(node, "ann", "reviewer")
        ids = [await create(node) for _ in range(HELD)]
        for each in ids:
            await hold(node, each, ann)
    moments: list[int] = []
    for turn in range(KILLS + 1):
        await come_due(mine, HOUR, apart=0)
        process = await asyncio.to_thread(start_server, mine, **secured(mine))
        try:
            await come_due(mine, 0, apart=SECOND // 25)
            wanted = HELD if turn == KILLS else min(HELD, given(mine) + random.randrange(1, 9))
            await until(lambda: asyncio.to_thread(given, mine), wanted.__le__)
        finally:
            process.kill()
        found = rows(mine, OUTCOMES)
        moments.append(given(mine))
        neither = [row for row in found if (row[1] == "released") + row[6] != 1 or row[5] != (row[1] == "released")]
        assert neither == []
    with capsys.disabled():
        sys.stdout.write(f"\nundo: kill -9 after {moments} of {HELD} answers were given, none lost, none twice\n")
    assert moments[-1] == HELD
    assert said(mine, "fsck") == []
    assert said(mine, "audit", "verify") == []


def given(settings: Settings) -> int:
    count: int = rows(settings, "SELECT count(*) FROM assent_breakpoints WHERE status = 'released'")[0][0]
    return count


async def come_due(settings: Settings, after: int, *, apart: int) -> None:
    """Make the pending answers due one after another, starting this long from now."""
    start = time.time_ns() // 1000 + after

    def use_case(tx: Transaction) -> None:
        left = tx.session.all("SELECT breakpoint_id FROM assent_held_answers ORDER BY breakpoint_id", {})
        due = [{"id": row[0], "at": start + n * apart} for n, row in enumerate(left)]
        if due:
            tx.session.write("UPDATE assent_held_answers SET due_at = :at WHERE breakpoint_id = :id", due)

    # Start only the database, because a complete node would apply the answers itself.
    database = ServerNode(settings).database
    await database.start()
    try:
        await database.write(use_case)
    finally:
        await database.stop()
