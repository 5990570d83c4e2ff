"""Databases of a later release, or of a version before the first release.

Service, worker and commands refuse them, change nothing, and say what to do.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from processes import ROOT, Database
from sqlalchemy import text

from api.main import create_app
from api.settings import Settings
from db.sql.transaction import writing
from tuner.cli import app as cli

WAYS_OUT = {
    "9999": "install the release of convtune that wrote it, or a later one",
    "0008": "was made by an earlier development version, and nothing was changed; "
    "run `tuner export --of bests --out bests.jsonl` with that version and "
    "`tuner import bests.jsonl` with this one, or start with a new database",
}

OTHER_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE jobs (said TEXT);
INSERT INTO jobs VALUES ('kept');
"""


@pytest.fixture(params=WAYS_OUT, ids=["newer", "earlier"])
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def other(tmp_path: Path, revision: str) -> Path:
    """The file of a database of that revision, whose tables are not those of this code."""
    path = tmp_path / "convtune.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OTHER_TABLES)
        connection.execute("INSERT INTO alembic_version VALUES (?)", [revision])
        connection.commit()
    return path


@pytest.mark.parametrize(
    "command",
    [("tuner.worker", "--target", "cpu", "--once"), ("tuner", "serve"), ("db.migrations",)],
    ids=["worker", "serve", "migrations"],
)
def test_processes_refuse_a_database_of_another_schema(
    other: Path, revision: str, command: tuple[str, ...]
) -> None:
    before = other.read_bytes()
    settings = {
        "TUNER_DATABASE_URL": f"sqlite:///{other}",
        "TUNER_PORT": "0",
        "TMPDIR": str(other.parent),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    is_refused(revision, done.stderr)
    assert other.read_bytes() == before


@pytest.mark.parametrize("command", ["jobs list", "tune conv1d --M 64 --N 3 --target cpu"])
def test_commands_refuse_a_database_of_another_schema(
    called: Callable[..., str], other: Path, revision: str, command: str
) -> None:
    before = other.read_bytes()
    is_refused(revision, called(f"sqlite:///{other}", *command.split()))
    assert other.read_bytes() == before


def test_restore_refuses_a_database_of_another_schema(
    called: Callable[..., str], other: Path, revision: str, tmp_path: Path
) -> None:
    before, new = other.read_bytes(), tmp_path / "restored.db"
    is_refused(revision, called(f"sqlite:///{new}", "db", "restore", str(other)))
    assert not new.exists()
    assert other.read_bytes() == before


@pytest.fixture
def called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """A function that runs ``tuner …``, which must fail, on a database and returns its stderr."""

    def complaint(url: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tuner", *arguments])
        monkeypatch.setenv("TUNER_DATABASE_URL", url)
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert exit_.value.code
        return capsys.readouterr().err

    return complaint


def is_refused(revision: str, complained: str) -> None:
    """Assert that stderr names the schema and the way out in one line."""
    [line] = [line for line in complained.splitlines() if f"schema {revision} " in line]
    assert WAYS_OUT[revision] in line
    assert "Traceback" not in complained


def test_service_is_not_ready_once_its_database_has_another_schema(
    database: Database, revision: str
) -> None:
    """A restore changes the schema like this, and so does another release on the same database."""
    with TestClient(create_app(Settings(database_url=database.url))) as client:
        assert client.get("/readyz").status_code == 200
        with writing(database.engine) as connection:
            connection.execute(
                text("UPDATE alembic_version SET version_num = :to"), {"to": revision}
            )
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert WAYS_OUT[revision] in answer.json()["detail"]
        assert client.get("/healthz").status_code == 200
