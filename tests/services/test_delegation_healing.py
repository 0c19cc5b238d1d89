"""Deliveries without a job are queued again, even if earlier repair jobs have failed."""

from assent.store.transaction import Transaction
from tests.services.delegating import channel, route, settle
from tests.services.test_delegation_people import waiting
from tests.store.making import create, person
from tests.support.nodes import ManualClock, Node


def come_to_nothing(tx: Transaction) -> None:
    """Make the jobs fail as if the database was down: DBOS keeps a failed job and its key."""
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
        await node.assent.database.write(node.assent.deliveries.heal)
        assert await node.assent.database.read(waiting) == 1, "no job is left for the delivery"
