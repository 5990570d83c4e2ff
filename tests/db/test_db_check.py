"""``tuner db check`` finds each kind of damage, and nothing wrong with a sound database."""

from collections.abc import Callable

import pytest
from model_rows import ordered
from sqlalchemy import Connection, Engine, delete, insert, text, update
from sqlalchemy.exc import DataError
from storage_rows import (
    FILES,
    claimed,
    device,
    everything,
    let_rot,
    new_best,
    new_trial,
    recorded,
    submitted,
)

from db import queue
from db.results import artifacts, best, trials
from db.sql import schema, tables
from db.upkeep.check import MOST, Findings, check, check_read_only

Harm = Callable[[Connection], object]
SET_REVISION = text("UPDATE alembic_version SET version_num = :revision")


@pytest.fixture
def tuned(engine: Engine) -> queue.Job:
    """A succeeded job with two trials, one of them failed, and a best with two files."""
    submitted(engine)
    job, gpu = claimed(engine), device(engine).id
    new = [new_trial(gpu, 64), new_trial(gpu, 65, status="run_error", time_us=None)]
    trials.add(engine, job.id, job.attempt, new)
    best.finish_with_bests(
        engine, job.id, job.attempt, [best.BestWithFiles(new_best(job, gpu), FILES)]
    )
    return queue.get(engine, job.id)


def harmed(engine: Engine, harm: Harm) -> list[str]:
    """Do the harm, with foreign keys switched off to allow it; return what check finds wrong."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            raw = connection.connection.driver_connection
            assert raw is not None
            raw.execute("PRAGMA foreign_keys = OFF")
        else:
            connection.execute(text("SET session_replication_role = replica"))
        harm(connection)
        connection.commit()
        if engine.dialect.name == "sqlite":
            raw.execute("PRAGMA foreign_keys = ON")
        else:
            connection.execute(text("SET session_replication_role = origin"))
            connection.commit()
    return check(engine).wrong


def test_check_of_a_sound_database_finds_and_changes_nothing(
    engine: Engine, tuned: queue.Job
) -> None:
    before = everything(engine)
    found = check(engine)
    assert (found.wrong, found.notes) == ([], [])
    assert everything(engine) == before


def test_check_finds_an_artifact_with_damaged_bytes(engine: Engine, tuned: queue.Job) -> None:
    name = FILES[0].sha256
    rot = update(tables.artifacts).where(tables.artifacts.c.sha256 == name).values(content=b"rot")
    wrong = harmed(engine, lambda connection: connection.execute(rot))
    assert [each.partition(";")[0] for each in wrong] == [
        f"artifact {name}: its bytes do not match their name"
    ]


def test_check_finds_an_artifact_with_a_wrong_size(engine: Engine, tuned: queue.Job) -> None:
    [line] = harmed(engine, lambda to: to.execute(update(tables.artifacts).values(size=9)))
    assert "it has 12 bytes, but its row says 9" in line  # the other file has 9 bytes


def test_check_finds_a_missing_artifact(engine: Engine, tuned: queue.Job) -> None:
    name = FILES[0].sha256
    gone = delete(tables.artifacts).where(tables.artifacts.c.sha256 == name)
    wrong = harmed(engine, lambda connection: connection.execute(gone))
    assert f"best 1: its library, artifact {name}, is missing" in wrong


def test_check_finds_a_missing_job(engine: Engine, tuned: queue.Job) -> None:
    wrong = harmed(engine, lambda connection: connection.execute(delete(tables.jobs)))
    assert "best 1: its job, number 1, is missing" in wrong
    assert any(line.startswith("trials, ") and "row of jobs that" in line for line in wrong)


def test_check_finds_a_layer_without_its_job(engine: Engine) -> None:
    ordered(engine, 10, 11)
    assert check(engine).wrong == []
    found = harmed(engine, lambda c: c.execute(delete(tables.jobs).where(tables.jobs.c.seq == 2)))
    assert [each for each in found if "model_layers" in each and "row of jobs" in each] == found
    assert len(found) == 1


def test_check_finds_a_missing_trial(engine: Engine, tuned: queue.Job) -> None:
    gone = delete(tables.trials).where(tables.trials.c.number == 1)
    wrong = harmed(engine, lambda connection: connection.execute(gone))
    assert wrong == [
        f"job {tuned.id}: 0 ok trials are stored, but 1 were counted",
        f"best 1 ({tuned.workload_key}): its trial is missing",
    ]


def test_check_finds_a_trial_that_was_not_counted(engine: Engine, tuned: queue.Job) -> None:
    fewer = delete(tables.trial_sums).where(tables.trial_sums.c.status == "run_error")
    wrong = harmed(engine, lambda connection: connection.execute(fewer))
    assert wrong == [f"job {tuned.id}: 1 run_error trials are stored, but 0 were counted"]


def test_check_finds_trial_sums_of_an_unknown_job(engine: Engine, tuned: queue.Job) -> None:
    phases = {f"{phase}_seconds": 0.0 for phase in ("schedule", "build", "check", "run")}
    more = insert(tables.trial_sums).values(job_seq=9, status="ok", trials=2, **phases)
    wrong = harmed(engine, lambda connection: connection.execute(more))
    assert "job number 9: 0 ok trials are stored, but 2 were counted" in wrong
    assert len(wrong) == 2  # the other finding is that their job is missing


@pytest.mark.parametrize(("table", "column"), [("bests", "config"), ("workloads", "workload")])
def test_check_finds_text_that_is_not_json(
    engine: Engine, dialect: str, tuned: queue.Job, table: str, column: str
) -> None:
    harm = text(f"UPDATE {table} SET {column} = '{{'")  # noqa: S608
    if dialect == "postgresql":  # it refuses text that is no JSON
        with pytest.raises(DataError), engine.begin() as connection:
            connection.execute(harm)
        return
    [line] = harmed(engine, lambda to: to.execute(harm))
    assert line.startswith(f"{table}, row 1: its {column} is no JSON; put a backup")


def test_check_finds_another_schema_version(engine: Engine, tuned: queue.Job) -> None:
    now = everything(engine)
    head = schema._head()
    assert head is not None
    try:
        [newer] = harmed(engine, lambda to: to.execute(SET_REVISION, {"revision": "9999"}))
        [older] = harmed(engine, lambda to: to.execute(SET_REVISION, {"revision": "0012"}))
        [earlier] = harmed(engine, lambda to: to.execute(SET_REVISION, {"revision": "0005"}))
    finally:
        assert harmed(engine, lambda to: to.execute(SET_REVISION, {"revision": head})) == []
    assert "9999 is newer" in newer
    assert "0012, an older version's" in older
    assert "do not upgrade a backup, but restore it into another database" in older
    assert "0005 was made by an earlier development version" in earlier
    assert everything(engine) == now


def test_artifact_of_no_best_is_only_noted(engine: Engine, tuned: queue.Job) -> None:
    artifacts.put(engine, b"an old one", "source", "text/plain")
    found = check(engine)
    assert found.wrong == []
    assert found.notes == [
        "artifacts that belong to no best any more: 1, of 10 bytes; tuner db prune deletes them"
    ]


def test_best_without_a_trial_is_only_noted(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    recorded(engine, job, new_best(job, device(engine).id))
    found = check(engine)
    assert found.wrong == []
    assert found.notes == ["bests whose configuration never had a trial: 1"]


def test_check_names_only_the_first_of_many_similar_findings(
    engine: Engine, tuned: queue.Job
) -> None:
    for n in range(MOST + 5):
        artifacts.put(engine, f"{n}".encode(), "source", "text/plain")
    wrong = harmed(engine, lambda to: to.execute(update(tables.artifacts).values(content=b"x")))
    assert len(wrong) == MOST + 1
    assert wrong[-1].endswith("more findings of the same kind")


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_file_written_during_a_check_is_checked_again(
    engine: Engine, url: str, tuned: queue.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.dispose()  # now all is in the file, which is read without locks
    times = []

    def checked(opened: Engine) -> Findings:
        found = check(opened)
        if not times:
            artifacts.put(engine, b"an old one", "source", "text/plain")
        times.append(found.notes)
        return found

    monkeypatch.setattr("db.upkeep.check.check", checked)
    assert check_read_only(url).notes == times[1] != times[0]
    assert len(times) == 2


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_check_finds_damaged_pages(engine: Engine, tuned: queue.Job) -> None:
    for n in range(200):
        artifacts.put(engine, bytes([n]) * 5000, "source", "text/plain")
    let_rot(engine)
    wrong = check(engine).wrong
    assert wrong
    assert any("tuner db restore" in line for line in wrong)
