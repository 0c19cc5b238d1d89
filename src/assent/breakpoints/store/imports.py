"""Imported breakpoints: written in their final state, without notifying anyone."""

from collections.abc import Mapping, Sequence

from assent.breakpoints.store.breakpoints import (
    INSERT,
    INSERT_EVENT,
    INSERT_LABEL,
    INSERT_WORDS,
    UPDATE,
    UPDATE_LABELS,
    Breakpoints,
    NewRows,
    row_of,
)
from assent.core.access import Actor, Kind
from assent.core.importing import Retold, name_of
from assent.db.sql import among
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import INSTALLATION
from assent.platform.admin_log import AdminLog

_MOVED = (
    "id", "status", "decision", "updated_at", "ended_at", "ended_by", "result", "version", "head", "comments", "votes",
)  # fmt: skip
# An answer cannot be older than its author's account, so backdate the account to the time of the first answer.
UPDATE_SINCE = "UPDATE assent_people SET created_at = :at WHERE id = :id AND created_at > :at"


class Imports(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]
        self._breakpoints = tx[Breakpoints]
        self._new_id = tx.new_id

    def known(self, ids: Sequence[str]) -> frozenset[str]:
        """Return which of these breakpoints already exist."""
        test, params = among("id", ids, self._session.dialect)
        return frozenset(row[0] for row in self._session.all(f"SELECT id FROM assent_breakpoints WHERE {test}", params))

    def since(self, person_id: str, at: int) -> None:
        with self._log.changes("person", person_id, project=INSTALLATION):
            self._session.change(UPDATE_SINCE, {"id": person_id, "at": at})

    def add(self, retold: Retold, *, people: Mapping[str, str]) -> None:
        """Write a breakpoint as created, then its answers, then its end, because ended breakpoints reject answers."""
        session, ended = self._session, retold.ended
        rows = NewRows.of(retold.raised, retold.events)
        session.write(INSERT, [rows.row])
        for statement in INSERT_WORDS[session.dialect]:
            session.write(statement, [{"words": rows.words}])
        session.write(INSERT_EVENT, rows.events)
        if rows.labels:
            session.write(INSERT_LABEL, rows.labels)
        for said in retold.comments:
            author = Actor(Kind.PERSON, name_of(said.author))
            self._breakpoints.add_comment(
                self._new_id("fb"), ended.id, author=author, comment=said.comment or "", at=said.at
            )
        if retold.response is not None:
            self._breakpoints.put_response(ended.id, retold.response, person_id=people[retold.response.person])
        after = row_of(ended)
        session.write(UPDATE, [{name: after[name] for name in _MOVED} | {"expected": retold.raised.version}])
        session.write(UPDATE_LABELS, [{"id": ended.id, "status": ended.status.value}])
