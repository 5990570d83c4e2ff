"""Engines: settings, locks, transactions, lost connections, and URLs that are refused."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, make_url, select, text
from storage_rows import everything, let_rot, order, submitted

from db import queue
from db.results import artifacts
from db.sql.columns import now
from db.sql.engine import open_engine, reading, writing
from db.sql.errors import DatabaseDamaged, DatabaseUnavailable
from db.upkeep.sqlite_file import require_database


@pytest.fixture
def dialect() -> str:  # most tests of this file are about SQLite alone
    return "sqlite"


def both(test: object) -> object:
    """Run the test on both engines."""
    return pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])(test)  # type: ignore[arg-type]


def test_sqlite_is_set_up_on_every_connection(engine: Engine) -> None:
    with engine.connect() as first, engine.connect() as second:
        for connection in (first, second):
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
            }
            assert settings == {
                "journal_mode": "wal",
                "busy_timeout": 30_000,
                "foreign_keys": 1,
                "synchronous": 2,
            }


def test_a_writing_transaction_locks_from_its_first_moment(engine: Engine, url: str) -> None:
    other = sqlite3.connect(str(make_url(url).database), timeout=0, isolation_level=None)
    try:
        with reading(engine):
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        with writing(engine), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
    finally:
        other.close()


def test_a_locked_database_is_unavailable_and_then_works_again(engine: Engine, url: str) -> None:
    @event.listens_for(engine, "connect")
    def hurry(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA busy_timeout = 20")

    engine.dispose()
    other = sqlite3.connect(str(make_url(url).database), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="locked"):
            queue.submit(engine, order())
        assert queue.list_jobs(engine).items == []  # the lock stops no reader
        other.execute("ROLLBACK")
        submitted(engine)
    finally:
        other.close()


def test_a_damaged_database_is_unavailable(engine: Engine) -> None:
    sha256 = artifacts.put(engine, b"x" * 50_000, "source", "text/plain")
    let_rot(engine)
    with pytest.raises(DatabaseDamaged, match="malformed; put a backup in its place"):
        artifacts.get(engine, sha256)


def test_writer_that_waits_for_the_lock_gets_it_and_keeps_its_timeout(
    engine: Engine, url: str
) -> None:
    """A writer gets the lock after a wait, and its timeout is still 30 s afterwards."""
    other = sqlite3.connect(
        str(make_url(url).database), isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.7, other.execute, ["ROLLBACK"])  # longer than a first, short wait
    release.start()
    with writing(engine) as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000
    release.join()
    other.close()


@both
def test_an_exception_rolls_everything_back(engine: Engine) -> None:
    submitted(engine)
    before = everything(engine)
    with pytest.raises(RuntimeError, match="halfway"), writing(engine) as connection:
        connection.execute(text("UPDATE jobs SET state = 'failed'"))
        raise RuntimeError("halfway")
    assert everything(engine) == before


@both
def test_a_reader_has_one_view_while_others_write(engine: Engine) -> None:
    with reading(engine) as connection:
        count = text("SELECT count(*) FROM jobs")
        assert connection.execute(count).scalar() == 0
        submitted(engine)
        assert connection.execute(count).scalar() == 0
    assert len(queue.list_jobs(engine).items) == 1


@both
def test_now_is_the_clock_of_the_database_and_runs_in_a_transaction(engine: Engine) -> None:
    with writing(engine) as connection:
        first = connection.execute(select(now())).scalar_one()
        time.sleep(0.005)
        second = connection.execute(select(now())).scalar_one()
    assert 0 < second - first < 60
    assert abs(second - time.time()) < 60


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_a_connection_that_was_cut_is_reported_and_replaced(engine: Engine) -> None:
    cut = text(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(DatabaseUnavailable), writing(engine) as connection:
        with writing(engine) as other:
            other.execute(cut)
        connection.execute(text("SELECT 1"))
    with writing(engine) as connection:
        connection.execute(cut)  # cuts the idle connections, which the pool still holds
    submitted(engine)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_connection_that_was_idle_for_long_is_pinged_before_use(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall may have dropped it silently; only the server's answer shows that it works."""
    asked: list[object] = []
    ping = engine.dialect.do_ping
    monkeypatch.setattr(engine.dialect, "do_ping", lambda it: asked.append(it) or ping(it))
    monkeypatch.setattr("db.sql.connections.postgres_pool.QUIET_SECONDS", 60.0)
    submitted(engine)
    submitted(engine, 65)
    assert asked == []
    monkeypatch.setattr("db.sql.connections.postgres_pool.QUIET_SECONDS", 0.0)
    submitted(engine, 66)
    assert len(asked) == 1


def test_sqlite_file_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="create it first"):
        open_engine(f"sqlite:///{tmp_path}/missing/a.db")
    assert list(tmp_path.iterdir()) == []


def test_folder_in_place_of_the_sqlite_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        open_engine(f"sqlite:///{tmp_path}")


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        open_engine(f"sqlite:///{path}")
    assert path.read_text().startswith("not a database")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_sqlite_database_in_memory_is_refused(url: str) -> None:
    for use in (open_engine, require_database):
        with pytest.raises(DatabaseUnavailable, match="name a file"):
            use(url)


@pytest.mark.parametrize("there", ["localhost", "me:hush@", ":80"])
def test_a_sqlite_file_on_a_host_is_refused(there: str) -> None:
    for use in (open_engine, require_database):
        with pytest.raises(DatabaseUnavailable, match="TUNER_DATABASE_URL with three") as refusal:
            use(f"sqlite://{there}/x.db")
        assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("url", ["", "nonsense", "://", "postgresql+psycopg://u:hush@h:port/d"])
def test_invalid_database_url_is_refused(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="TUNER_DATABASE_URL") as refusal:
        open_engine(url)
    assert "hush" not in str(refusal.value)


def test_url_of_another_database_system_is_refused() -> None:
    with pytest.raises(DatabaseUnavailable, match="mysql is not supported") as refusal:
        open_engine("mysql://user:hush@localhost/x")
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres"])
def test_unreachable_server_is_reported_without_its_password(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="is the server running") as refusal:
        open_engine(f"{scheme}://user:hush@/name?host={tmp_path}")
    assert "hush" not in str(refusal.value)
    assert "user:***@" in str(refusal.value)
    assert refusal.value.url.startswith(scheme)


@pytest.mark.parametrize("name", ["password", "sslpassword"])
def test_a_password_in_the_query_is_not_shown(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="is the server running") as refusal:
        open_engine(f"postgresql://user@/name?host={tmp_path}&{name}=hush")
    assert "hush" not in str(refusal.value) + refusal.value.url


def test_sqlite_url_with_options_is_refused(tmp_path: Path) -> None:
    """SQLAlchemy would open a file of such a name, a database in memory, or a read-only one."""
    for query in ("mode=memory&uri=true", "mode=ro"):
        with pytest.raises(DatabaseUnavailable, match=r"leave out \?mode"):
            open_engine(f"sqlite:///{tmp_path}/a.db?{query}")
    for name in ("a?.db", "a.db?", "a.db?mode"):  # SQLAlchemy would open a, or a.db
        with pytest.raises(DatabaseUnavailable, match=r"no \? in its name; leave out the \?"):
            open_engine(f"sqlite:///{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_database_in_proc_is_not_reported_as_full() -> None:
    with pytest.raises(DatabaseUnavailable, match="may this user write it"):
        open_engine("sqlite:////proc/a.db")
