"""Helpers to set up channels and routes and to inspect the resulting deliveries."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from assent.breakpoints.usecases.inbox import InboxService
from assent.db.transaction import Transaction
from assent.delivery.routes_file import checked
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Deliveries, Delivery
from assent.delivery.store.routes import Routes, StoredRoute
from assent.delivery.usecases.notification_plan import DelegationService, Untold
from assent.people.preferences import read as read_preferences
from assent.people.store.preferences import PreferenceStore
from tests.support.nodes import Node
from tests.support.until import until

EMAIL: dict[str, Any] = {"host": "127.0.0.1", "port": 2525, "tls": "none", "from": "assent@example.test"}
WEBHOOK: dict[str, Any] = {"url": "http://127.0.0.1:9/hook", "secrets": ["env:ASSENT_TEST_HOOK"]}


async def channel(node: Node, name: str, kind: str = "", *, in_project: Any = "default", **settings: Any) -> str:
    """Create a channel and return its id; the default settings use a port on which no server listens."""
    kind = kind or name
    given: Mapping[str, Any] = settings or {"email": EMAIL, "webhook": WEBHOOK}[kind]

    def use_case(tx: Transaction) -> str:
        now = tx.now()
        new = StoredChannel(
            id=tx.new_id("chn"),
            project=in_project,
            name=name,
            type=kind,
            settings=given,
            created_at=now,
            updated_at=now,
        )
        tx[Channels].add(new)
        return new.id

    made = await node.assent.database.write(use_case)
    await node.assent.database.write(node.assent[DelegationService].advance_due)
    return made


async def route(node: Node, *channels: str, pattern: str = "*", project: Any = "default", **body: Any) -> str:
    def use_case(tx: Transaction) -> str:
        new_id = tx.new_id("rte")
        made = checked({"pattern": pattern, "channels": list(channels)} | body, route_id=new_id)
        position = len(tx[Routes].in_project(project)) + 1
        tx[Routes].add(StoredRoute(id=new_id, project=project, position=position, route=made))
        return new_id

    return await node.assent.database.write(use_case)


async def wishes(node: Node, person_id: str, **body: Any) -> None:
    preferences = read_preferences(body)
    await node.assent.database.write(lambda tx: tx[PreferenceStore].put(person_id, preferences, now=tx.now()))


async def settle(node: Node) -> None:
    """Process everything that is due, along with the node's own scheduler, until nothing is left."""

    async def left() -> bool:
        with contextlib.suppress(Untold):
            await node.assent.database.write(node.assent[DelegationService].advance_due)
        return await node.assent.database.read(_is_left)

    await until(left, lambda found: not found)


def _is_left(tx: Transaction) -> bool:
    statement = "SELECT 1 FROM assent_routings WHERE next_at <= :now LIMIT 1"
    return bool(tx.session.all(statement, {"now": tx.now()}))


async def deliveries(node: Node, breakpoint_id: str | None = None, *, project: str = "default") -> list[Delivery]:
    await settle(node)
    filters = {"breakpoint_id": breakpoint_id} if breakpoint_id else {}
    found = await node.assent.database.read(lambda tx: tx[Deliveries].page(project, filters, after="", limit=500))
    return sorted(found, key=lambda each: each.id)


async def told(node: Node, breakpoint_id: str) -> list[tuple[str, str, str, str]]:
    """Return the channel, recipient, purpose and state of a breakpoint's deliveries, in order."""
    found = await deliveries(node, breakpoint_id)
    names = {each.id: each.name for each in await node.assent.database.read(lambda tx: tx[Channels].every())}
    return [(names[each.channel], each.recipient, each.purpose, each.state) for each in _ordered(found)]


def _ordered(found: Sequence[Delivery]) -> list[Delivery]:
    return sorted(found, key=lambda each: (each.seq, each.channel, each.recipient))


async def kinds(node: Node, breakpoint_id: str) -> list[str]:
    """Return the types of the breakpoint's events."""
    return [each.type for each in await node.assent[InboxService].history(breakpoint_id)]


async def in_state(node: Node, breakpoint_id: str, *states: str) -> list[Delivery]:
    """Wait until all deliveries of a breakpoint are in one of these states."""
    return await until(
        lambda: deliveries(node, breakpoint_id),
        lambda found: bool(found) and all(each.state in states for each in found),
    )
