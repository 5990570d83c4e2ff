"""Bests: storing them at a job's end, and looking them up.

There is one row for each workload and device and, on a CPU, each number of threads. A job that
finds a faster best replaces the row. Orders that are restricted to some templates have rows of
their own."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.engine import RowMapping

from db.contract.best import Result
from db.contract.order import PREDICTED
from db.fleet.devices import DEVICE_COLUMNS, Device
from db.queue.jobs import templates_text
from db.queue.lease import lock_leased_job, succeed
from db.results import artifacts as files
from db.results import signers
from db.results.artifacts import NewArtifact
from db.results.signers import NewSigner
from db.results.trials import config_key
from db.results.verify_signature import signature_fault, signing_key
from db.sql.columns import now, upsert, utc
from db.sql.errors import NotFound
from db.sql.tables import artifacts, best_artifacts, bests, devices, jobs, workloads
from db.sql.transaction import one_read, reading, writing


@dataclass(frozen=True, kw_only=True)
class NewBest(Result):
    """A best to store, whose figures were all measured."""

    workload_key: str
    device_id: int
    template_version: int
    tvm_version: str
    time_us: float
    timing: dict[str, Any]
    roofline: dict[str, Any]
    baselines: list[dict[str, Any]]
    trials_measured: int
    artifacts: dict[str, str] = field(default_factory=dict)  # kind -> sha256


@dataclass(frozen=True)
class BestWithFiles:
    """A best to store, with those of its files that are not stored yet."""

    best: NewBest
    artifacts: Sequence[NewArtifact] = ()


@dataclass(frozen=True, kw_only=True)
class Best(NewBest):
    """A stored best."""

    id: int
    job_id: str
    search: str  # the search of its job
    device: Device
    tuned_at: datetime
    sizes: dict[str, int]  # bytes of the artifacts, by kind


def finish_with_bests(
    engine: Engine,
    job_id: str,
    attempt: int,
    found: Sequence[BestWithFiles],
    signer: NewSigner | None = None,
    compared: Collection[tuple[str, int]] = (),
    trusted: Collection[str] | None = None,
) -> None:
    """Store bests and their files, and end the job as succeeded, in one transaction.

    `found[0]` is the job's own best, the others are for other numbers of threads. A best's
    ``artifacts`` may name further files, which must be stored already.

    A stored best is kept if it is faster and was measured with the same versions, including that of
    the protocol. The job then shows the stored best. There are three exceptions:

    - A predicted best is replaced by any best of a search, and is not stored if there is such a
      best already.
    - If `signer` is given, a stored best whose files clients would refuse is always replaced.
    - If `trusted` is given, a stored best that none of these public keys signed is replaced if its
      configuration was `compared`. The user who tunes can't load it, and the winner of a round with
      it is no slower, even if its time was longer today.

    `compared` are the configurations of the job's last round, each as its `config_key` and the
    version of its template. `trusted` may be given only with `signer`.

    `signer` has signed the files. It is registered in the same transaction, because the database
    may have been replaced since the worker registered at its start.

    Raises LeaseLost, and NotFound if a named artifact is not stored."""
    with writing(engine) as connection:
        job = lock_leased_job(connection, job_id, attempt)
        if signer is not None:
            signers.write(connection, signer)
        stored = _stored(connection, job, found[0].best.device_id)
        sound = stored
        if signer is not None:
            key = found[0].best.workload_key
            sound = [row for row in stored if signature_fault(connection, row["id"], key) is None]
        searched = [row for row in sound if row["search"] != PREDICTED]
        if job["search"] != PREDICTED:
            _delete(connection, [row["id"] for row in stored if row["search"] == PREDICTED])
        elif searched:
            fastest = min(searched, key=lambda row: float(row["time_us"]))
            succeed(connection, job["seq"], **_job_columns(_as_stored(found[0].best, fastest)))
            return
        may_stay = sound if job["search"] == PREDICTED else searched
        by_threads = {
            row["threads"]: row
            for row in may_stay
            if trusted is None
            or (config_key(row["config"]), row["template_version"]) not in compared
            or signing_key(connection, row["id"]) in trusted
        }
        kept = [
            _keep_faster(connection, job, each, by_threads.get(each.best.threads or 0))
            for each in found
        ]
        succeed(connection, job["seq"], **_job_columns(kept[0]))


def _stored(connection: Connection, job: RowMapping, device_id: int) -> Sequence[RowMapping]:
    """Return the rows that the job's bests may replace, each with the search of its own job."""
    query = (
        select(bests, jobs.c.search)
        .join(jobs, jobs.c.seq == bests.c.job_seq)
        .where(
            bests.c.workload_id == job["workload_id"],
            bests.c.device_id == device_id,
            bests.c.templates == templates_text(job["templates"]),
        )
    )
    return connection.execute(query).mappings().all()


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    if ids:
        connection.execute(delete(best_artifacts).where(best_artifacts.c.best_id.in_(ids)))
        connection.execute(delete(bests).where(bests.c.id.in_(ids)))


def _as_stored(best: NewBest, stored: RowMapping) -> NewBest:
    """Return the best with the configuration and speed of the stored one, for the job to show."""
    return replace(best, **{name: stored[name] for name in ("config", "time_us", "gflops")})


def _keep_faster(
    connection: Connection, job: RowMapping, found: BestWithFiles, stored: RowMapping | None
) -> NewBest:
    """Store the best and return it. If the stored one has the same versions and is faster, store
    nothing, and return that one."""
    best = found.best
    if stored and stored["versions"] == best.versions and stored["time_us"] < best.time_us:
        return _as_stored(best, stored)
    named: dict[str, str] = {new.kind: files.write(connection, new) for new in found.artifacts}
    _write(connection, job, replace(best, artifacts={**best.artifacts, **named}))
    return best


def lookup(
    engine: Engine,
    workload_key: str,
    kind: str | None = None,
    device: int | str | None = None,
    templates: Collection[str] | None = None,
    threads: int | None = None,
    *,
    parallel: bool = False,
) -> list[Best]:
    """Return the best of one workload on each device, fastest first.

    `kind` and `device`, which is a device's id or name, restrict the devices. `templates` keeps
    bests by these templates, and `threads` those that run on at most so many CPU threads. With
    `parallel`, a device's best on a single thread is returned only if it has no other."""
    with one_read(engine) as connection:
        found = _read(connection, _OF_WORKLOAD, {"key": workload_key})
    return _fastest(found, kind, device, templates, threads, parallel)


def bests_on_device(engine: Engine, workload_key: str, device_id: int) -> list[Best]:
    """Return all bests of a workload on a device, for all numbers of threads and restrictions to
    templates."""
    with one_read(engine) as connection:
        found = _read(connection, _OF_WORKLOAD, {"key": workload_key})
    return [best for best in found if best.device_id == device_id]


def bests_of_operator(
    engine: Engine,
    operator: str,
    kind: str | None = None,
    device: int | str | None = None,
    templates: Collection[str] | None = None,
    threads: int | None = None,
    *,
    parallel: bool = False,
    without: Collection[str] = (),
) -> list[Best]:
    """Return the fastest best of each workload of an operator on each device, fastest first. The
    caller chooses the nearest shape among them. Bests of jobs whose search is in `without` are left
    out. The other arguments are those of `lookup`."""
    query = (
        _best_columns()
        .where(workloads.c.operator == operator, jobs.c.search.not_in(without))
        .order_by(*_FASTEST_FIRST)
    )
    with reading(engine) as connection:
        found = _read(connection, query)
    return _fastest(found, kind, device, templates, threads, parallel)


def _job_columns(best: NewBest) -> dict[str, Any]:
    """Return the values of the job's columns that show its best."""
    shown = {"config": best.config, "time_us": best.time_us, "gflops": best.gflops}
    return {"best": shown, "device_id": best.device_id}


def _write(connection: Connection, job: RowMapping, best: NewBest) -> None:
    """Store a best and the names of its files, in place of the one that was stored.

    Raises NotFound if a file is not stored, and ValueError if the job tunes another workload."""
    key = select(workloads.c.key).where(workloads.c.id == job["workload_id"])
    if connection.execute(key).scalar_one() != best.workload_key:
        raise ValueError(f"job {job['id']} tunes another workload than {best.workload_key}")
    named = set(best.artifacts.values())
    query = select(artifacts.c.sha256).where(artifacts.c.sha256.in_(named))
    for sha256 in sorted(named - set(connection.execute(query).scalars())):
        raise NotFound("artifact", sha256)
    values = {
        name: value
        for name, value in asdict(best).items()
        if name not in ("operator", "workload_key", "workload", "artifacts")
    }
    values |= {"workload_id": job["workload_id"], "job_seq": job["seq"], "tuned_at": now()}
    values["threads"] = best.threads or 0
    values["templates"] = templates_text(job["templates"])
    statement = (
        upsert(connection, bests)
        .values(**values)
        .on_conflict_do_update(
            index_elements=[
                bests.c.workload_id,
                bests.c.device_id,
                bests.c.threads,
                bests.c.templates,
            ],
            set_=values,
        )
        .returning(bests.c.id)
    )
    best_id = int(connection.execute(statement).scalar_one())
    connection.execute(delete(best_artifacts).where(best_artifacts.c.best_id == best_id))
    if best.artifacts:
        connection.execute(
            insert(best_artifacts),
            [
                {"best_id": best_id, "kind": kind, "sha256": sha256}
                for kind, sha256 in best.artifacts.items()
            ],
        )


def _best_columns() -> Select[Any]:
    space: ColumnElement[str] = literal_column("' '")
    comma: ColumnElement[str] = literal_column("','")
    file = best_artifacts.c.kind + space + artifacts.c.sha256 + space + cast(artifacts.c.size, Text)
    files = (
        # literals, because SQLAlchemy would write parameters into the statement at each call
        select(func.aggregate_strings(file, comma))  # type: ignore[arg-type]
        .select_from(best_artifacts.join(artifacts, artifacts.c.sha256 == best_artifacts.c.sha256))
        .where(best_artifacts.c.best_id == bests.c.id)
        .scalar_subquery()
    )
    return (
        select(
            bests,
            files.label("files"),
            jobs.c.id.label("job_id"),
            jobs.c.search,
            workloads.c.key.label("workload_key"),
            workloads.c.operator,
            workloads.c.workload,
            *DEVICE_COLUMNS,
        )
        .join(jobs, jobs.c.seq == bests.c.job_seq)
        .join(workloads, workloads.c.id == bests.c.workload_id)
        .join(devices, devices.c.id == bests.c.device_id)
    )


# Built once, because building the statement takes SQLAlchemy longer than SQLite needs to answer it.
_FASTEST_FIRST = (bests.c.time_us, bests.c.id)
_OF_WORKLOAD = _best_columns().where(workloads.c.key == bindparam("key")).order_by(*_FASTEST_FIRST)
_PLAIN = [
    name
    for name in Best.__dataclass_fields__
    if name not in ("artifacts", "device", "threads", "tuned_at", "sizes")
]


def _fastest(
    found: Iterable[Best],
    kind: str | None,
    device: int | str | None,
    templates: Collection[str] | None,
    threads: int | None,
    parallel: bool,
) -> list[Best]:
    """Return the best of each workload on each device, fastest first, of those that pass the
    conditions. ``found`` is sorted fastest first; the arguments are those of `lookup`."""
    if parallel:
        found = sorted(found, key=lambda best: best.threads == 1)
    kept: dict[tuple[str, int], Best] = {}
    for best in found:
        if (
            _is_of(best.device, kind, device)
            and (templates is None or best.template in templates)
            and (threads is None or (best.threads or 0) <= threads)
        ):
            kept.setdefault((best.workload_key, best.device_id), best)
    return sorted(kept.values(), key=lambda best: best.time_us)


def _is_of(device: Device, kind: str | None, asked: int | str | None) -> bool:
    """Return whether the device is of this kind, and has this id or name. None means any."""
    if kind is not None and device.kind != kind:
        return False
    return asked is None or str(asked) in device.names


def _read(
    connection: Connection, query: Select[Any], values: Mapping[str, Any] | None = None
) -> list[Best]:
    found = []
    for row in connection.execute(query, values).mappings():
        files = sorted(file.split(" ") for file in (row["files"] or "").split(",") if file)
        found.append(
            Best(
                **{name: row[name] for name in _PLAIN},
                threads=row["threads"] or None,
                artifacts={kind: sha256 for kind, sha256, _ in files},
                sizes={kind: int(size) for kind, _, size in files},
                device=Device.from_row(row, "device_"),
                tuned_at=utc(row["tuned_at"]),
            )
        )
    return found
