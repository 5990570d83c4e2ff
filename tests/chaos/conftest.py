"""The databases of the storage suite: each storm passes over both."""

from tests.db.conftest import (  # noqa: F401
    blank_url,
    dialect,
    postgres_admin,
    postgres_url,
)
