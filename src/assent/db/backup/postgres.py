"""PostgreSQL backups: every row of our tables and those of DBOS, copied from one snapshot."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from psycopg import sql

from assent.db import migrations
from assent.db.backup import SELECT_CHAINS, SELECT_KEY_IDS, require_same, verified_heads
from assent.db.backup.archive import Archive, Manifest, Progress, Refused, Writer
from assent.db.epochs import void
from assent.db.postgres import alchemy_url
from assent.db.sql import for_psycopg

QUEUE = "dbos"
# Copying a large table may take longer than the server or the role usually allows.
PATIENT = "SELECT set_config('statement_timeout', '0', true)"
VERSIONS = ("assent_version", "dbos_migrations")
SELECT_TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname = %(schema)s AND c.relname LIKE %(like)s ORDER BY c.relname"""
SELECT_COLUMNS = """
    SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attnum"""
SELECT_REFERENCES = """
    SELECT f.relname, t.relname FROM pg_constraint c
    JOIN pg_class f ON f.oid = c.conrelid JOIN pg_class t ON t.oid = c.confrelid
    JOIN pg_namespace n ON n.oid = f.relnamespace
    WHERE c.contype = 'f' AND n.nspname = %(schema)s AND f.relname <> t.relname"""
SELECT_FUNCTIONS = """
    SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = %(schema)s AND p.proname LIKE %(like)s"""
# Everything in DBOS's tables besides their columns, in an order in which these objects can be created.
SELECT_REST = """
    SELECT 1, pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = %(schema)s
    UNION ALL
    SELECT CASE c.contype WHEN 'f' THEN 4 ELSE 2 END,
           format('ALTER TABLE %%s ADD CONSTRAINT %%I ', c.conrelid::regclass, c.conname) || pg_get_constraintdef(c.oid)
    FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
    WHERE n.nspname = %(schema)s AND c.contype IN ('p', 'u', 'c', 'f', 'x')
    UNION ALL
    SELECT 3, pg_get_indexdef(i.indexrelid) FROM pg_index i
    JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = %(schema)s AND NOT EXISTS (
      SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
    UNION ALL
    SELECT 5, pg_get_triggerdef(g.oid) FROM pg_trigger g
    JOIN pg_class t ON t.oid = g.tgrelid JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = %(schema)s AND NOT g.tgisinternal
    ORDER BY 1, 2"""
# Objects that a future version of DBOS may add but that this code does not copy.
SELECT_STRANGE = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind NOT IN ('r', 'i')
    UNION ALL
    SELECT t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE n.nspname = %(schema)s AND t.typtype IN ('e', 'd', 'r')
    UNION ALL
    SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND (a.attidentity <> '' OR a.attgenerated <> '')"""

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresBackup:
    def __init__(self, url: str) -> None:
        self._url = url

    def save(self, archive: Writer, *, made_at: str, version: str, progress: Progress) -> Manifest:
        with psycopg.connect(self._url, connect_timeout=5, application_name="assent-backup") as connection:
            # All tables must be copied from the same snapshot.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(PATIENT)
            home = _home(connection)
            tables = _tables(connection, home)
            if (home, "assent_version") not in tables:
                msg = "This database does not contain Assent data. Check ASSENT_DATABASE_URL."
                raise Refused(msg)
            # The locks prevent changes to the structure of a table while it is read.
            for place in tables:
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*place)))
            manifest = Manifest(
                assent=version,
                kind="postgresql",
                schema=_rows(connection, "SELECT version_num FROM assent_version")[0][0],
                created_at=made_at,
                counts={},
                heads="",
                key_ids=_key_ids(connection, home),
            )
            manifest.queue_tables, manifest.queue_rest = _queue_ddl(connection, tables)
            saved = [each for each in tables if each[1] != "assent_version"]
            for done, (schema, table) in enumerate(saved):
                progress(f"copying {table}", done, len(saved))
                name = _member(schema, table)
                columns = [row[0] for row in _columns(connection, schema, table)]
                manifest.columns[name] = columns
                manifest.counts[name] = _copy_out(connection, archive, name, _copy(schema, table, columns))
            progress("verifying the histories", 0, 1)
            manifest.heads = _heads(connection)
        return manifest

    def restore(self, archive: Archive, *, force: bool, progress: Progress, epoch: int | None = None) -> Path | None:
        if force:
            msg = "--force works only with SQLite. Create an empty database and restore into it."
            raise Refused(msg)
        engine = sa.create_engine(alchemy_url(self._url), poolclass=sa.NullPool)
        with engine.begin() as outer:
            connection = cast("Connection", outer.connection.driver_connection)
            connection.execute(PATIENT)
            home = _home(connection)
            _clear(connection, home)
            migrations.upgrade_inside(outer, archive.manifest.schema)
            if archive.manifest.queue_tables:
                connection.execute(f"CREATE SCHEMA {QUEUE}")
                _run(connection, archive.manifest.queue_tables)
            _load(connection, archive, home, progress)
            _run(connection, archive.manifest.queue_rest)
            progress("verifying the restored data", 0, 1)
            _check(connection, archive.manifest, home)
            if epoch is not None:
                tables = frozenset(name for schema, name in _tables(connection, home) if schema == home)
                void(tables, lambda statement: connection.execute(for_psycopg(statement), {"now": epoch}))
        return None


def _rows(connection: Connection, statement: str, **params: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement.encode(), params).fetchall()


def _home(connection: Connection) -> str:
    home: str = _rows(connection, "SELECT current_schema()")[0][0]
    return home


def _tables(connection: Connection, home: str) -> list[tuple[str, str]]:
    """Return our tables and those of DBOS, as schema and name."""
    found: list[tuple[str, str]] = []
    for schema, like in ((home, r"assent\_%"), (QUEUE, "%")):
        found += [(schema, name) for (name,) in _rows(connection, SELECT_TABLES, schema=schema, like=like)]
    return found


def _member(schema: str, table: str) -> str:
    return f"{QUEUE if schema == QUEUE else 'assent'}/{table}"


def _columns(connection: Connection, schema: str, table: str) -> list[tuple[Any, ...]]:
    return _rows(connection, SELECT_COLUMNS, table=sql.Identifier(schema, table).as_string(connection))


def _copy(schema: str, table: str, columns: Sequence[str]) -> sql.Composed:
    # The database has already quoted the column names.
    listed = sql.SQL(", ".join(columns))  # pyright: ignore[reportArgumentType]
    return sql.SQL("COPY {} ({})").format(sql.Identifier(schema, table), listed)


def _copy_out(connection: Connection, archive: Writer, name: str, copy: sql.Composed) -> int:
    """Write a table's rows and return their number; COPY writes one line per row."""
    count = 0
    with archive.member(name) as write, connection.cursor() as cursor, cursor.copy(copy + sql.SQL(" TO STDOUT")) as out:
        for chunk in out:
            write(bytes(chunk))
            count += bytes(chunk).count(b"\n")
    return count


def _queue_ddl(connection: Connection, tables: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the DDL of DBOS's tables in their current version; DBOS migrates them when it starts."""
    strange = [name for (name,) in _rows(connection, SELECT_STRANGE, schema=QUEUE)]
    if strange:
        msg = f"The DBOS tables contain {', '.join(strange)}, which this version of Assent cannot back up. Use pg_dump."
        raise Refused(msg)
    path: str = _rows(connection, "SHOW search_path")[0][0]
    # With an empty search path, PostgreSQL qualifies every name.
    connection.execute("SELECT set_config('search_path', '', true)")
    made = [
        f"CREATE TABLE {QUEUE}.{name} ({', '.join(_column(*each) for each in _columns(connection, QUEUE, name))})"
        for schema, name in tables
        if schema == QUEUE
    ]
    rest = [row[1] for row in _rows(connection, SELECT_REST, schema=QUEUE)]
    connection.execute("SELECT set_config('search_path', %s, true)", [path])
    return made, rest


def _column(name: str, kind: str, required: bool, default: str | None) -> str:  # noqa: FBT001  # the columns of a row
    return f"{name} {kind}{f' DEFAULT {default}' if default else ''}{' NOT NULL' if required else ''}"


def _key_ids(connection: Connection, home: str) -> list[str]:
    if (home, "assent_secrets") not in _tables(connection, home):
        return []
    return [row[0] for row in _rows(connection, SELECT_KEY_IDS)]


def _heads(connection: Connection) -> str:
    return verified_heads(_streamed(connection, SELECT_CHAINS.format(collation=' COLLATE "C"')))


def _streamed(connection: Connection, statement: str) -> Iterator[tuple[Any, ...]]:
    with connection.cursor("assent_backup") as cursor:
        cursor.itersize = 5_000
        cursor.execute(statement.encode())
        yield from cursor


def _clear(connection: Connection, home: str) -> None:
    """Remove our tables if all are empty, and refuse otherwise."""
    tables = _tables(connection, home)
    for schema, table in tables:
        place = sql.Identifier(schema, table)
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(place))
        if table not in VERSIONS and connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(place)).fetchone():
            msg = (
                f"This database is not empty: the table {table} contains rows. Create a new database and restore "
                "into it."
            )
            raise Refused(msg)
    for schema, table in tables:
        if schema == home:
            connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(schema, table)))
    functions = [name for (name,) in _rows(connection, SELECT_FUNCTIONS, schema=home, like=r"assent\_%")]
    _run(connection, [f"DROP FUNCTION {name}" for name in functions])
    connection.execute(f"DROP SCHEMA IF EXISTS {QUEUE} CASCADE")


def _run(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def _load(connection: Connection, archive: Archive, home: str, progress: Progress) -> None:
    waiting = [name for name in archive.manifest.members if name in archive.manifest.columns]
    ordered = [name for name in _in_order(connection, home) if name in waiting]
    ordered += [name for name in waiting if name not in ordered]
    for done, name in enumerate(ordered):
        progress(f"loading {name.partition('/')[2]}", done, len(ordered))
        schema, table = (QUEUE if name.startswith(f"{QUEUE}/") else home), name.partition("/")[2]
        place = sql.Identifier(schema, table)
        # Our triggers guard live changes; these rows are already history.
        connection.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(place))
        statement = _copy(schema, table, archive.manifest.columns[name]) + sql.SQL(" FROM STDIN")
        with connection.cursor() as cursor, cursor.copy(statement) as into:
            for chunk in archive.checked(name):
                into.write(chunk)
        connection.execute(sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(place))
    _continue_counting(connection, home)


def _in_order(connection: Connection, home: str) -> list[str]:
    """Return our tables, each after the tables that it references."""
    order: TopologicalSorter[str] = TopologicalSorter()
    for schema, table in _tables(connection, home):
        if schema == home:
            order.add(_member(schema, table))
    for points, at in _rows(connection, SELECT_REFERENCES, schema=home):
        order.add(_member(home, points), _member(home, at))
    return list(order.static_order())


def _continue_counting(connection: Connection, home: str) -> None:
    # COPY does not advance the sequences.
    for schema, table in _tables(connection, home):
        for name, _, _, default in _columns(connection, schema, table):
            if default and default.startswith("nextval("):
                place, column = sql.Identifier(schema, table), sql.SQL(name)
                connection.execute(
                    sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {} HAVING max({}) > 0").format(
                        sql.Literal(place.as_string(connection)), sql.Literal(name.strip('"')), column, place, column
                    )
                )


def _check(connection: Connection, expected: Manifest, home: str) -> None:
    counts: dict[str, int] = {}
    for schema, table in _tables(connection, home):
        if table != "assent_version":
            found = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)))
            counts[_member(schema, table)] = (found.fetchone() or (0,))[0]
    require_same("the number of rows", expected.counts, counts)
    require_same("the histories", expected.heads, _heads(connection))
    require_same("the secret keys", expected.key_ids, _key_ids(connection, home))
