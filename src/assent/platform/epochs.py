"""Epochs: each restore begins a new epoch, which invalidates what a backup must not revive."""

from assent.db.epochs import INSERT, LATEST
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import INSTALLATION
from assent.platform.admin_log import AdminLog


class Epochs(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

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
