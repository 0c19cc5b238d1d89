"""Checks that the database is reachable, accepts writes, and has the tables that this code expects."""

import sqlite3

import psycopg

from assent.core.errors import Unavailable
from assent.db import migrations
from assent.db.sqlite import DAMAGED_TEXT
from assent.db.transaction import Transaction
from assent.kernel.ports import Database

# Follows the path of every write, but changes nothing. SQLite does not write anything for an UPDATE to the same value,
# so a full disk would go unnoticed; the pragma writes the first page. A read-only PostgreSQL rejects even an UPDATE
# that affects no rows.
TOUCH = {
    "sqlite": "PRAGMA user_version = 0",
    "postgresql": "UPDATE assent_projects SET name = name WHERE id IS NULL",
}
VERSION = "SELECT version_num FROM assent_version"


async def usable(database: Database[Transaction]) -> None:
    """Raise Unavailable with the reason, unless breakpoints can be written."""
    if database.damaged:
        raise Unavailable(DAMAGED_TEXT)
    try:
        behind = await database.write(_probe)
    except (sqlite3.Error, psycopg.Error) as error:
        msg = "The database is not accepting writes."
        raise Unavailable(msg) from error
    if behind:
        msg = "The database schema version does not match this node. Run: assent migrate"
        raise Unavailable(msg)


def _probe(tx: Transaction) -> bool:
    tx.session.change(TOUCH[tx.session.dialect], {})
    rows = tx.session.all(VERSION, {})
    return migrations.behind(rows[0][0] if rows else None)
