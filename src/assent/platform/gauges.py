"""Values for monitoring, read every few seconds in one query that stays fast in large databases."""

from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.kernel.telemetry import Figures

CAP = 50_000
"""Counting stops here, because the exact number does not matter beyond this point."""
WATCHED = ("pending", "sending", "dead")
# Each part uses an index and stops at the cap. The comparisons with 0 are always true, but make SQLite use the small
# index of open rows. Parts without such an index are queried for one project at a time.
FIGURES = """
    SELECT
      (SELECT count(*) FROM (SELECT 1 FROM assent_breakpoints
                             WHERE status = 'waiting' AND due_at >= 0 LIMIT :cap) AS waiting),
      (SELECT min((SELECT b.created_at FROM assent_breakpoints b
                   WHERE b.project_id = p.id AND b.status = 'waiting' ORDER BY b.created_at LIMIT 1))
       FROM assent_projects p),
      (SELECT count(*) FROM (SELECT 1 FROM assent_deliveries WHERE state IN ('pending', 'sending') AND next_at >= 0
                             AND state = 'pending' LIMIT :cap) AS queued),
      (SELECT count(*) FROM (SELECT 1 FROM assent_deliveries WHERE state IN ('pending', 'sending') AND next_at >= 0
                             AND state = 'sending' LIMIT :cap) AS going),
      (SELECT CAST(coalesce(sum((SELECT count(*) FROM (SELECT 1 FROM assent_deliveries d WHERE d.project_id = p.id
                                                       AND d.state = 'dead' LIMIT :cap) AS given_up)), 0) AS BIGINT)
       FROM assent_projects p),
      (SELECT next_at FROM assent_deliveries WHERE state IN ('pending', 'sending') AND next_at >= 0
       AND state = 'pending' ORDER BY next_at LIMIT 1),
      (SELECT count(*) FROM (SELECT 1 FROM assent_unsigned_events LIMIT :cap) AS unsigned),
      (SELECT at FROM assent_checkpoints ORDER BY number DESC LIMIT 1)"""


async def read_figures(database: Database[Transaction], now: int) -> Figures:
    rows = await database.fetch_page(FIGURES, {"cap": CAP})
    pending, oldest, queued, going, dead, due, unsigned, signed_at = rows[0]
    return Figures(
        pending=pending,
        oldest_pending_seconds=_since(oldest, now),
        deliveries=dict(zip(WATCHED, (queued, going, dead), strict=True)),
        delivery_lag_seconds=_since(due, now),
        unsigned_events=unsigned,
        checkpoint_age_seconds=_since(signed_at, now),
    )


def _since(at: int | None, now: int) -> float:
    return 0.0 if at is None else max(0, now - at) / SECOND
