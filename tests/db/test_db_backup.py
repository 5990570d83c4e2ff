"""Backups of a database in use, and restores from them.

They are for SQLite; PostgreSQL has its own tools for both.
"""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import chdir, closing
from pathlib import Path

import pytest
from released.load import REVISIONS, load
from sqlalchemy import URL, Engine
from storage_rows import (
    claimed,
    device,
    everything,
    new_trial,
    of_another_schema,
    submitted,
)

from db import queue
from db.results import trials
from db.sql import schema
from db.sql.engine import migrate, open_engine
from db.sql.errors import BackupRefused, SchemaMismatch
from db.upkeep.backup import back_up, restore

WRITE_ON = """
import sys
sys.path.insert(0, sys.argv[2])
from storage_rows import claimed, device, new_trial, submitted
from db.results import trials
from db.sql.engine import open_engine
engine = open_engine(sys.argv[1])
gpu = device(engine).id
submitted(engine)
job = claimed(engine)
print("ready", flush=True)
for knob in range(100_000):
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob), new_trial(gpu, -knob - 1)])
"""


@pytest.fixture
def dialect() -> str:
    return "sqlite"


def file_of(engine: Engine) -> Path:
    return Path(str(engine.url.database))


def contents(path: Path) -> dict[str, list[object]]:
    engine = open_engine(f"sqlite:///{path}")
    try:
        return everything(engine)
    finally:
        engine.dispose()


def some_rows(engine: Engine) -> None:
    gpu = device(engine).id
    submitted(engine)
    job = claimed(engine)
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob) for knob in range(100)])
    queue.finish(engine, job.id, job.attempt, "succeeded")


def test_restored_backup_has_the_same_rows(engine: Engine, url: str, tmp_path: Path) -> None:
    some_rows(engine)
    before = everything(engine)
    made = back_up(url, tmp_path / "copy.db")
    assert (made.file.name, made.size) == ("copy.db", made.file.stat().st_size)
    submitted(engine, 65)
    later = everything(engine)
    engine.dispose()
    done = restore(url, made.file)
    assert done.revision == made.revision == schema._head()
    assert everything(engine) == before
    engine.dispose()
    again = restore(url, made.file)  # now the database that is replaced has no WAL file
    assert done.aside and again.aside and contents(done.aside) == later
    kept = "convtune.db", "copy.db", done.aside.name, again.aside.name
    assert {each.name for each in tmp_path.iterdir()} == set(kept)


def test_backup_is_consistent_while_another_process_writes(
    engine: Engine, url: str, tmp_path: Path
) -> None:
    here = str(Path(__file__).parent)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_ON, url, here], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        counts: list[int] = []
        deadline = time.monotonic() + 60
        while len(counts) < 5 or (counts[-1] == counts[0] and time.monotonic() < deadline):
            copy = back_up(url, tmp_path / f"copy-{len(counts)}.db").file
            rows = contents(copy)
            counts.append(len(rows["trials"]))
            summed = {row[1]: row[2] for row in rows["trial_sums"]}
            assert counts[-1] == sum(summed.values())
            assert counts[-1] % 2 == 0  # each transaction adds two, so no copy has half of one
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_backup_replaces_a_file_only_with_force(engine: Engine, url: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    back_up(url, file)
    some_rows(engine)
    old = file.read_bytes()
    with pytest.raises(BackupRefused, match=r"there already; .*--force"):
        back_up(url, file)
    assert file.read_bytes() == old
    back_up(url, file, force=True)
    assert contents(file) == everything(engine)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("convtune.db", "can't be used for a backup"),
        ("convtune.db-wal", "can't be used for a backup"),
        ("convtune.db-journal", "can't be used for a backup"),
        ("folder", "can't be used for a backup"),
        ("no/such/folder", "there is no folder"),
        ("pipe", "can't be used for a backup"),
        ("link", "can't be used for a backup"),
        ("dangling", "can't be used for a backup"),
        ("a" * 300, "can't be written: .*too long"),
        ("a" * 250, "can't be written: .*too long"),
    ],
)
def test_backup_to_an_unusable_path_is_refused(
    engine: Engine, url: str, tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "other").touch()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    # without the database's own files: SQLite reopens them, which changes the times of its log
    others = [each for each in tmp_path.iterdir() if not each.name.startswith("convtune.db")]
    before = {each: each.lstat() for each in others}
    for force in (False, True):
        with pytest.raises(BackupRefused, match=says):
            back_up(url, tmp_path / name, force=force)
    now = {each: each.lstat() for each in tmp_path.iterdir()}
    assert {each: now.get(each) for each in before} == before
    assert not any(each.name.endswith(".part") for each in now)


def test_restore_refuses_a_name_that_is_too_long(engine: Engine, url: str, tmp_path: Path) -> None:
    refused(engine, url, tmp_path / ("a" * 300), "too long")


def test_backup_error_names_the_damaged_database(engine: Engine, url: str, tmp_path: Path) -> None:
    some_rows(engine)
    back_up(url, tmp_path / "whole.db")
    content = (tmp_path / "whole.db").read_bytes()
    half = tmp_path / "half.db"
    half.write_bytes(content[: len(content) // 2])
    with pytest.raises(BackupRefused, match=rf"^{half} is damaged"):
        back_up(f"sqlite:///{half}", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_restore_works_in_an_oddly_named_folder(engine: Engine, url: str, tmp_path: Path) -> None:
    back_up(url, tmp_path / "copy.db")
    folder = tmp_path / "w?x=1#%41"
    folder.mkdir()
    strange = URL.create("sqlite", database=str(folder / "x.db"))
    with chdir(folder):
        restore("sqlite:///x.db", tmp_path / "copy.db")
    assert [each.name for each in folder.iterdir()] == ["x.db"]
    assert not (tmp_path / "w").exists()
    opened = open_engine(strange)
    assert everything(opened) == everything(engine)
    opened.dispose()


def test_backup_of_a_missing_database_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="there is no database"):
        back_up(f"sqlite:///{tmp_path}/none.db", tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def refused(engine: Engine, url: str, file: Path, says: str) -> None:
    """Assert that a restore is refused with these words, leaves no file and changes no row."""
    folder = file_of(engine).parent
    before = everything(engine)
    engine.dispose()
    names = sorted(each.name for each in folder.iterdir())
    with pytest.raises(BackupRefused, match=says):
        restore(url, file)
    assert sorted(each.name for each in folder.iterdir()) == names
    assert everything(engine) == before
    engine.dispose()


@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 0.99])
def test_a_truncated_copy_is_refused(engine: Engine, url: str, tmp_path: Path, part: float) -> None:
    some_rows(engine)
    file = back_up(url, tmp_path / "copy.db").file
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part)])
    refused(engine, url, file, "another backup")


def test_restore_refuses_unusable_files(engine: Engine, url: str, tmp_path: Path) -> None:
    some_rows(engine)
    file = back_up(url, tmp_path / "copy.db").file
    whole = bytearray(file.read_bytes())
    for page in range(4096, len(whole), 4096):
        whole[page : page + 8] = b"\xff" * 8
    file.write_bytes(bytes(whole))
    refused(engine, url, file, "another backup")
    with closing(sqlite3.connect(file)) as connection:
        file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (x)")
    refused(engine, url, file, "no complete database of convtune")
    refused(engine, url, tmp_path / "nothing.db", "there is no file")
    refused(engine, url, file_of(engine), "the database itself")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM devices", "the row of devices that it names is missing"),
        ("DROP TABLE ladders", r"lacks tables \(ladders\); take another backup"),
    ],
)
def test_restore_refuses_a_copy_that_lacks_a_row_or_table(
    engine: Engine, url: str, tmp_path: Path, statement: str, says: str
) -> None:
    some_rows(engine)
    file = back_up(url, tmp_path / "copy.db").file
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)
    refused(engine, url, file, says)


def test_restore_refuses_a_copy_beside_a_wal_file(engine: Engine, url: str, tmp_path: Path) -> None:
    file = back_up(url, tmp_path / "copy.db").file
    (tmp_path / "copy.db-wal").write_bytes(b"the other half")
    refused(engine, url, file, "copy.db-wal")


@pytest.mark.parametrize("revision", REVISIONS)
def test_restore_migrates_a_copy_of_each_release(revision: str, tmp_path: Path) -> None:
    old, new = (f"sqlite:///{tmp_path / name}" for name in ("old.db", "new.db"))
    load(old, revision)
    made = back_up(old, tmp_path / "copy.db")
    assert made.revision == revision
    done = restore(new, made.file)
    assert (done.revision, done.aside) == (revision, None)
    opened = open_engine(new)
    schema.check_schema(opened)
    assert len(queue.list_jobs(opened).items) == (8 if revision >= "0010" else 7)
    opened.dispose()


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("9999", "9999 is newer .* install the release"),
        ("0008", "0008 was made by an earlier .* nothing was changed; .*`tuner import"),
    ],
    ids=["newer", "earlier"],
)
def test_a_copy_of_an_unknown_schema_is_refused(
    engine: Engine, url: str, tmp_path: Path, revision: str, said: str
) -> None:
    some_rows(engine)
    before = everything(engine)
    engine.dispose()
    file = tmp_path / "copy.db"
    other = open_engine(f"sqlite:///{file}")
    of_another_schema(other, revision)
    other.dispose()
    copied = file.read_bytes()
    with pytest.raises(SchemaMismatch, match=said):
        restore(url, file)
    assert file.read_bytes() == copied
    assert everything(engine) == before
    engine.dispose()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["convtune.db", "copy.db"]


def test_restore_needs_force_while_a_job_runs(engine: Engine, url: str, tmp_path: Path) -> None:
    submitted(engine)
    file = back_up(url, tmp_path / "copy.db").file
    job = claimed(engine, "host-1")
    refused(engine, url, file, r"host-1.*--force")
    done = restore(url, file, force=True)
    assert queue.get(engine, job.id).state == "queued"
    engine.dispose()
    assert done.aside is not None
    held = open_engine(f"sqlite:///{done.aside}")
    assert queue.get(held, job.id).state == "running"
    held.dispose()


@pytest.mark.parametrize("seconds", [-1, 7200])  # before the clock was set back
def test_restore_ignores_a_lease_that_ran_out(
    engine: Engine, url: str, tmp_path: Path, seconds: int
) -> None:
    submitted(engine)
    claimed(engine, seconds=seconds)
    file = back_up(url, tmp_path / "copy.db").file
    engine.dispose()
    assert restore(url, file).aside is not None


def test_restore_needs_force_if_database_is_open(engine: Engine, url: str, tmp_path: Path) -> None:
    some_rows(engine)
    file = back_up(url, tmp_path / "copy.db").file
    before = everything(engine)  # the connection stays open in the pool
    with pytest.raises(BackupRefused, match=r"has .*convtune\.db open; stop it"):
        restore(url, file)
    assert everything(engine) == before
    done = restore(url, file, force=True)
    engine.dispose()
    assert done.aside is not None
    assert contents(done.aside) == contents(file_of(engine)) == before


def test_restore_over_unreadable_file_needs_force(tmp_path: Path, engine: Engine, url: str) -> None:
    some_rows(engine)
    before = everything(engine)
    file = back_up(url, tmp_path / "copy.db").file
    engine.dispose()
    file_of(engine).write_bytes(b"a ruin, " * 1000)
    with pytest.raises(BackupRefused, match=r"can't be read .*--force"):
        restore(url, file)
    done = restore(url, file, force=True)
    assert done.aside is not None
    assert done.aside.read_bytes() == b"a ruin, " * 1000
    assert everything(engine) == before


def test_restore_over_empty_file_needs_no_force(tmp_path: Path, engine: Engine, url: str) -> None:
    migrate(engine)
    file = back_up(url, tmp_path / "copy.db").file
    (tmp_path / "empty.db").touch()
    assert restore(f"sqlite:///{tmp_path / 'empty.db'}", file).aside is not None


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres"])
def test_backup_and_restore_of_postgresql_name_its_own_tools(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://user:hush@host:5432/name"
    with pytest.raises(BackupRefused, match=r"pg_dump .*postgresql://user@host:5432/name") as said:
        back_up(url, tmp_path / "copy.dump")
    assert "hush" not in str(said.value)
    with pytest.raises(BackupRefused, match=rf"pg_restore .*{tmp_path}/copy\.dump"):
        restore(url, tmp_path / "copy.dump")


def test_restore_does_not_replay_a_wal_file_left_by_a_killed_process(
    engine: Engine, tmp_path: Path
) -> None:
    job = submitted(engine)
    copy = tmp_path / "copy.db"
    url = engine.url.render_as_string(hide_password=False)
    back_up(url, copy)
    kept = contents(copy)
    submitted(engine, 65)
    path = file_of(engine)
    left = path.with_name(path.name + "-wal").read_bytes()
    engine.dispose()
    path.unlink()
    path.with_name(path.name + "-wal").write_bytes(left)
    restore(url, copy)
    assert contents(path) == kept
    assert [row[1] for row in kept["jobs"]] == [job.id]


def test_restore_keeps_a_symbolic_link(engine: Engine, tmp_path: Path) -> None:
    copy, link = tmp_path / "copy.db", tmp_path / "link.db"
    link.symlink_to(file_of(engine))
    back_up(f"sqlite:///{link}", copy)
    engine.dispose()
    restore(f"sqlite:///{link}", copy)
    assert link.is_symlink()
    assert contents(link) == contents(copy)
