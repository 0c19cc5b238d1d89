"""Indexes the words of breakpoints that were created by versions without a word index."""

import json
from typing import Any

import sqlalchemy as sa

from assent.breakpoints.search_words import indexed_words

BATCH_ROWS = 1_000
RECENT_ROWS = 50_000
"""More rows than an older node creates during a rolling update."""
_MISSING = sa.text("""
    SELECT b.ordinal, b.id, b.gate, b.agent_id, b.run_id, b.tags, b.title, b.question FROM assent_breakpoints b
    LEFT JOIN assent_breakpoint_words w ON w.ordinal = b.ordinal
    WHERE b.ordinal > :after AND b.purged_at IS NULL AND w.ordinal IS NULL ORDER BY b.ordinal LIMIT :limit""")
_INSERT = sa.text(
    "INSERT INTO assent_breakpoint_words (ordinal, words) VALUES (:ordinal, :words) ON CONFLICT DO NOTHING"
)
_LAST = sa.text("SELECT coalesce(max(ordinal), 0) FROM assent_breakpoints")


def index_all(connection: sa.Connection) -> None:
    """Store the words of every breakpoint that lacks them; SQLite's word index must be rebuilt afterwards."""
    _index(connection, after=0)


def index_recent(connection: sa.Connection) -> None:
    """Store the words of breakpoints that an older node created during a rolling update."""
    _index(connection, after=connection.execute(_LAST).scalar_one() - RECENT_ROWS)


def _index(connection: sa.Connection, *, after: int) -> None:
    while rows := connection.execute(_MISSING, {"after": after, "limit": BATCH_ROWS}).all():
        connection.execute(_INSERT, [{"ordinal": row.ordinal, "words": _words(row)} for row in rows])
        after = rows[-1].ordinal


def _words(row: sa.Row[Any]) -> str:
    tags = json.loads(row.tags)
    return indexed_words(row.id, row.gate, row.agent_id, row.run_id, *tags, row.title, row.question)
