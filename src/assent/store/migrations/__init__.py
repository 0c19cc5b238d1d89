"""How the tables came to be, step by step; `upgrade` runs what is missing."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

_ADVISORY_LOCK = 7_373_001


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def upgrade(engine: sa.Engine) -> None:
    """Bring the database to the newest version; safe when several nodes start at once."""
    config = _config()
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def current(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection, opts={"version_table": "assent_version"}).get_current_revision()


def newest() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()
