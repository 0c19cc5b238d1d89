"""Marks pending breakpoints whose agents have disconnected. A mark never ends a breakpoint."""

from collections.abc import Sequence
from functools import partial

from assent.breakpoints.store.absent_agents import AbsentAgents
from assent.db.transaction import Transaction
from assent.http.waiters import Hub
from assent.kernel.ports import Database

GRACE_SECONDS = 20.0
"""Agents that poll return within 10 seconds, and agents that wait reconnect immediately."""


class AbsentAgentWatch:
    def __init__(self, database: Database[Transaction], hub: Hub) -> None:
        self._database = database
        self._hub = hub
        self.grace_seconds = GRACE_SECONDS

    async def look(self) -> None:
        await self.note(self.grace_seconds)

    async def note(self, grace: float = GRACE_SECONDS) -> None:
        """Mark breakpoints whose agents have left this node, and unmark those whose agents are connected to it."""
        absent = self._hub.take_absent(grace)
        present = sorted(set(self._hub.present()))
        back = await self._database.read(lambda tx: list(tx[AbsentAgents].since(present))) if present else []
        # An agent may have polled after its last wait ended.
        absent = sorted(set(absent).difference(present))
        if absent or back:
            await self._database.write(partial(_note, absent=absent, back=back))


def _note(tx: Transaction, *, absent: Sequence[str], back: Sequence[str]) -> None:
    tx.hints += tx[AbsentAgents].mark(absent, now=tx.now())
    tx.hints += tx[AbsentAgents].unmark(back)
