"""Wraps one of our connections as a SQLAlchemy Connection that uses our transaction and never ends it."""

from typing import Any

import sqlalchemy as sa


def adopted(connection: Any, url: str) -> sa.Connection:  # noqa: ANN401  # a connection of sqlite3 or psycopg
    """Wrap before the first transaction, because SQLAlchemy runs queries on a new connection and rolls back."""
    engine = sa.create_engine(url, creator=lambda: connection, poolclass=sa.StaticPool, pool_reset_on_return=None)
    opened = engine.connect()
    opened.execute(sa.text("SELECT 1")).close()
    return opened
