"""Adds jobs to DBOS's tables in the transaction that causes them, so that both are committed or neither."""

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, EnqueueOptions
from dbos._schemas.system_database import SystemSchema
from dbos._serialization import DBOSPortableJSONSerializer
from dbos._sys_db import SystemDatabase
from sqlalchemy.exc import DBAPIError

APPLICATION = "assent"
VERSION = "1"
"""Pinned, because DBOS would derive it from the source, and jobs that are pending during an edit would wait forever."""
SCHEMA = "dbos"
WORKFLOW = "assent.job"
QUEUE = "effects"
QUEUES = {"advance": "runs"}
"""Jobs that may take hours have their own queue, so that they never delay the others."""
TABLES = frozenset(each.name for each in SystemSchema.metadata_obj.tables.values())
SERIALIZER = DBOSPortableJSONSerializer()
"""Plain JSON; DBOS's default would be pickle."""


def prepare(engine: sa.Engine, url: str | None) -> None:
    """Create or migrate DBOS's tables; on SQLite, in one transaction, while the caller holds the write lock."""
    if url:
        DBOS.migrate(url, schema=SCHEMA)
        return
    # DBOS's public function would create its own engine here, whose transactions do not include DDL.
    SystemDatabase.create(
        system_database_url=str(engine.url),
        engine_kwargs={},
        engine=engine,
        schema=SCHEMA,
        serializer=SERIALIZER,
        executor_id=None,
    ).run_migrations()


class JobQueue:
    """Adds jobs to the queue, from which a worker on any node takes them."""

    def __init__(self, engine: sa.Engine, traceparent: Callable[[], str | None] = lambda: None) -> None:
        self._traceparent = traceparent
        self._client = DBOSClient(
            system_database_engine=engine,
            dbos_system_schema=SCHEMA,
            serializer=SERIALIZER,
            application_name=APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    def put(self, connection: object, name: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Queue a job inside the caller's transaction; each key is queued only once."""
        assert isinstance(connection, sa.Connection), "DBOS needs a SQLAlchemy connection"
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": QUEUES.get(name, QUEUE),
            "workflow_id": f"{name}:{key}",
            "app_version": VERSION,
        }
        if delay > 0:
            options["delay_seconds"] = delay
        try:
            self._client.enqueue_in_transaction(connection, options, name, dict(payload), self._traceparent())
        except DBAPIError as error:
            # The transaction is ours, so our code has to see the database driver's own error.
            raise (error.orig or error) from error

    def open(self, connection: object, name: str) -> frozenset[str]:
        """Return the keys of the jobs with this name that are queued or running, excluding delayed jobs."""
        assert isinstance(connection, sa.Connection), "DBOS needs a SQLAlchemy connection"
        table = f"{SCHEMA}.workflow_status" if connection.dialect.name == "postgresql" else "workflow_status"
        statement = f"""
            SELECT workflow_uuid FROM {table}
            WHERE status IN ('ENQUEUED', 'PENDING') AND workflow_uuid LIKE :jobs"""
        found = connection.execute(sa.text(statement), {"jobs": f"{name}:%"})
        return frozenset(str(row[0]).removeprefix(f"{name}:") for row in found)
