"""A notification step that fails leaves no partial results, and does not repeat them every minute."""

from assent.store.transaction import Transaction
from tests.services.delegating import channel, kinds, route, settle, wishes
from tests.store.making import create, person
from tests.support.nodes import ManualClock, Node


async def test_a_failed_step_leaves_nothing_behind(node: Node, clock: ManualClock) -> None:
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
