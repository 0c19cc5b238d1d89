"""Is the database there, does it take writes, and are its tables the ones this code was written for?"""

import sqlite3

import psycopg

from assent.domain.errors import Unavailable
from assent.ports import Database
from assent.store import migrations
from assent.store.sqlite import DAMAGED_TEXT
from assent.store.transaction import Transaction

# Takes the way of every write and changes nothing. For an UPDATE to the same value SQLite writes nothing, and a full
# disk would look well; this writes its first page. A PostgreSQL that only reads refuses even an UPDATE of no row.
TOUCH = {
    "sqlite": "PRAGMA user_version = 0",
    "postgresql": "UPDATE assent_projects SET name = name WHERE id IS NULL",
}
VERSION = "SELECT version_num FROM assent_version"


async def usable(database: Database[Transaction]) -> None:
    """Raise Unavailable, saying what is wrong, unless breakpoints can be written."""
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
