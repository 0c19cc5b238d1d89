"""Reads admin events and the state that they describe, for verification."""

from collections.abc import Iterator, Sequence

from assent.db.sql import Row, among
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import BASELINE, CHAIN, INSTALLATION, USE_CHAIN, Head, State
from assent.platform.admin_log import SELECT
from assent.platform.admin_state import KINDS, AdminState

RECEIPT = "receipt"
_CHAINS = f"{SELECT} WHERE chain_id >= '{CHAIN}' AND chain_id < '{CHAIN[:-1]}`'"
_USES = f"{SELECT} WHERE chain_id > :after AND chain_id >= '{USE_CHAIN}' AND chain_id < '{USE_CHAIN[:-1]}`'"
_PREFERENCES = "notification-preferences"
_ROUTES = f"""{_CHAINS} AND (metadata LIKE '%"subject":"route:%' OR (chain_id = '{CHAIN}{INSTALLATION}'
    AND metadata LIKE '%"subject":"{_PREFERENCES}:%')) ORDER BY chain_id, seq"""
_BEGAN = f"SELECT min(at) FROM assent_admin_events WHERE chain_id = '{CHAIN}{INSTALLATION}' AND type = '{BASELINE}'"
_COVERED = f"""{_BEGAN} AND metadata LIKE '%"subject":"{BASELINE}"%' AND metadata LIKE '%"{_PREFERENCES}"%'"""
_ONE_PROJECT = " AND project_id = :project"
_HEADS = "SELECT id, version, head FROM assent_admin_chains"
_UNRECORDED = f"""
    SELECT u.breakpoint_id FROM assent_receipt_uses u LEFT JOIN assent_breakpoints b ON b.id = u.breakpoint_id
    WHERE NOT EXISTS (SELECT 1 FROM assent_admin_events a WHERE a.chain_id = '{USE_CHAIN}' || u.breakpoint_id)"""


class AdminAudit(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._state = tx[AdminState]

    def chains(self, project: str | None) -> Sequence[Row]:
        """Return the events of all admin chains, or of one project's chain, in order."""
        test = " AND chain_id = :chain_id" if project is not None else ""
        return self._session.all(f"{_CHAINS}{test} ORDER BY chain_id, seq", {"chain_id": f"{CHAIN}{project}"})

    def heads(self, project: str | None) -> dict[str, Head]:
        test = " WHERE id = :id" if project is not None else ""
        rows = self._session.all(f"{_HEADS}{test}", {"id": f"{CHAIN}{project}"})
        return {row[0]: Head(row[1], row[2]) for row in rows}

    def states(self, project: str | None) -> Iterator[State]:
        """Return the current state of all subjects except receipts, because millions of receipts may exist."""
        for kind in KINDS:
            if kind != RECEIPT:
                yield from (each for each in self._state.of(kind) if project in (None, each.project))

    def routes(self) -> Sequence[Row]:
        """Return the events about routes and preferences, in chain order."""
        return self._session.all(_ROUTES, {})

    def began_at(self) -> int | None:
        """Return when the first baseline was recorded."""
        began: int | None = self._session.all(_BEGAN, {})[0][0]
        return began

    def preferences_began_at(self) -> int | None:
        """Return when the first baseline that covers preferences was recorded."""
        began: int | None = self._session.all(_COVERED, {})[0][0]
        return began

    def uses(self, *, after: str, limit: int, project: str | None) -> Sequence[Row]:
        """Return a batch of events about used receipts."""
        test = _ONE_PROJECT if project is not None else ""
        params = {"after": after, "limit": limit, "project": project}
        return self._session.all(f"{_USES}{test} ORDER BY chain_id, seq LIMIT :limit", params)

    def used(self, chain_ids: Sequence[str]) -> dict[str, State]:
        """Return the stored state of these used receipts, by chain."""
        ids = [each.removeprefix(USE_CHAIN) for each in chain_ids]
        test, params = among("u.breakpoint_id", ids, self._session.dialect)
        return {each.chain_id: each for each in self._state.of(RECEIPT, test, params)}

    def unrecorded_uses(self, project: str | None) -> list[str]:
        test = " AND b.project_id = :project" if project is not None else ""
        return [row[0] for row in self._session.all(f"{_UNRECORDED}{test}", {"project": project})]
