"""``tuner db``: backup, restore, pruning and checking, with what is printed and the exit codes."""

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from stored_best import store

from db.sql import tables
from db.sql.engine import migrate, open_engine
from db.sql.transaction import writing
from db.upkeep import prune
from tuner.cli import app as cli

Run = Callable[..., str]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    monkeypatch.setattr(prune, "WARM_JOBS", 0)
    return f"sqlite:///{tmp_path / 'convtune.db'}"


@pytest.fixture
def engine(url: str, libraries: dict[str, Path]) -> Engine:
    """Make the database with one best; return its engine, whose connections are closed."""
    opened = open_engine(url)
    migrate(opened)
    store(opened, libraries["same-serial"])
    opened.dispose()
    return opened


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["tuner", "db", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capsys.readouterr()
        assert (exit_.value.code or 0) == code, err
        return err or out

    return run


def test_backup_is_written_and_restored(engine: Engine, run: Run, tmp_path: Path) -> None:
    """A backup is written and restored. No file is overwritten without ``--force``, and the
    replaced database is kept aside."""
    file = tmp_path / "copy.db"
    made = json.loads(run("backup", "copy.db", "--json"))
    assert (made["file"], made["bytes"]) == (str(file), file.stat().st_size)
    assert "copy.db is there already" in run("backup", "copy.db", code=1)
    assert f"wrote {file}: 0." in run("backup", "copy.db", "--force")
    done = json.loads(run("restore", "copy.db", "--json"))
    assert done["database"] == str(tmp_path / "convtune.db")
    assert done["schema"] == made["schema"]
    assert Path(done["aside"]).is_file()
    said = run("restore", "copy.db")
    assert f"restored {tmp_path / 'convtune.db'} from copy.db" in said
    assert "the replaced database is kept as" in said
    assert run("check").endswith("nothing is wrong\n")


def test_restore_refuses_a_truncated_backup(engine: Engine, run: Run, tmp_path: Path) -> None:
    run("backup", "copy.db")
    file = tmp_path / "copy.db"
    file.write_bytes(file.read_bytes()[:-5000])
    said = run("restore", "copy.db", code=1)
    assert said.startswith("tuner: ")
    assert "take another backup" in said
    assert said.count("\n") == 1


def test_prune_removes_what_its_dry_run_announces(engine: Engine, run: Run) -> None:
    with writing(engine) as connection:
        connection.execute(update(tables.trials).values(created_at=0.0))
        connection.execute(update(tables.jobs).values(created_at=0.0))
    engine.dispose()
    said = run("prune", "--older-than", "30", "--dry-run")
    assert said.startswith("would be deleted:\n  trials         3\n  of jobs        1\n")
    would = json.loads(run("prune", "--older-than", "30", "--dry-run", "--json"))
    did = json.loads(run("prune", "--older-than", "30", "--json"))
    assert (would.pop("dry_run"), would.pop("space")) == (True, None)
    assert (did.pop("dry_run"), did.pop("space")["how"]) == (False, "vacuum")
    assert did == would
    assert did["trials"] == 3
    assert "VACUUM was run; the database has 0." in run("prune", "--older-than", "30")
    assert "--older-than" in run("prune", code=2)
    assert "--older-than" in run("prune", "--older-than", "-1", code=2)


def test_check_reports_corrupt_artifacts(engine: Engine, run: Run) -> None:
    sound = json.loads(run("check", "--json"))
    assert sound["wrong"] == []
    with writing(engine) as connection:
        connection.execute(update(tables.artifacts).values(content=b"rot"))
    engine.dispose()
    assert "wrong: artifact " in run("check", code=1)
    found = json.loads(run("check", "--json", code=1))["wrong"]
    assert len([each for each in found if each.startswith("artifact ")]) == 5


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_check_changes_no_byte_of_the_database(
    engine: Engine, run: Run, tmp_path: Path, mode: str
) -> None:
    file = tmp_path / "convtune.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    before = file.read_bytes()
    assert run("check").endswith("nothing is wrong\n")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_check_reads_changes_that_are_only_in_the_wal(
    engine: Engine, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "convtune.db"
    before = file.read_bytes()
    with writing(engine) as connection:
        connection.execute(update(tables.artifacts).values(content=b"rot"))
    wal = (tmp_path / "convtune.db-wal").read_bytes()
    assert "wrong: artifact " in run("check", code=1)
    assert (file.read_bytes(), (tmp_path / "convtune.db-wal").read_bytes()) == (before, wal)
    engine.dispose()


@pytest.mark.parametrize("arguments", ["check", "backup copy.db"])
def test_check_and_backup_refuse_a_missing_database(
    url: str, run: Run, tmp_path: Path, arguments: str
) -> None:
    assert "there is no database" in run(*arguments.split(), code=1)
    assert list(tmp_path.iterdir()) == []


def test_backup_of_postgresql_is_refused_in_favour_of_pg_dump(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", "postgresql://me:hush@host/convtune")
    said = run("backup", "copy.dump", code=1)
    assert "pg_dump --format=custom --dbname=postgresql://me@host/convtune --file=" in said
    assert "hush" not in said


@pytest.mark.parametrize("command", ["backup", "restore", "prune", "check"])
def test_help_of_each_db_command_shows_examples(run: Run, command: str) -> None:
    assert f"tuner db {command}" in run(command, "--help").partition("Examples:")[2]
