"""The log of all events for auditors, as pages or as a CSV or JSON export."""

import csv
import io
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec

from assent.audit.store.event_log import EventLog, Logged, LogQuery, Place
from assent.core.access import Permission, Principal
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.kernel.ports import Database

BATCH = 500
COLUMNS = (
    "at", "breakpointId", "seq", "type", "actor", "gate", "agentId", "title", "metadata", "previous", "hash",
    "adminChain", "subject",
)  # fmt: skip
# Prefixes that make spreadsheets interpret a cell as a formula, and characters that spreadsheets drop before a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")


class EventLogService:
    def __init__(self, database: Database[Transaction]) -> None:
        self._database = database

    async def page(self, query: LogQuery, *, by: Principal, before: Place | None, limit: int) -> list[Logged]:
        """Return up to `limit` events, newest first."""
        by.require(Permission.AUDIT)
        return await self._database.read(partial(_page, query=query, before=before, limit=limit))

    def export(self, query: LogQuery, kind: str, *, by: Principal) -> AsyncIterator[bytes]:
        """Return all events, read in batches; events recorded after the first batch are not included."""
        by.require(Permission.AUDIT)
        return self._csv(query) if kind == "csv" else self._json(query)

    async def _batches(self, query: LogQuery) -> AsyncIterator[list[Logged]]:
        before: Place | None = None
        while batch := await self._database.read(partial(_page, query=query, before=before, limit=BATCH)):
            yield batch
            before = batch[-1].place

    async def _csv(self, query: LogQuery) -> AsyncIterator[bytes]:
        yield _lines([COLUMNS])
        async for batch in self._batches(query):
            yield _lines([[cell(value) for value in _row(each, _text).values()] for each in batch])

    async def _json(self, query: LogQuery) -> AsyncIterator[bytes]:
        opening = b"[\n"
        async for batch in self._batches(query):
            yield opening + b",\n".join(msgspec.json.encode(_row(each, msgspec.json.decode)) for each in batch)
            opening = b",\n"
        yield b"\n]\n" if opening != b"[\n" else b"[]\n"


def _page(tx: Transaction, *, query: LogQuery, before: Place | None, limit: int) -> list[Logged]:
    return tx[EventLog].page(query, before=before, limit=limit)


def subject_of(each: Logged) -> str | None:
    """Return the subject of an admin event, or None for other events."""
    return msgspec.json.decode(each.metadata).get("subject") if each.admin else None


def _row(each: Logged, metadata: Callable[[str], Any]) -> dict[str, Any]:
    breakpoint_id, chain_id = (None, each.breakpoint_id) if each.admin else (each.breakpoint_id, None)
    values = (
        iso(each.at), breakpoint_id, each.seq, each.type, each.actor, each.gate, each.agent_id, each.title,
        metadata(each.metadata), each.previous, each.hash, chain_id, subject_of(each),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def event_body(each: Logged) -> dict[str, Any]:
    """Return an event as a JSON object."""
    return _row(each, msgspec.json.decode)


def _text(metadata: str) -> str:
    return metadata


def cell(value: object) -> str:
    """Format a value so that spreadsheets do not interpret it as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) else text


def _lines(rows: Any) -> bytes:  # noqa: ANN401  # rows of cells
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\r\n").writerows(rows)
    return written.getvalue().encode()
