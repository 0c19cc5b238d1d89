"""The schema migrations; `upgrade` runs those that are pending."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from assent.core.errors import AssentError

_ADVISORY_LOCK = 7_373_001


class TooNew(AssentError):
    """The schema version of the data is not known to this version of Assent."""

    code = "too_new"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def upgrade(engine: sa.Engine) -> None:
    """Migrate the database to the newest version; safe when several nodes start at once."""
    config = _config()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        _refuse_newer(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _refuse_newer(connection: sa.Connection) -> None:
    there = _version(connection)
    if there is not None and not known(there):
        msg = (
            f"The data has schema version {there}, created by a newer version of Assent. Start that version or a "
            "later one."
        )
        raise TooNew(msg)


def upgrade_inside(connection: sa.Connection, version: str) -> None:
    """Migrate an empty database to one version, within the caller's transaction and excluding other nodes."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def known(version: str) -> bool:
    return version in {each.revision for each in ScriptDirectory.from_config(_config()).walk_revisions()}


@contextmanager
def alone(engine: sa.Engine) -> Generator[None, None, None]:
    """Prevent other nodes from migrating during the block; on SQLite, the caller's write lock does that."""
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})"))
        yield


def current(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        return _version(connection)


def _version(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": "assent_version"}).get_current_revision()


def newest() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


@lru_cache(maxsize=8)
def behind(version: str | None) -> bool:
    """Return whether a version is older than the newest.

    An unknown version counts as newer: a newer version is being rolled out, and its additions do not affect this node.
    """
    known = {each.revision for each in ScriptDirectory.from_config(_config()).walk_revisions()}
    return version is None or (version in known and version != newest())
