"""Fixtures: the real application on a SQLite file, or on PostgreSQL if a test asks for it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine, make_url, text
from starlette.testclient import TestClient

from api.main import create_app
from api.settings import Settings
from tests import databases
from tests.own_postgres import private_server


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """URL of a migrated SQLite database without rows."""
    return databases.created(tmp_path / "service.db")


@pytest.fixture
def app(database_url: str) -> FastAPI:
    return create_app(Settings(database_url=database_url))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as opened:
        yield opened


@pytest.fixture
def engine(app: FastAPI, client: TestClient) -> Engine:
    """The application's own engine, for looking into the database or changing it."""
    opened: Engine = app.state.engine
    return opened


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """URL of an empty database on the server in TUNER_TEST_POSTGRES_URL, or on a private one."""
    with ExitStack() as stack:
        server = os.environ.get("TUNER_TEST_POSTGRES_URL")
        if server is None:
            server = stack.enter_context(private_server()).get_uri()
        url = make_url(server).set(drivername="postgresql+psycopg")
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        stack.callback(admin.dispose)
        name = f"convtune_api_test_{os.getpid()}"
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
            yield url.set(database=name).render_as_string(hide_password=False)
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
