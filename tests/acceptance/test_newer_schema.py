"""A database that a later release wrote: everything refuses it, changes nothing, and says what to
install."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from processes import ROOT, Database
from sqlalchemy import text

from api.main import create_app
from api.settings import Settings
from db.sql.transaction import reading, writing

SAID = "schema 9999 is newer than this code knows"
WAY_OUT = "install the release of convtune that wrote it, or a later one"


@pytest.fixture
def newer(database: Database) -> Database:
    with writing(database.engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    return database


@pytest.mark.parametrize(
    "command",
    [
        ("tuner.worker", "--target", "cpu", "--once"),
        ("tuner.cli.app", "jobs", "list"),
        ("tuner.cli.app", "tune", "conv1d", "--M", "64", "--N", "3", "--target", "cpu"),
        ("tuner.cli.app", "serve", "--port", "0"),
        ("db.migrations",),
    ],
    ids=["worker", "jobs", "tune", "serve", "migrations"],
)
def test_processes_refuse_it(newer: Database, command: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | {"TUNER_DATABASE_URL": newer.url, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert SAID in done.stderr
    assert WAY_OUT in done.stderr
    assert "Traceback" not in done.stderr
    with reading(newer.engine) as connection:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        waiting = connection.execute(text("SELECT count(*) FROM jobs")).scalar_one()
    assert (revision, waiting) == ("9999", 0)


@pytest.mark.parametrize(
    ("revision", "said"),
    [("9999", WAY_OUT), ("0006", "run `python -m db.migrations`")],
    ids=["newer", "older"],
)
def test_a_service_whose_database_changes_under_it_is_not_ready(
    database: Database, revision: str, said: str
) -> None:
    """As a restore does, or another release that is started on it."""
    with TestClient(create_app(Settings(database_url=database.url))) as client:
        assert client.get("/readyz").status_code == 200
        with writing(database.engine) as connection:
            connection.execute(
                text("UPDATE alembic_version SET version_num = :to"), {"to": revision}
            )
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert said in answer.json()["detail"]
        assert client.get("/healthz").status_code == 200
