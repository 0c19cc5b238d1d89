"""The entry point of Alembic, which runs on the connection that `upgrade` passes."""

from alembic import context

from assent.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="assent_version",
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
