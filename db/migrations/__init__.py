"""Alembic's migrations: one file in versions/ for each change of the schema.

`db.sql.schema.migrate` runs them, and so does `python -m db.migrations`."""
