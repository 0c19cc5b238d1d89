"""Reads the admin log, and checks that requests, forms and commands are recorded in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from assent.db.transaction import Transaction
from assent.platform.admin_events import AdminEvent
from assent.platform.admin_log import SELECT, event_of
from assent.runs.model import Line, RunState
from assent.runs.store import Runs
from tests.support.nodes import Node


@dataclass
class Log:
    """The admin log of a node; `new` returns the events since its last call."""

    node: Node
    seen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    async def new(self) -> list[AdminEvent]:
        def use_case(tx: Transaction) -> list[AdminEvent]:
            return [event_of(row) for row in tx.session.all(f"{SELECT} ORDER BY at, chain_id, seq", {})]

        found = [each for each in await self.node.assent.database.read(use_case) if _key(each) not in self.seen]
        self.seen.update(map(_key, found))
        return found


def _key(event: AdminEvent) -> tuple[str, int]:
    return event.chain_id, event.seq


def assert_recorded(new: Iterable[AdminEvent], act: str, what: str, *, actor: str, via: str | None) -> None:
    """Check for an event of this type by this actor, through a token or session whose ID starts with this prefix."""
    events = list(new)
    found = [each for each in events if each.type == act]
    assert found, f"{what} recorded {[each.type for each in events]} and no {act}"
    for event in found:
        assert str(event.actor).startswith(actor), (what, str(event.actor))
        through = event.metadata.get("via")
        assert through is None if via is None else str(through).startswith(via), (what, through)
        assert event.metadata["before"] != event.metadata["after"], what
        assert event.subject, what


async def queued_run(node: Node, process: str) -> str:
    """Start a run as an agent; no worker executes it."""
    answer = await node.call("POST", "/api/runs", await node.token("agent"), json={"process": process})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def failed_run(node: Node, process: str) -> str:
    """Start a run as an agent, and make it fail as a worker would."""
    run_id = await queued_run(node, process)

    def use_case(tx: Transaction) -> None:
        now = tx.now()
        taken = tx[Runs].take(run_id, mine=0, now=now, lease=now + 1_000_000)
        assert taken is not None
        error = {"type": "ValueError", "message": "It failed."}
        tx[Runs].leave(replace(taken, state=RunState.FAILED, error=error, ended_at=now), [Line("failed")], now=now)

    await node.assent.database.write(use_case)
    return run_id
