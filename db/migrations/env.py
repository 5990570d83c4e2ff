"""The script that Alembic runs for a migration. Its caller, db/sql/schema.py, has opened the
transaction and taken the lock."""

from alembic import context

from db.sql.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
