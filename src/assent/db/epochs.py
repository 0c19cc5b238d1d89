"""Begins a new epoch in restored data, which invalidates what a backup must not revive."""

from collections.abc import Callable

from assent.db.sql import insert

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
