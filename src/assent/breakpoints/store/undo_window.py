"""Answers in their undo window. A guarded DELETE removes each answer, so that it is applied or undone exactly once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from assent.breakpoints.undo_window import HeldAnswer, PendingAnswer
from assent.core.terms import Answer
from assent.db.sql import among, insert
from assent.db.transaction import Store, Transaction

COLUMNS = (
    "breakpoint_id", "person_id", "project_id", "answer", "override", "via", "batch", "due_at", "created_at",
)  # fmt: skip
_RETURNED = f"RETURNING {', '.join(COLUMNS)}"
UPSERT = insert(
    "assent_held_answers",
    COLUMNS,
    suffix="ON CONFLICT (breakpoint_id, person_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[2:]),
)
_THEIRS = "breakpoint_id = :breakpoint_id AND person_id = :person_id"
REMOVE = f"DELETE FROM assent_held_answers WHERE {_THEIRS} {_RETURNED}"
TAKE_DUE = f"DELETE FROM assent_held_answers WHERE {_THEIRS} AND due_at <= :now {_RETURNED}"
# Skips locked answers: they are taking effect, so it is too late to undo them and waiting would not help.
REMOVE_BATCH = f"""
    DELETE FROM assent_held_answers WHERE person_id = :person_id AND breakpoint_id IN (
        SELECT breakpoint_id FROM assent_held_answers
        WHERE person_id = :person_id AND batch = :batch AND project_id = :project_id{{lock}})
    {_RETURNED}"""
SELECT_DUE = """
    SELECT h.due_at, h.breakpoint_id, h.person_id
    FROM assent_held_answers h JOIN assent_breakpoints b ON b.id = h.breakpoint_id
    WHERE h.due_at <= :now AND (h.due_at, h.breakpoint_id, h.person_id) > (:due_at, :breakpoint_id, :person_id)
    ORDER BY h.due_at, h.breakpoint_id, h.person_id LIMIT 1"""
SELECT_NEXT_DUE = "SELECT due_at FROM assent_held_answers ORDER BY due_at LIMIT 1"
SELECT_ON = f"""
    SELECT {", ".join(COLUMNS)} FROM assent_held_answers
    WHERE breakpoint_id = :breakpoint_id ORDER BY created_at, person_id"""
SELECT_PENDING = """
    SELECT h.breakpoint_id, p.name, h.answer, h.due_at
    FROM assent_held_answers h JOIN assent_breakpoints b ON b.id = h.breakpoint_id
    JOIN assent_people p ON p.id = h.person_id
    WHERE h.person_id <> :without AND b.status = 'waiting' AND {these} ORDER BY h.created_at, h.person_id"""
SELECT_AMONG = "SELECT DISTINCT breakpoint_id FROM assent_held_answers WHERE {these}"
SELECT_HELD = """
    SELECT h.breakpoint_id, h.answer, h.batch, h.due_at
    FROM assent_held_answers h JOIN assent_breakpoints b ON b.id = h.breakpoint_id
    WHERE h.person_id = :person_id AND b.status = 'waiting' AND {these}"""


@dataclass(frozen=True, slots=True)
class Held:
    """A person's own answer in its undo window, as shown on a page."""

    breakpoint_id: str
    approved: bool
    batch: str | None
    due_at: int


@dataclass(frozen=True, slots=True)
class Key:
    """An answer's position when answers are sorted by due time."""

    due_at: int = -1
    breakpoint_id: str = ""
    person_id: str = ""


class HeldAnswers(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._postgres = tx.session.dialect == "postgresql"

    def put(self, held: HeldAnswer) -> None:
        """Store an answer, replacing any earlier answer by the same person."""
        row = {
            "breakpoint_id": held.breakpoint_id,
            "person_id": held.person_id,
            "project_id": held.project,
            "answer": msgspec.json.encode(asdict(held.answer)).decode(),
            "override": int(held.override),
            "via": held.via,
            "batch": held.batch,
            "due_at": held.due_at,
            "created_at": held.created_at,
        }
        self._session.write(UPSERT, [row])

    def remove(self, breakpoint_id: str, *, person_id: str) -> HeldAnswer | None:
        """Remove and return an answer, or return None if it does not exist."""
        found = self._take(REMOVE, {"breakpoint_id": breakpoint_id, "person_id": person_id})
        return found[0] if found else None

    def remove_batch(self, batch: str, *, person_id: str, project: str) -> list[HeldAnswer]:
        lock = " FOR UPDATE SKIP LOCKED" if self._postgres else ""
        params = {"batch": batch, "person_id": person_id, "project_id": project}
        return self._take(REMOVE_BATCH.format(lock=lock), params)

    def find_due(self, now: int, *, after: Key) -> Key | None:
        """Return the key of the next due answer, and lock its breakpoint. Skip breakpoints that are already locked."""
        lock = " FOR UPDATE OF b SKIP LOCKED" if self._postgres else ""
        rows = self._session.all(SELECT_DUE + lock, asdict(after) | {"now": now})
        return Key(*rows[0]) if rows else None

    def take_due(self, key: Key, *, now: int) -> HeldAnswer | None:
        """Remove and return a due answer, or return None if it was applied, undone or postponed in the meantime."""
        params = {"breakpoint_id": key.breakpoint_id, "person_id": key.person_id, "now": now}
        found = self._take(TAKE_DUE, params)
        return found[0] if found else None

    def held(self, breakpoint_ids: Sequence[str], *, person_id: str) -> dict[str, Held]:
        these, params = among("h.breakpoint_id", breakpoint_ids, self._session.dialect)
        rows = self._session.all(SELECT_HELD.format(these=these), params | {"person_id": person_id})
        return {row[0]: Held(row[0], msgspec.json.decode(row[1])["approved"], row[2], row[3]) for row in rows}

    def on(self, breakpoint_id: str) -> list[HeldAnswer]:
        """Return the pending answers to one breakpoint, oldest first; unreadable rows are left to `take_due`."""
        rows = self._session.all(SELECT_ON, {"breakpoint_id": breakpoint_id})
        return [found for row in rows if (found := _readable(row)) is not None]

    def among(self, breakpoint_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these breakpoints have pending answers."""
        these, params = among("breakpoint_id", breakpoint_ids, self._session.dialect)
        return frozenset(row[0] for row in self._session.all(SELECT_AMONG.format(these=these), params))

    def pending(self, breakpoint_ids: Sequence[str], *, without: str = "") -> dict[str, tuple[PendingAnswer, ...]]:
        """Return the pending answers to these breakpoints, except for those by the person `without`."""
        these, params = among("h.breakpoint_id", breakpoint_ids, self._session.dialect)
        found: dict[str, tuple[PendingAnswer, ...]] = {}
        for row in self._session.all(SELECT_PENDING.format(these=these), params | {"without": without}):
            pending = PendingAnswer(row[1], _approved(row[2]), row[3])
            found[row[0]] = (*found.get(row[0], ()), pending)
        return found

    def of_batch(self, batch: str, *, person_id: str, project: str) -> list[Held]:
        params = {"batch": batch, "person_id": person_id, "project_id": project}
        these = "h.batch = :batch AND h.project_id = :project_id"
        rows = self._session.all(SELECT_HELD.format(these=these), params)
        return [Held(row[0], msgspec.json.decode(row[1])["approved"], row[2], row[3]) for row in rows]

    def _take(self, statement: str, params: dict[str, Any]) -> list[HeldAnswer]:
        rows = self._session.all(statement, params)
        # The session treats the DELETE as a read because it returns rows.
        self._session.dirty = self._session.dirty or bool(rows)
        return [_held_answer(row) for row in rows]


def _approved(answer: str) -> bool:
    try:
        return bool(msgspec.json.decode(answer)["approved"])
    # An unreadable answer must not break the pages that show it.
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


def _readable(row: Sequence[Any]) -> HeldAnswer | None:
    try:
        return _held_answer(row)
    except (msgspec.DecodeError, TypeError):
        return None


def _held_answer(row: Sequence[Any]) -> HeldAnswer:
    value = dict(zip(COLUMNS, row, strict=True))
    return HeldAnswer(
        breakpoint_id=value["breakpoint_id"],
        person_id=value["person_id"],
        project=value["project_id"],
        answer=Answer(**msgspec.json.decode(value["answer"])),
        override=bool(value["override"]),
        via=value["via"],
        batch=value["batch"],
        due_at=value["due_at"],
        created_at=value["created_at"],
    )
