"""Fixtures of the storage suite, so that storms run on SQLite and on PostgreSQL."""

from tests.db.conftest import (  # noqa: F401
    blank_url,
    dialect,
    postgres_admin,
    postgres_url,
)
