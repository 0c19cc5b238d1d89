"""A failed notification step leaves no partial results, even though it is retried every minute."""

from assent.db.transaction import Transaction
from tests.db.making import create, person
from tests.delivery.usecases.delegating import channel, kinds, route, settle, wishes
from tests.support.nodes import ManualClock, Node


async def test_a_failed_notification_step_records_no_events(node: Node, clock: ManualClock) -> None:
    ann, _ = [await person(node, name, "reviewer") for name in ("ann", "eve")]
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "eve"})

    def spoil(tx: Transaction) -> None:
        tx.session.write("UPDATE assent_channels SET settings = :settings", [{"settings": "[]"}])

    await node.assent.database.write(spoil)
    breakpoint_id = await create(node, {"expert": "ann"})
    for _ in range(3):
        await settle(node)
        clock.advance(120)
    assert await kinds(node, breakpoint_id) == ["created"], "the history grows by one event per minute"
