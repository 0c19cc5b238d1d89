"""The data of an installation, without a node: its directory, schema, encryption keys and configuration file."""

import contextlib
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from assent.breakpoints.store.search_index import index_recent
from assent.db import migrations
from assent.db.postgres import alchemy_url
from assent.db.read_only import immutable_engine
from assent.db.server_lock import DataInUse, ServerLock, holder_of
from assent.db.sqlite import WriteLock, create_private, schema_engine
from assent.db.tables import metadata
from assent.delivery.channels.tools import Tools
from assent.delivery.usecases.channels import ChannelService, Reach
from assent.kernel.clock import SystemClock
from assent.kernel.keyring import KeyFile, Keyring
from assent.kernel.outbound import Outbound
from assent.kernel.settings import Settings, resolve
from assent.platform import queue
from assent.platform.config_file import Given
from assent.triggers.sources.tools import source_tools
from assent.triggers.usecases.config_reload import Setup
from assent.triggers.usecases.sources import SourceService


class MissingTables(NamedTuple):
    own: list[str]
    engine: list[str]
    """The tables of DBOS, which stores the jobs."""


@contextlib.contextmanager
def _schema_engine(settings: Settings, *, read_only: bool = False) -> Generator[sa.Engine, None, None]:
    """Open the data independently of a node's connections; on SQLite, hold the write lock unless `read_only`."""
    if settings.database_url:
        yield sa.create_engine(alchemy_url(settings.database_url), poolclass=sa.NullPool)
        return
    if read_only:
        yield immutable_engine(settings.sqlite_path)
        return
    lock = WriteLock(settings.write_lock_path)
    try:
        with lock:
            yield schema_engine(settings.sqlite_path)
    finally:
        lock.close()


def prepare_directory(settings: Settings) -> None:
    """Create the directory of the SQLite file, accessible only to its owner."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)


def serving_alone(settings: Settings) -> contextlib.AbstractContextManager[ServerLock | None]:
    """Acquire the lock that allows one server per SQLite directory; on PostgreSQL, any number of nodes may run."""
    if settings.database_url:
        return contextlib.nullcontext()
    prepare_directory(settings)
    create_private(settings.sqlite_path)
    return ServerLock(settings.server_lock_path, settings.sqlite_path)


def migrate(settings: Settings) -> None:
    """Migrate the data to the newest schema, creating it if it does not exist."""
    if not settings.database_url:
        prepare_directory(settings)
        _refuse_migrating_under_server(settings)
        # Created before SQLite opens it, because SQLite would create it with the default permissions.
        create_private(settings.sqlite_path)
    with _schema_engine(settings) as engine:
        migrations.upgrade(engine)
        if settings.database_url:
            with engine.begin() as connection:
                index_recent(connection)
        # DBOS creates its tables itself, so two nodes that start together must not do this concurrently.
        with migrations.alone(engine):
            queue.prepare(engine, settings.database_url)


def schema(settings: Settings, *, read_only: bool = False) -> tuple[str | None, str | None]:
    """Return the schema version of the data and the newest version, without changing anything."""
    if not settings.database_url and not settings.sqlite_path.exists():
        return None, migrations.newest()
    with _schema_engine(settings, read_only=read_only) as engine:
        return migrations.current(engine), migrations.newest()


def _refuse_migrating_under_server(settings: Settings) -> None:
    """Raise if a server is using an older schema: it would keep writing to the migrated tables."""
    holder = holder_of(settings.server_lock_path)
    if holder is None or holder.pid == os.getpid():
        return
    current, newest = schema(settings)
    if current not in {None, newest}:
        msg = (
            f"The data in {settings.data_dir} must be migrated from version {current} to {newest}, but a server"
            f" running another version is using it ({holder}). Stop that server first."
        )
        raise DataInUse(msg)


def missing_tables(settings: Settings, *, read_only: bool = False) -> MissingTables:
    """Return the tables of the newest schema that the data does not have."""
    with _schema_engine(settings, read_only=read_only) as engine, engine.connect() as connection:
        found = sa.inspect(connection)
        own = set(found.get_table_names())
        jobs = set(found.get_table_names(schema=queue.SCHEMA)) if settings.database_url else own
    return MissingTables(sorted(set(metadata.tables) - own), sorted(queue.TABLES - jobs))


def key_file(settings: Settings) -> KeyFile:
    return KeyFile(settings.key_path, secrets.token_bytes)


def keyring_of(settings: Settings) -> Keyring:
    """Return the keyring: keys from the settings, or on SQLite from a file that is created when first needed."""
    references = settings.secret_keys
    if references is not None:
        return Keyring(lambda: [(each, resolve(each)) for each in references], secrets.token_bytes)
    if settings.database_url:
        # Nodes do not share a disk: with a generated key for each of them, they could not read one another's secrets.
        return Keyring(list, secrets.token_bytes)
    file = key_file(settings)
    return Keyring(file.read, secrets.token_bytes, make=file.make)


def setup_of(settings: Settings, given: Given, *, base: Path) -> Setup:
    """Read channels, routes, sources and triggers without a node; its `problems` describe the errors in them."""
    outbound = Outbound(allow=settings.outbound_networks)
    clock, reach = SystemClock(), Reach(settings.data_dir)
    tools = Tools(outbound, resolve, clock.now, secrets.token_bytes, settings.base_url)
    sources = SourceService(source_tools(settings, clock, base), reach)
    return Setup(given, ChannelService(tools, reach), sources)
