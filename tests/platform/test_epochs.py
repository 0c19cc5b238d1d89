"""Restoring a backup does not revive used receipts, sessions, sign-in links or held answers."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.cli.data import operator
from assent.core.errors import NoReceipt
from assent.core.terms import Answer
from assent.core.timestamps import SECOND
from assent.db import backup
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from assent.platform.epochs import Epochs
from tests.db.making import create, person, respond, rows
from tests.db.places import empty_place, kind_of, quietly, save
from tests.policy.usecases.test_receipts import approved, consume, issue
from tests.support.nodes import ManualClock, Node, running_node

UNDO = {"undo_seconds": 60}


async def restored(node: Node, at: int) -> None:
    def use_case(tx: Transaction) -> None:
        tx.acting(operator("default"))
        tx[Epochs].restored(backup="2026-01-01", now=at)

    await node.assent.database.write(use_case)


async def test_a_restore_invalidates_receipts_sessions_links_and_held_answers(
    settings: Settings, tmp_path: Path, postgres_url: str
) -> None:
    clock = ManualClock()
    async with running_node(settings.model_copy(update=UNDO), clock=clock) as node:
        used = await approved(node)
        receipt = await issue(node, used)
        ann = await node.assent.database.read(lambda tx: tx[People].get_by_name("ann"))
        bob = await person(node, "bob", "reviewer")
        held = await create(node)
        holding = partial(
            node.assent[HoldingService].hold, breakpoint_id=held, answer=Answer(approved=True), by=bob, via="web"
        )
        await node.assent.database.write(holding)
        session, _ = await node.assent.database.write(lambda tx: node.assent[PeopleService].open_session(tx, ann.id))
        link = await node.assent.database.write(
            lambda tx: node.assent[PeopleService].create_link(tx, ann.id, purpose="x")
        )
        save(settings, tmp_path / "b.tar")
        await consume(node, receipt)
    expected = "postgresql" if settings.database_url else "sqlite"
    with empty_place(settings.model_copy(update=UNDO), tmp_path, postgres_url) as place:
        at = clock.now() + SECOND
        backup.restore(kind_of(place), tmp_path / "b.tar", expected=expected, force=False, progress=quietly, epoch=at)
        if settings.database_url is None:
            shutil.copy(settings.key_path, place.key_path)
        clock.advance(2)
        async with running_node(place, clock=clock) as node:
            await restored(node, at)
            for attempt in (issue(node, used), consume(node, receipt)):
                with pytest.raises(NoReceipt, match="before a backup was restored"):
                    await attempt
            principal = partial(node.assent[PeopleService].session_principal, plain=session)
            assert await node.assent.database.read(principal) is None
            assert await node.assent.database.read(partial(node.assent[PeopleService].link_holder, plain=link)) is None
            clock.advance(120)
            await node.assent.database.write(node.assent[HoldingService].commit_due)
            dropped = "SELECT type FROM assent_events WHERE breakpoint_id = :id ORDER BY seq"
            assert await rows(node, dropped, id=held) == [("created",), ("answer-dropped",)]
            acts = "SELECT actor FROM assent_admin_events WHERE type = 'data-restored'"
            assert await rows(node, acts) == [("system:cli",)]
            fresh = await create(node)
            await respond(node, fresh, bob)
            await consume(node, await issue(node, fresh))
            assert (await node.assent[AuditService].verify()).findings == []


@pytest.mark.parametrize("held", [True, False], ids=["approval", "rejection"])
async def test_an_answer_held_before_a_restore_neither_counts_nor_blocks_later_answers(
    settings: Settings, *, held: bool
) -> None:
    clock = ManualClock()
    async with running_node(settings.model_copy(update=UNDO), clock=clock) as node:
        ann, bob = await person(node, "ann", "reviewer"), await person(node, "bob", "reviewer")
        asked = await create(node)
        answer = Answer(approved=held, comment="Before.")
        holding = partial(node.assent[HoldingService].hold, breakpoint_id=asked, answer=answer, by=ann, via="web")
        await node.assent.database.write(holding)
        clock.advance(1)
        await restored(node, clock.now())
        clock.advance(1)
        await respond(node, asked, bob, comment="After.")
        answers = "SELECT person, comment FROM assent_responses WHERE breakpoint_id = :id"
        assert await rows(node, answers, id=asked) == [("bob", "After.")]
        assert await rows(node, "SELECT decision FROM assent_breakpoints WHERE id = :id", id=asked) == [("approved",)]
        clock.advance(120)
        await node.assent.database.write(node.assent[HoldingService].commit_due)
        assert (await node.assent[AuditService].verify()).findings == []
