"""Epochs: a restore begins a new one and invalidates what a backup must not revive."""

from collections.abc import Callable

from assent.domain.admin_log import INSTALLATION
from assent.ports import Session
from assent.store.admin_log import AdminLog
from assent.store.sql import insert

TABLE = "assent_epochs"
# The clock of the restoring machine may be behind that of the machine that wrote the data.
LATEST = """
    SELECT coalesce((SELECT max(number) FROM assent_epochs), 0) + 1 AS number, max(moment) AS at FROM (
        SELECT CAST(:now AS bigint) AS moment UNION ALL SELECT max(updated_at) FROM assent_breakpoints) AS moments"""
VOID = {
    "assent_sessions": "DELETE FROM assent_sessions",
    "assent_sign_in_links": "UPDATE assent_sign_in_links SET used_at = :now WHERE used_at IS NULL",
    "assent_link_offers": "DELETE FROM assent_link_offers",
    TABLE: f"INSERT INTO assent_epochs (number, at, reason) SELECT number, at, 'restore' FROM ({LATEST}) AS new",
}
"""Statements that end the previous epoch, by table; a backup with an older schema may lack some of the tables."""
INSERT = insert(TABLE, ("number", "at", "reason"))


def void(tables: frozenset[str], execute: Callable[[str], object]) -> None:
    """Begin a new epoch in data that is not in use yet."""
    for table, statement in VOID.items():
        if table in tables:
            execute(statement)


class Epochs:
    def __init__(self, session: Session, log: AdminLog) -> None:
        self._session = session
        self._log = log

    def last(self) -> int:
        """Return when the current epoch began, or 0 if the data was never restored."""
        rows = self._session.all("SELECT max(at) FROM assent_epochs", {})
        return int(rows[0][0] or 0)

    def restored(self, *, backup: str, now: int) -> None:
        """Record a restore; if the data had no epochs table yet, begin the epoch now."""
        rows = self._session.all("SELECT number, at FROM assent_epochs ORDER BY number DESC LIMIT 1", {})
        if not rows or rows[0][1] < now:
            rows = self._session.all(LATEST, {"now": now})
            self._session.write(INSERT, [{"number": rows[0][0], "at": rows[0][1], "reason": "restore"}])
        number, at = rows[0]
        self._log.record(
            "data-restored", f"epoch:{number}", project=INSTALLATION, after={"at": at}, more={"backup": backup}
        )
