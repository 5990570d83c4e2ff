"""Alembic's entry. The transaction, and the lock around it, are the caller's (db/sql/schema.py)."""

from alembic import context

from db.sql.models import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
