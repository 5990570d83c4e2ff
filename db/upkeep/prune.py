"""Deleting old trials, lists of configurations and artifacts, in short transactions.

These are kept at any age:

- each best, with its job, its trial and its artifacts;
- all trials of workloads that an unended job tunes;
- the last jobs of each operator on each device, from which searches of other shapes start
  (tuner/plan/warm_start.py);
- each job's row and its sums, so that no count decreases;
- models, whose layers refer to jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    and_,
    delete,
    exists,
    func,
    not_,
    or_,
    select,
)

from db.results.totals import PHASES, PRUNED
from db.results.trials import config_key
from db.sql.columns import now, upsert
from db.sql.tables import (
    ENDED,
    UNENDED,
    artifacts,
    best_artifacts,
    bests,
    jobs,
    listed_configs,
    trial_sums,
    trials,
    workloads,
)
from db.sql.transaction import reading, writing

WARM_JOBS = 16
"""For each operator on each device, the trials of so many last jobs with an ok trial are kept. This
is four times the number of workloads that a warm start reads."""
BATCH = 500  # trials in one transaction
ARTIFACTS_AT_ONCE = 20


@dataclass(frozen=True)
class Pruned:
    """What was deleted, or would be."""

    jobs: int  # jobs that lose trials
    trials: int
    configs: int  # configurations of lists
    artifacts: int
    artifact_bytes: int


def prune(engine: Engine, days: float, *, dry_run: bool = False) -> Pruned:
    """Delete rows that are older than `days` by the database's clock, and return how many there
    were. With `dry_run`, only count them."""
    with reading(engine) as connection:
        cutoff = connection.execute(select(now() - days * 86400.0)).scalar_one()
        old = connection.execute(_old_jobs(cutoff)).all()
    by_job = [_trials_of(engine, job, cutoff, dry_run=dry_run) for job in old]
    count, size = _artifacts(engine, cutoff, dry_run=dry_run)
    return Pruned(
        jobs=sum(found > 0 for found in by_job),
        trials=sum(by_job),
        configs=sum(_configs_of(engine, job, cutoff, dry_run=dry_run) for job in old),
        artifacts=count,
        artifact_bytes=size,
    )


def _old_jobs(cutoff: float) -> Any:
    """Return a SELECT of the ended jobs whose trials may be deleted."""
    rank = func.row_number().over(
        partition_by=(workloads.c.operator, jobs.c.device_id), order_by=jobs.c.seq.desc()
    )
    ranked = (
        select(jobs.c.seq, rank.label("rank"))
        .join(workloads, workloads.c.id == jobs.c.workload_id)
        .where(ENDED, jobs.c.trials_ok > 0)
        .subquery()
    )
    last = select(ranked.c.seq).where(ranked.c.rank <= WARM_JOBS)
    return (
        select(jobs.c.seq, jobs.c.workload_id)
        .where(ENDED, jobs.c.created_at < cutoff, jobs.c.seq.not_in(last))
        .order_by(jobs.c.seq)
    )


def _trials_of(engine: Engine, job: Row[Any], cutoff: float, *, dry_run: bool) -> int:
    """Delete a job's old trials that nothing needs, and return their number."""
    old = and_(trials.c.job_seq == job.seq, trials.c.created_at < cutoff)
    if dry_run:
        with reading(engine) as connection:
            wanted = _wanted(connection, job.workload_id)
            query = select(func.count()).select_from(trials).where(old, not_(wanted))
            return int(connection.execute(query).scalar_one())
    removed = 0
    while True:
        with writing(engine) as connection:
            # locked, so that no job of this workload is ordered while its trials vanish
            workload = select(workloads.c.id).where(workloads.c.id == job.workload_id)
            connection.execute(workload.with_for_update())
            wanted = _wanted(connection, job.workload_id)
            some = select(trials.c.id).where(old, not_(wanted)).limit(BATCH)
            ids = connection.execute(some).scalars().all()
            if not ids:
                return removed
            connection.execute(delete(trials).where(trials.c.id.in_(ids)))
            _note(connection, job.seq, len(ids))
            removed += len(ids)


def evidence_of(best: Row[Any]) -> ColumnElement[bool]:
    """Return an SQL condition: the trial measured the configuration of this row of ``bests``."""
    return and_(
        trials.c.workload_id == best.workload_id,
        trials.c.device_id == best.device_id,
        trials.c.tvm_version == best.tvm_version,
        trials.c.template == best.template,
        trials.c.template_version == best.template_version,
        trials.c.config_key == config_key(best.config),
    )


def _wanted(connection: Connection, workload_id: int) -> ColumnElement[bool]:
    """Return an SQL condition: a best rests on this trial of the workload, or an unended job tunes
    the workload."""
    at_work = exists().where(jobs.c.workload_id == workload_id, UNENDED)
    of_workload = connection.execute(select(bests).where(bests.c.workload_id == workload_id))
    return or_(at_work, *map(evidence_of, of_workload))


def _note(connection: Connection, seq: int, count: int) -> None:
    """Record how many trials a job has lost, next to its sums."""
    nothing = {f"{phase}_seconds": 0.0 for phase in PHASES}
    statement = upsert(connection, trial_sums).values(
        job_seq=seq, status=PRUNED, trials=count, **nothing
    )
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[trial_sums.c.job_seq, trial_sums.c.status],
            set_={"trials": trial_sums.c.trials + statement.excluded.trials},
        )
    )


def _configs_of(engine: Engine, job: Row[Any], cutoff: float, *, dry_run: bool) -> int:
    """Delete the job's list of configurations if the job ended before the cutoff and made no best.
    Return how many configurations were deleted."""
    old = and_(
        listed_configs.c.job_seq == job.seq,
        exists().where(jobs.c.seq == job.seq, jobs.c.finished_at < cutoff),
        not_(exists().where(bests.c.job_seq == job.seq)),
    )
    with reading(engine) as connection:
        query = select(func.count()).select_from(listed_configs).where(old)
        found = int(connection.execute(query).scalar_one())
    if dry_run or not found:
        return found
    with writing(engine) as connection:
        return connection.execute(delete(listed_configs).where(old)).rowcount


def _artifacts(engine: Engine, cutoff: float, *, dry_run: bool) -> tuple[int, int]:
    """Delete old artifacts that belong to no best. Return their number, and their size in bytes."""
    unnamed = and_(
        artifacts.c.created_at < cutoff,
        not_(exists().where(best_artifacts.c.sha256 == artifacts.c.sha256)),
    )
    if dry_run:
        size = func.coalesce(func.sum(artifacts.c.size), 0)
        with reading(engine) as connection:
            found = connection.execute(select(func.count(), size).where(unnamed)).one()
        return int(found[0]), int(found[1])
    count = size_of_all = 0
    while True:
        with writing(engine) as connection:
            # locked, and then checked again: a job that stores a best with such a file waits for
            # this transaction, and stores the file anew
            some = select(artifacts.c.sha256).where(unnamed).limit(ARTIFACTS_AT_ONCE)
            names: Sequence[str] = (
                connection.execute(some.with_for_update(skip_locked=True)).scalars().all()
            )
            statement = delete(artifacts).where(artifacts.c.sha256.in_(names), unnamed)
            sizes = connection.execute(statement.returning(artifacts.c.size)).scalars().all()
        if not sizes:
            return count, size_of_all
        count, size_of_all = count + len(sizes), size_of_all + sum(sizes)
