"""Databases of every released schema can be migrated without losing or changing a row.

The files in ``released`` were made with released/make.py.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from released.load import HERE, REVISIONS, load
from sqlalchemy import Engine, MetaData, inspect, select
from storage_rows import new_trial

from db import models, queue
from db.access import keys
from db.fleet import devices, workers
from db.records import listed
from db.results import artifacts, best, ladders, signers, trials
from db.results.totals import totals
from db.sql.engine import check_schema, migrate, open_engine, reading
from db.sql.schema import _config, _revisions
from db.sql.tables import metadata
from db.upkeep.check import check

ERROR = "LLVM: „zu groß“ – 2 × 3 > 5\nline 2; it's over; --\n"
STATES = {
    64: "succeeded",
    65: "failed",
    66: "cancelled",
    67: "running",
    68: "queued",
    69: "queued",
    70: "queued",  # an imported list
}
MODELS_SINCE = "0010"
"""First revision whose file has a model. It shares the job of length 69 and made that of 71."""


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(blank_url: str, revision: str) -> Iterator[Engine]:
    """An engine on a database of a released schema, not yet migrated."""
    load(blank_url, revision)
    engine = open_engine(blank_url)
    yield engine
    engine.dispose()


@pytest.fixture
def migrated(old: Engine) -> Engine:
    migrate(old)
    return old


def the_job(engine: Engine, length: int) -> queue.Job:
    [job] = [job for job in queue.list_jobs(engine).items if job.workload["M"] == length]
    return job


def rows(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every table but ``alembic_version``, as they are in the database now."""
    found = MetaData()
    with reading(engine) as connection:
        found.reflect(connection)
        return {
            table.name: sorted(map(dict, connection.execute(select(table)).mappings()), key=repr)
            for table in found.sorted_tables
            if table.name != "alembic_version"
        }


def picture(engine: Engine) -> dict[str, Any]:
    """Return the schema of each table as the engine reports it, in sorted order."""
    look = inspect(engine)
    return {
        table: {
            "columns": sorted(map(repr, look.get_columns(table))),
            "key": look.get_pk_constraint(table),
            "unique": sorted(map(repr, look.get_unique_constraints(table))),
            "checks": sorted(map(repr, look.get_check_constraints(table))),
            "foreign": sorted(map(repr, look.get_foreign_keys(table))),
            "indexes": sorted(repr(_plain(each)) for each in look.get_indexes(table)),
        }
        for table in sorted(look.get_table_names())
    }


def _plain(index: Any) -> dict[str, Any]:
    """Return an index with its conditions as text, because objects of equal ones are not equal."""
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


def test_alembic_finds_the_revisions_that_the_files_are_named_after() -> None:
    known = [each.revision for each in ScriptDirectory.from_config(_config()).walk_revisions()]
    assert _revisions() == tuple(known)


def test_every_released_revision_is_kept_for_both_engines() -> None:
    """There is a file for each revision and engine, of at most 30,000 bytes."""
    known = _revisions()
    kept = {path.name for path in HERE.glob("*.sql")}
    assert kept == {f"{each}.{kind}.sql" for each in known for kind in ("sqlite", "postgresql")}
    assert all((HERE / name).stat().st_size <= 30_000 for name in kept)


def test_migration_loses_and_changes_no_row(old: Engine) -> None:
    before = rows(old)
    migrate(old)
    check_schema(old)
    after = rows(old)
    for table, stored in before.items():
        columns = stored[0].keys() if stored else ()
        assert stored == sorted(
            ({name: row[name] for name in columns} for row in after[table]), key=repr
        )
    assert len(before["trials"]) == 7


def test_migrated_database_equals_a_new_one_and_all_rows_are_read(
    migrated: Engine, engine: Engine, revision: str
) -> None:
    assert sorted(picture(migrated)) == sorted([*metadata.tables, "alembic_version"])
    assert picture(migrated) == picture(engine)
    assert check(migrated).wrong == []
    jobs_and_trials_are_read(migrated, revision)
    models_are_read(migrated, revision)
    the_best_and_its_files_are_read(migrated)
    all_else_is_read(migrated)


def jobs_and_trials_are_read(migrated: Engine, revision: str) -> None:
    found = {job.workload["M"]: job.state for job in queue.list_jobs(migrated).items}
    assert found == STATES | ({71: "queued"} if revision >= MODELS_SINCE else {})
    succeeded = the_job(migrated, 64)
    assert (succeeded.trials_measured, succeeded.trials_ok, succeeded.trials_failed) == (4, 2, 2)
    assert succeeded.best is not None
    assert succeeded.best["time_us"] == 1.5
    assert (succeeded.patience, succeeded.warm_start) == (7, False)
    assert succeeded.label == "Größe 64"
    assert the_job(migrated, 65).error == ERROR
    waiting = the_job(migrated, 69)
    assert (waiting.budget_seconds, waiting.seed, waiting.templates) == (60.5, 2**40, ("direct",))
    log = trials.list_trials(migrated, succeeded.id).items
    assert [trial.number for trial in log] == [1, 2, 3, 4]
    assert [trial.status for trial in log] == ["ok", "ok", "wrong_answer", "run_timeout"]
    assert [trial.time_us for trial in log] == [1.5, 2.5, None, None]
    assert log[0].config == {"template": "direct", "lanes": 16, "outputs": 4}
    assert log[2].error == ERROR
    assert log[0].seconds == {"schedule": 0.25, "build": 0.5}
    counted = {"ok": 4, "wrong_answer": 1, "run_timeout": 1, "build_error": 1}
    assert totals(migrated).trials == counted


def models_are_read(migrated: Engine, revision: str) -> None:
    found = models.list_models(migrated).items
    if revision < MODELS_SINCE:
        assert found == []
        return
    [model] = found
    assert (model.name, model.state, model.terms["templates"]) == (
        "Netz Größe S", "queued", ["direct"],
    )  # fmt: skip
    layers = [(each.job.workload["M"], each.calls) for each in models.layers(migrated, model)]
    assert layers == [(69, 3), (71, 1)]
    assert models.cancel(migrated, model.id).state == "cancelled"
    assert (the_job(migrated, 69).state, the_job(migrated, 71).state) == ("queued", "cancelled")


def the_best_and_its_files_are_read(migrated: Engine) -> None:
    job = the_job(migrated, 64)
    [found] = best.lookup(migrated, job.workload_key)
    assert (found.time_us, found.gflops, found.trials_measured) == (1.5, 600.0, 4)
    assert found.device.name == "AMD EPYC (znver5)"
    assert found.job_id == job.id
    assert sorted(found.artifacts) == ["library", "manifest", "record", "source"]
    library = artifacts.get(migrated, found.artifacts["library"])
    assert library.content == b"\x7fELF\x02\x01\x01\x00" + bytes(range(256))
    source = artifacts.get(migrated, found.artifacts["source"])
    assert source.content == "; µ-kernel\ndefine void @main() { ret void }\n".encode()
    manifest = artifacts.get(migrated, found.artifacts["manifest"])
    assert json.loads(manifest.content)["config"] == found.config


def all_else_is_read(migrated: Engine) -> None:
    memory = {device.name: device.memory_bytes for device in devices.list_devices(migrated)}
    assert memory == {"AMD EPYC (znver5)": 8_000_000_000, "NVIDIA H200": 150_000_000_000}
    assert [worker.name for worker in workers.list_workers(migrated)] == ["host-1-abc"]
    climbed = ladders.list_ladders(migrated, "conv1d").items
    assert [ladder.rows[0]["name"] for ladder in climbed] == ["naive"]
    lists = [listed.of_job(migrated, job.id) for job in queue.list_jobs(migrated).items]
    sources = [each.source for list_ in lists for each in list_]
    assert sources == [{"line": 3}]
    names = {key.name: key.scope for key in keys.list_keys(migrated)}
    assert names == {"ci": "submit", "guest": "read", "old": "admin"}
    assert [each.public_key for each in signers.list_signers(migrated)] == ["5e" * 32]


def test_work_continues_after_a_migration(migrated: Engine) -> None:
    """The job of a vanished worker is claimed first, then queued jobs.

    A repeated order still gets its job.
    """
    key, jobs = the_job(migrated, 68).workload_key, len(queue.list_jobs(migrated).items)
    orphan = queue.claim(migrated, "new", ["cuda"])
    assert orphan is not None
    assert (orphan.workload["M"], orphan.attempt) == (67, 2)
    [gpu] = [device.id for device in devices.list_devices(migrated) if device.kind == "cuda"]
    [added] = trials.add(migrated, orphan.id, orphan.attempt, [new_trial(gpu, 999)])
    assert added.number == 2
    queue.finish(migrated, orphan.id, orphan.attempt, "succeeded")
    next_one = queue.claim(migrated, "new", ["cpu"])
    assert next_one is not None
    assert (next_one.workload["M"], next_one.attempt) == (68, 1)
    order = queue.JobOrder(
        operator="conv1d",
        workload_key=key,
        workload=next_one.workload,
        target="cpu",
        trials=4,
        on_existing="retune",
    )
    again, created = queue.submit(migrated, order, "a-key-of-68")
    assert (again.id, created) == (next_one.id, False)
    new, created = queue.submit(migrated, order)
    assert (new.id, created) == (next_one.id, False)  # the job of an equal order is running
    queue.cancel(migrated, next_one.id)
    assert queue.submit(migrated, order)[1]
    assert len(queue.list_jobs(migrated).items) == jobs + 1
