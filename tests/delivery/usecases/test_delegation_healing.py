"""Deliveries without a job are queued again, even if earlier repair jobs have failed."""

from assent.db.transaction import Transaction
from assent.delivery.usecases.outbox import DeliveryService
from tests.db.making import create, person
from tests.delivery.usecases.delegating import channel, route, settle
from tests.delivery.usecases.test_delegation_people import waiting
from tests.support.nodes import ManualClock, Node


def come_to_nothing(tx: Transaction) -> None:
    """Make the jobs fail as if the database were down; DBOS keeps failed jobs and their keys."""
    table = "dbos.workflow_status" if tx.session.dialect == "postgresql" else "workflow_status"
    tx.session.write(f"UPDATE {table} SET status = 'ERROR' WHERE workflow_uuid LIKE 'deliver:%'", [{}])


async def test_a_failed_repair_job_is_queued_again(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email")
    await create(node, {"expert": "ann"})
    await settle(node)
    for _ in range(3):
        await node.assent.database.write(come_to_nothing)
        clock.advance(120)
        await node.assent.database.write(node.assent[DeliveryService].heal)
        assert await node.assent.database.read(waiting) == 1, "no job is left for the delivery"
