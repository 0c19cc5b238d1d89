"""The log of admin events, each written in the transaction that it describes."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from assent.core.access import Actor
from assent.core.canonical import Json
from assent.db.sql import among, insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import (
    BASELINE,
    INSTALLATION,
    SYSTEM,
    AdminEvent,
    Head,
    State,
    chain_of,
    chained,
    use_chain,
    via_of,
)
from assent.platform.admin_state import KINDS, STATE_VERSION, AdminState

COLUMNS = ("chain_id", "seq", "project_id", "type", "actor", "at", "metadata", "previous", "hash")
INSERT = insert("assent_admin_events", COLUMNS)
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_admin_events"
ADD_CHAIN = insert("assent_admin_chains", ("id", "version", "head"), suffix="ON CONFLICT DO NOTHING")
SELECT_HEAD = "SELECT version, head FROM assent_admin_chains WHERE id = :id"
MOVE_HEAD = "UPDATE assent_admin_chains SET version = :version, head = :head WHERE id = :id"
SELECT_BASELINE = f"""
    {SELECT} WHERE chain_id = :chain_id AND type = '{BASELINE}' ORDER BY seq DESC LIMIT 1"""

SELECT_ABOUT = f"{SELECT} WHERE chain_id = :chain_id AND metadata LIKE :like ORDER BY seq"


class AdminLog(Store):
    """Heads are cached for the duration of a transaction, because reading one locks its row until the end."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._now = tx.now
        self._tx = tx
        self._heads: dict[str, Head] = {}
        self._state = tx[AdminState]

    def clear(self) -> None:
        """Clear the cached heads, because a new transaction begins."""
        self._heads.clear()

    def record(  # noqa: PLR0913  # the parts of an event
        self,
        act: str,
        subject: str,
        *,
        project: str,
        before: Json = None,
        after: Json = None,
        more: Mapping[str, Json] | None = None,
        chain: str | None = None,
    ) -> None:
        """Append an event; include only fingerprints of secrets."""
        chain_id = chain_of(project) if chain is None else chain
        head = self._head(chain_id) if chain is None else Head()
        by = self._tx.by
        actor, via = (SYSTEM, None) if by is None else (by.actor, via_of(by))
        # Auditors of the acting principal's project can see its actions on the whole installation.
        seen_by = by.project if project == INSTALLATION and by is not None else project
        metadata: dict[str, Json] = {"project": seen_by, "subject": subject, "before": before, "after": after}
        metadata |= {"via": via} if via is not None else {}
        metadata |= more or {}
        new = chained(
            AdminEvent(chain_id, head.version + 1, seen_by, act, actor, self._now(), metadata, previous=head.hash)
        )
        self._session.write(INSERT, [_row(new)])
        if chain is None:
            self._session.write(MOVE_HEAD, [{"id": chain_id, "version": new.seq, "head": new.hash}])
            self._heads[chain_id] = Head(new.seq, new.hash)

    @contextmanager
    def changes(self, kind: str, key: str, *, project: str, act: str | None = None) -> Generator[None, None, None]:
        """Record how the block changes a subject, if it does."""
        self._head(chain_of(project))  # lock first, so that no other transaction changes the subject
        before = self._state.one(kind, key, project=project)
        yield
        after = self._state.one(kind, key, project=project)
        if before == after:
            return
        found = after or before
        assert found is not None, "the states differ, so at least one exists"
        verb = "created" if before is None else "removed" if after is None else "changed"
        self.record(act or f"{kind}-{verb}", found.subject, project=project, before=_value(before), after=_value(after))

    def about(self, subject: str, *, project: str) -> list[AdminEvent]:
        """Return the events about one subject, oldest first."""
        # LIKE only preselects the rows, because it treats an underscore in the subject as a wildcard.
        params = {"chain_id": chain_of(project), "like": f'%"subject":{msgspec.json.encode(subject).decode()}%'}
        return [each for each in map(event_of, self._session.all(SELECT_ABOUT, params)) if each.subject == subject]

    def receipt_used(self, breakpoint_id: str, *, project: str) -> None:
        """Record the use of a receipt, in a separate chain."""
        used = self._state.one("receipt", breakpoint_id, project=project)
        assert used is not None, "the caller has just stored it"
        self.record(
            "receipt-used", used.subject, project=project, after=dict(used.value), chain=use_chain(breakpoint_id)
        )

    def baseline(self) -> None:
        """Record the current state of the kinds and fields that the previous version of Assent did not record.

        All other state must follow from the recorded events, because a baseline would hide who made a change.
        """
        self._head(chain_of(INSTALLATION))
        rows = self._session.all(SELECT_BASELINE, {"chain_id": chain_of(INSTALLATION)})
        known: Mapping[str, Any] = event_of(rows[0]).metadata if rows else {}
        if known.get("version") == STATE_VERSION:
            return
        recorded = self._recorded() if known else {}
        covered = set(known.get("kinds") or (subject.partition(":")[0] for _, subject in recorded))
        for state in list(self._state.every()):
            last = recorded.get((state.chain_id, state.subject))
            if last is None and state.subject.partition(":")[0] in covered:
                continue  # its creation was not recorded, or it was recorded as removed: left for the audit to report
            if last is None or state.value.keys() - last.keys():
                self._baselined(state, last)
        after: dict[str, Json] = {"version": STATE_VERSION, "kinds": sorted(KINDS)}
        self.record(BASELINE, BASELINE, project=INSTALLATION, before=None, after=None, more=after)

    def _baselined(self, state: State, last: Mapping[str, Json] | None) -> None:
        alone = state.chain_id != chain_of(state.project)
        # The chain of a used receipt always consists of one event.
        if alone and last is not None:
            return
        chain = state.chain_id if alone else None
        after = {**state.value, **(last or {})}
        self.record(BASELINE, state.subject, project=state.project, before=last, after=after, chain=chain)

    def _recorded(self) -> dict[tuple[str, str], Mapping[str, Json] | None]:
        """Return the last recorded state of every subject; None if it was removed."""
        found: dict[tuple[str, str], Mapping[str, Json] | None] = {}
        for row in self._session.all(f"{SELECT} ORDER BY chain_id, seq", {}):
            event = event_of(row)
            after: Any = event.metadata.get("after")
            found[event.chain_id, event.subject] = after
        return found

    def _head(self, chain_id: str) -> Head:
        known = self._heads.get(chain_id)
        if known is None:
            known = self._heads[chain_id] = self._locked(chain_id)
        return known

    def version(self, chain_id: str, *, projects: Sequence[str]) -> int:
        """Return the number of events in a chain that are visible to these projects."""
        test, params = among("project_id", projects, self._session.dialect)
        statement = f"SELECT count(*) FROM assent_admin_events WHERE chain_id = :chain_id AND {test}"
        return int(self._session.all(statement, params | {"chain_id": chain_id})[0][0])

    def _locked(self, chain_id: str) -> Head:
        lock = " FOR UPDATE" if self._session.dialect == "postgresql" else ""
        rows = self._session.all(SELECT_HEAD + lock, {"id": chain_id})
        if not rows:
            new = Head()
            # Read it again, because another transaction may have inserted the row and appended events first.
            self._session.write(ADD_CHAIN, [{"id": chain_id, "version": new.version, "head": new.hash}])
            rows = self._session.all(SELECT_HEAD + lock, {"id": chain_id})
        return Head(*rows[0])


def _value(state: State | None) -> dict[str, Json] | None:
    return dict(state.value) if state is not None else None


def _row(event: AdminEvent) -> dict[str, Any]:
    return {
        "chain_id": event.chain_id,
        "seq": event.seq,
        "project_id": event.project,
        "type": event.type,
        "actor": str(event.actor),
        "at": event.at,
        "metadata": msgspec.json.encode(event.metadata).decode(),
        "previous": event.previous,
        "hash": event.hash,
    }


def event_of(row: Sequence[Any]) -> AdminEvent:
    chain_id, seq, project, kind, actor, at, metadata, previous, hashed = row
    return AdminEvent(
        chain_id, seq, project, kind, Actor.parse(actor), at, msgspec.json.decode(metadata), previous, hashed
    )
