"""Reads breakpoints, statuses and lists, and ends overdue breakpoints first."""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from assent.breakpoints.store.breakpoints import SELECT_EVENTS, SELECT_RESPONSES, event_of, response_of
from assent.breakpoints.store.reading import Query, Reader, StatusRow, Summary, Whole
from assent.breakpoints.store.undo_window import HeldAnswers
from assent.breakpoints.undo_window import PendingAnswer
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Permission, Principal
from assent.core.breakpoint import Event, Response
from assent.core.errors import NotFound
from assent.core.timestamps import LAST
from assent.db.sql import Row
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database

Seen = TypeVar("Seen", Whole, StatusRow)


class InboxService:
    def __init__(self, database: Database[Transaction], clock: Clock, breakpoints: BreakpointService) -> None:
        self._database = database
        self._clock = clock
        self._breakpoints = breakpoints
        self.reader = Reader(database)

    async def whole(self, breakpoint_id: str, by: Principal) -> Whole:
        row = await self.reader.whole(breakpoint_id)
        # The sweep may be late, but a breakpoint must not be pending after its deadline.
        if row is not None and row.status == "waiting" and row.due_at <= self._clock.now():
            await self._time_out(row)
            row = await self.reader.whole(breakpoint_id)
        return _visible(row, breakpoint_id, by)

    async def status(self, breakpoint_id: str, by: Principal) -> StatusRow:
        row = await self.reader.status(breakpoint_id)
        if row is not None and row.status == "waiting" and row.due_at <= self._clock.now():
            await self._time_out(row)
            row = await self.reader.status(breakpoint_id)
        return _visible(row, breakpoint_id, by)

    async def feedback(self, row: Whole | StatusRow) -> Sequence[Row]:
        return await self.reader.feedback(row.id) if row.comments else ()

    async def responses(self, row: Whole) -> list[Response]:
        if not row.votes:
            return []
        return [response_of(each) for each in await self._database.fetch(SELECT_RESPONSES, {"id": row.id})]

    async def pending(self, row: Whole, by: Principal) -> Sequence[PendingAnswer]:
        """Return the pending answers. Agents cannot see these answers, because they can still be undone."""
        if row.status != "waiting" or by.kind is Kind.AGENT:
            return ()
        found = await self._database.read(partial(_pending, breakpoint_id=row.id))
        return found.get(row.id, ())

    async def events(self, breakpoint_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        params = {"id": breakpoint_id, "after": after, "limit": limit}
        return [event_of(row) for row in await self._database.fetch(SELECT_EVENTS, params)]

    async def history(self, breakpoint_id: str) -> list[Event]:
        """Return every event, without a limit."""
        found: list[Event] = []
        while batch := await self.events(breakpoint_id, after=found[-1].seq if found else 0):
            found += batch
        return found

    async def page(self, query: Query) -> list[Summary]:
        rows = await self.reader.page(query)
        # Rows that move up into the page may be overdue as well.
        while overdue := [row for row in rows if row.status == "waiting" and row.due_at <= self._clock.now()]:
            if not await self._database.write(self._breakpoints.time_out_due, locks=LAST):
                # The sweep skips a row that another transaction has locked, so wait for that row here.
                await self._time_out(overdue[0])
            rows = await self.reader.page(query)
        return rows

    async def _time_out(self, row: Summary | StatusRow) -> None:
        use_case = partial(self._time_out_in, breakpoint_id=row.id, project=row.project_id)
        await self._database.write(use_case, locks=row.id)

    def _time_out_in(self, tx: Transaction, *, breakpoint_id: str, project: str) -> None:
        self._breakpoints.time_out(tx, breakpoint_id, project=project)


def _pending(tx: Transaction, *, breakpoint_id: str) -> dict[str, tuple[PendingAnswer, ...]]:
    return tx[HeldAnswers].pending([breakpoint_id])


def _visible(row: Seen | None, breakpoint_id: str, by: Principal) -> Seen:
    """Raise NotFound for breakpoints in other projects and, if the caller is an agent, those of other agents."""
    if row is None or row.project_id != by.project or (by.kind is Kind.AGENT and row.created_by_id != by.id):
        msg = f"Breakpoint {breakpoint_id} not found in this project."
        raise NotFound(msg)
    by.require(Permission.READ)
    return row
