"""Checking that the database is undamaged and consistent."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import JSON, Connection, Engine, exists, func, not_, select, text
from sqlalchemy.exc import DatabaseError

from db.results.totals import PRUNED
from db.sql.connections.sqlite_read_only import unlocked_state
from db.sql.engine import open_engine, parsed
from db.sql.errors import DatabaseDamaged, SchemaMismatch
from db.sql.schema import check_schema
from db.sql.tables import (
    artifacts,
    best_artifacts,
    bests,
    jobs,
    metadata,
    trial_sums,
    trials,
    workloads,
)
from db.sql.transaction import reading
from db.upkeep.check_signatures import count_unsigned, invalid_signatures
from db.upkeep.prune import evidence_of

MOST = 20
"""The most findings of one kind that are listed; further ones are only counted."""


@dataclass
class Findings:
    """The result of a check, as sentences for the user. It found no fault if ``wrong`` is empty."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # need no action

    def add(self, said: Iterator[str]) -> None:
        found = list(said)
        self.wrong += found[:MOST]
        if len(found) > MOST:
            self.wrong.append(f"and {len(found) - MOST} more findings of the same kind")


def check_read_only(url: str) -> Findings:
    """Open a database and check it, without changing a byte of a SQLite file. A file that is read
    without locks is checked again if it is written meanwhile."""
    file = Path(parsed(url).database or "").resolve()
    while True:
        before = unlocked_state(file)
        engine = open_engine(url, read_only=True)
        try:
            findings = check(engine)
        finally:
            engine.dispose()
        if before is None or unlocked_state(file) == before:
            return findings


def check(engine: Engine) -> Findings:
    """Read and check the whole database, without changing it."""
    findings = Findings()
    try:
        check_schema(engine)
    except SchemaMismatch as error:
        findings.wrong.append(str(error))
        return findings
    looks = [_dangling, _artifacts, _artifacts_of_bests, invalid_signatures, _jobs_of_bests, _sums]
    try:
        if engine.dialect.name == "sqlite":
            for look in (_integrity, _texts):
                with reading(engine) as connection:
                    findings.add(look(connection))
            if findings.wrong:
                return findings  # the other checks can't read a database with such damage
        for look in looks:
            with reading(engine) as connection:
                findings.add(look(connection))
        with reading(engine) as connection:
            _trials_of_bests(connection, findings)
            _unnamed(connection, findings)
            _unsigned(connection, findings)
    except DatabaseDamaged as error:  # pages that can't be read
        findings.wrong.append(error.finding)
    except DatabaseError as error:  # PostgreSQL's own errors
        findings.wrong.append(f"{error.orig}; put a backup in its place: tuner db restore")
    return findings


def _integrity(connection: Connection) -> Iterator[str]:
    for row in connection.execute(text("PRAGMA integrity_check")):
        if row[0] != "ok":
            yield f"integrity_check: {row[0]}; put a backup in its place: tuner db restore"


def _texts(connection: Connection) -> Iterator[str]:
    """Yield a finding for each JSON column of a row that holds other text. This is for SQLite:
    PostgreSQL refuses to store such text."""
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, JSON):
                wrong = column.is_not(None) & (func.json_valid(column) == 0)
                for row in connection.execute(select(*table.primary_key.columns).where(wrong)):
                    place = ", ".join(str(each) for each in row)
                    yield (
                        f"{table.name}, row {place}: its {column.name} is no JSON; "
                        "put a backup in its place: tuner db restore"
                    )


def _dangling(connection: Connection) -> Iterator[str]:
    """Yield a finding for each row that refers to a missing row. SQLite has a statement that checks
    them all. PostgreSQL has none, so each foreign key is checked by a query of its own."""
    if connection.dialect.name == "sqlite":
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield f"{row[0]}, row {row[1]}: the row of {row[2]} that it names is missing"
        return
    for table in metadata.sorted_tables:
        for key in table.foreign_keys:
            gone = not_(exists().where(key.column == key.parent))
            query = select(key.parent).where(key.parent.is_not(None), gone)
            for row in connection.execute(query):
                yield f"{table.name}, {key.parent.name} {row[0]}: the row of " + (
                    f"{key.column.table.name} that it names is missing"
                )


def _artifacts(connection: Connection) -> Iterator[str]:
    """Yield a finding for each artifact whose bytes do not match its name or size. Artifacts are
    read one at a time, because together they may be larger than memory."""
    for name in connection.execute(select(artifacts.c.sha256)).scalars().all():
        query = select(artifacts.c.content, artifacts.c.size).where(artifacts.c.sha256 == name)
        content, size = connection.execute(query).one()
        if hashlib.sha256(content).hexdigest() != name:
            why = "its bytes do not match their name"
            yield f"artifact {name}: {why}; tune its workload again, with --retune"
        elif len(content) != size:
            yield f"artifact {name}: it has {len(content)} bytes, but its row says {size}"


def _artifacts_of_bests(connection: Connection) -> Iterator[str]:
    gone = not_(exists().where(artifacts.c.sha256 == best_artifacts.c.sha256))
    for link in connection.execute(select(best_artifacts).where(gone)):
        yield f"best {link.best_id}: its {link.kind}, artifact {link.sha256}, is missing"


def _jobs_of_bests(connection: Connection) -> Iterator[str]:
    gone = not_(exists().where(jobs.c.seq == bests.c.job_seq))
    for best in connection.execute(select(bests.c.id, bests.c.job_seq).where(gone)):
        yield f"best {best.id}: its job, number {best.job_seq}, is missing"


def _sums(connection: Connection) -> Iterator[str]:
    for job, status, has, should in _disagreeing(connection):
        kind = f"{status} trials" if status else "trials"
        yield f"job {job}: {has} {kind} are stored, but {should} were counted"


def _disagreeing(connection: Connection) -> Iterator[tuple[str, str, int, int]]:
    """Yield job, status, number of stored trials and number of counted trials, if the two differ.

    Pruned trials are counted in one sum for all statuses. So a job with pruned trials is compared
    by its total, and the status is empty."""
    of_job: dict[int, list[dict[str, int]]] = {}
    kept = (trials.c.job_seq, trials.c.status)
    counts = select(*kept, func.count()).group_by(*kept)
    sums = select(trial_sums.c.job_seq, trial_sums.c.status, trial_sums.c.trials)
    for place, query in enumerate((counts, sums)):
        for seq, status, count in connection.execute(query):
            of_job.setdefault(seq, [{}, {}])[place][status] = count
    for seq, (stored, summed) in sorted(of_job.items()):
        pruned = summed.pop(PRUNED, 0)
        pairs = {
            status: (stored.get(status, 0), summed.get(status, 0))
            for status in sorted(stored.keys() | summed.keys())
        }
        if pruned:
            pairs = {"": (sum(stored.values()), sum(summed.values()) - pruned)}
        for status, (has, should) in pairs.items():
            if has != should:
                name = connection.execute(select(jobs.c.id).where(jobs.c.seq == seq)).scalar()
                yield name or f"number {seq}", status, has, should


def _trials_of_bests(connection: Connection, findings: Findings) -> None:
    """Add a finding for each best whose trial is missing, and a note of the number of bests that
    never had a trial.

    A default configuration that wins the last round has no trial. So a best's trial counts as
    missing only if one of the workload's jobs has fewer trials than were counted."""
    short = {job for job, _, has, should in _disagreeing(connection) if has < should}
    untried = 0
    for best in connection.execute(select(bests, workloads.c.key).join(workloads)):
        if connection.execute(select(trials.c.id).where(evidence_of(best))).first() is not None:
            continue
        of_workload = select(jobs.c.id).where(jobs.c.workload_id == best.workload_id)
        if short & set(connection.execute(of_workload).scalars()):
            findings.wrong.append(f"best {best.id} ({best.key}): its trial is missing")
        else:
            untried += 1
    if untried:
        findings.notes.append(f"bests whose configuration never had a trial: {untried}")


def _unnamed(connection: Connection, findings: Findings) -> None:
    gone = not_(exists().where(best_artifacts.c.sha256 == artifacts.c.sha256))
    size = func.coalesce(func.sum(artifacts.c.size), 0)
    count, total = connection.execute(select(func.count(), size).where(gone)).one()
    if count:
        findings.notes.append(
            f"artifacts that belong to no best any more: {count}, of {total} bytes; "
            "tuner db prune deletes them"
        )


def _unsigned(connection: Connection, findings: Findings) -> None:
    if count := count_unsigned(connection):
        findings.notes.append(
            f"unsigned bests: {count}; clients refuse to load their libraries: tune them again, "
            "with --retune"
        )
