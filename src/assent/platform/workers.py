"""Live workers, with the time at which each was last seen."""

from assent.db.transaction import Store

BEAT = """
    INSERT INTO assent_workers (id, host, pid, started_at, seen_at) VALUES (:id, :host, :pid, :now, :now)
    ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at"""
FORGET = "DELETE FROM assent_workers WHERE seen_at < :before"
LEAVE = "DELETE FROM assent_workers WHERE id = :id"
SELECT = "SELECT id FROM assent_workers ORDER BY id"
SELECT_HOSTS = "SELECT DISTINCT host FROM assent_workers ORDER BY host"


class Workers(Store):
    def beat(self, worker: str, *, host: str, pid: int, now: int) -> None:
        self._session.write(BEAT, [{"id": worker, "host": host, "pid": pid, "now": now}])

    def forget(self, before: int) -> int:
        """Remove workers that have not been seen since that time; return how many."""
        return self._session.change(FORGET, {"before": before})

    def leave(self, worker: str) -> None:
        self._session.write(LEAVE, [{"id": worker}])

    def alive(self) -> list[str]:
        return [row[0] for row in self._session.all(SELECT, {})]

    def hosts(self) -> list[str]:
        """Return the hosts that have a worker."""
        return [row[0] for row in self._session.all(SELECT_HOSTS, {})]
