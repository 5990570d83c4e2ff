"""Fixtures by which every test of the storage runs on SQLite and on PostgreSQL.

``engine`` is on a migrated database without rows; ``blank_url`` names a database without tables.
TUNER_TEST_POSTGRES_URL names a server to use instead of a private one; its user must be allowed to
create databases.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from db.sql.engine import migrate, open_engine
from db.sql.tables import metadata
from db.sql.transaction import writing
from tests.own_postgres import private_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of the session's PostgreSQL server: a private one, or TUNER_TEST_POSTGRES_URL."""
    given = os.environ.get("TUNER_TEST_POSTGRES_URL")
    if given is not None:
        yield given
        return
    with private_server() as server:
        # without fsync, because the database is thrown away
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        yield server.get_uri()


@pytest.fixture(scope="session")
def postgres_admin(postgres_url: str) -> Iterator[Engine]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    yield admin
    admin.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    """The engine on which a test runs; a module may parametrize it with only one."""
    return str(request.param)


@contextmanager
def _database(admin: Engine) -> Iterator[str]:
    name = f"convtune_test_{uuid4().hex}"
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
    yield admin.url.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def blank_url(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a database without tables."""
    if dialect == "sqlite":
        yield f"sqlite:///{tmp_path / 'blank.db'}"
    else:
        with _database(request.getfixturevalue("postgres_admin")) as url:
            yield url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, which tests copy."""
    path = tmp_path_factory.mktemp("migrated") / "convtune.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgresql(postgres_admin: Engine) -> Iterator[Engine]:
    """An engine on a migrated database, which all tests share and clear."""
    with _database(postgres_admin) as url:
        _migrate(url)
        engine = open_engine(url)
        yield engine
        engine.dispose()


def _migrate(url: str) -> None:
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()


@pytest.fixture
def url(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """URL of a migrated database without rows."""
    if dialect == "sqlite":
        path = tmp_path / "convtune.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
        return f"sqlite:///{path}"
    shared: Engine = request.getfixturevalue("migrated_postgresql")
    with writing(shared) as connection:  # not TRUNCATE: it makes new files, which takes 60 ms
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        connection.execute(text("SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'"))
    return shared.url.render_as_string(hide_password=False)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    opened = open_engine(url)
    yield opened
    opened.dispose()
