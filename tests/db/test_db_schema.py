"""Migrations, and the refusal of databases of another schema or program."""

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, make_url, text
from storage_rows import of_another_schema

from db.sql.engine import check_schema, migrate, open_engine, reading, writing
from db.sql.errors import SchemaMismatch
from db.sql.tables import metadata


@pytest.fixture
def blank(blank_url: str) -> Iterator[Engine]:
    """An engine on a database without tables."""
    engine = open_engine(blank_url)
    yield engine
    engine.dispose()


def run_migrations(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "db.migrations"],
        env={**os.environ, "TUNER_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_migrations_make_the_tables_of_the_metadata(engine: Engine) -> None:
    with reading(engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrations_make_the_checks_and_index_conditions(engine: Engine, blank: Engine) -> None:
    """Alembic's comparison ignores checks and the conditions of indexes."""
    with writing(blank) as connection:
        metadata.create_all(connection)
    checks, conditions = [], []
    for made in (engine, blank):
        look = inspect(made)
        checks.append({t: look.get_check_constraints(t) for t in metadata.tables})
        conditions.append(
            {
                index["name"]: {k: str(v) for k, v in index["dialect_options"].items()}
                for table in metadata.tables
                for index in look.get_indexes(table)
            }
        )
    assert checks[0] == checks[1]
    assert conditions[0] == conditions[1]
    where = f"{engine.dialect.name}_where"
    assert {name for name, options in conditions[0].items() if where in options} == {
        "ix_jobs_claim",
        "ix_jobs_ended",
        "uq_api_keys_name",
        "uq_jobs_order",
    }


def test_migrating_twice_changes_nothing(blank: Engine) -> None:
    migrate(blank)
    tables = sorted(inspect(blank).get_table_names())
    assert tables == sorted([*metadata.tables, "alembic_version"])
    migrate(blank)
    check_schema(blank)


def test_empty_database_is_refused_with_the_command_to_run(blank: Engine) -> None:
    with pytest.raises(SchemaMismatch, match=r"empty.*python -m db\.migrations"):
        check_schema(blank)
    assert inspect(blank).get_table_names() == []


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("9999", "9999 is newer .* install the release"),
        ("0008", "0008 was made by an earlier .* nothing was changed; .*`tuner import"),
        ("0001", "0001 was made by an earlier .* nothing was changed; .*`tuner import"),
    ],
)
def test_an_unknown_schema_is_refused_and_left_alone(
    blank: Engine, revision: str, said: str
) -> None:
    of_another_schema(blank, revision)
    for refuse in (check_schema, migrate):
        with pytest.raises(SchemaMismatch, match=said):
            refuse(blank)
    assert sorted(inspect(blank).get_table_names()) == ["alembic_version", "jobs"]
    with reading(blank) as connection:
        assert connection.execute(text("SELECT * FROM alembic_version")).all() == [(revision,)]
        assert connection.execute(text("SELECT * FROM jobs")).all() == [("kept",)]


def test_a_migration_that_fails_leaves_nothing(blank: Engine) -> None:
    with writing(blank) as connection:  # a view with the name of the last table to be made
        connection.execute(text("CREATE VIEW model_layers AS SELECT 1 AS x"))
    with pytest.raises(Exception, match="already exists"):
        migrate(blank)
    assert inspect(blank).get_table_names() == []


def _opened_and_migrated(url: str) -> None:
    engine = open_engine(url)
    try:
        migrate(engine)
    finally:
        engine.dispose()


def test_the_database_of_another_program_is_refused_and_left_alone(
    blank_url: str, dialect: str
) -> None:
    driver = "sqlite" if dialect == "sqlite" else "postgresql+psycopg"
    plain = create_engine(make_url(blank_url).set(drivername=driver))
    with plain.begin() as connection:
        connection.execute(text("CREATE TABLE notes (x INTEGER)"))
    with pytest.raises(SchemaMismatch, match=r"another program's: it has other tables \(notes\)"):
        _opened_and_migrated(blank_url)
    assert inspect(plain).get_table_names() == ["notes"]
    if dialect == "sqlite":
        with plain.connect() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "delete"
    plain.dispose()


def test_alembic_database_of_another_program_is_refused(blank: Engine) -> None:
    of_another_schema(blank, "1975ea83b712")
    for refuse in (check_schema, migrate):
        with pytest.raises(SchemaMismatch, match=r"another program's: its schema is 1975ea83b712"):
            refuse(blank)
    assert sorted(inspect(blank).get_table_names()) == ["alembic_version", "jobs"]


MIGRATE_AT_ONCE = """
import sys
import tracemalloc
from db.sql.engine import migrate, open_engine
engine = open_engine(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
migrate(engine)
engine.dispose()
"""


def test_several_processes_may_migrate_at_once(blank_url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", MIGRATE_AT_ONCE, blank_url]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60) for process in processes] == [("", "")] * 4
    assert [process.returncode for process in processes] == [0] * 4
    engine = open_engine(blank_url)
    check_schema(engine)
    engine.dispose()


def test_several_threads_may_migrate_at_once(blank: Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: migrate(blank), range(4)))
    check_schema(blank)


def test_migrations_command_migrates_the_database(blank_url: str) -> None:
    process = run_migrations(blank_url)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
    engine = open_engine(blank_url)
    check_schema(engine)
    engine.dispose()


def test_migrations_command_reports_an_error_in_one_line() -> None:
    process = run_migrations("sqlite:////no/such/folder/a.db")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "no folder" in err


def test_repeated_schema_checks_keep_no_memory(engine: Engine) -> None:
    """Repeated checks of the schema, as by probes of ``/readyz``, keep no memory.

    A check that builds its statements anew keeps 17 KB each time and displaces another statement
    from the engine's cache of compiled ones.
    """
    check_schema(engine)
    tracemalloc.start()
    try:
        for _ in range(30):
            check_schema(engine)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
