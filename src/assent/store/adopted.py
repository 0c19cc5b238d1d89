"""One of our own connections as SQLAlchemy knows connections, inside our transaction and never ending it."""

from typing import Any

import sqlalchemy as sa


def adopted(connection: Any, url: str) -> sa.Connection:  # noqa: ANN401  # sqlite3's or psycopg's
    """Take it over before the first transaction: SQLAlchemy asks a new one a few things and rolls back."""
    engine = sa.create_engine(url, creator=lambda: connection, poolclass=sa.StaticPool, pool_reset_on_return=None)
    opened = engine.connect()
    opened.execute(sa.text("SELECT 1")).close()
    return opened
