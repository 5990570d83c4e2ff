"""A job's trials as a table: the first ones of a sorted selection, or all in batches."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Engine, Select, Text, cast, false, func, select

from db.queue.jobs import require_job_id
from db.sql.columns import storable
from db.sql.tables import jobs, trials
from db.sql.transaction import reading

BATCH = 500
SORTS = ("time_us", "number", "max_error")
_SHOWN = ("number", "status", "time_us", "template", "config", "max_error", "error", "seconds")
_TRUTHS = {"true": ("true", "1"), "false": ("false", "0")}  # SQLite returns JSON's true as 1


@dataclass(frozen=True)
class TrialFilter:
    """The conditions that a trial must meet to be listed. None means any. ``knobs`` has the values,
    as text, that the named knobs must have."""

    status: str | None = None
    template: str | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)


def find_trials(
    engine: Engine,
    job_id: str,
    wanted: TrialFilter,
    sort: str = "time_us",
    descending: bool = False,
    limit: int = 25,
) -> tuple[list[dict[str, Any]], int]:
    """Return the first ``limit`` of the job's trials that pass the filter, as dicts, and the number
    of all that pass. They are sorted by a column of SORTS, with missing values last."""
    column = trials.c[sort]
    order = column.desc() if descending else column.asc()
    query = _narrowed(select(*(trials.c[name] for name in _SHOWN)), job_id, wanted)
    query = query.order_by(column.is_(None), order, trials.c.number).limit(limit)
    count = _narrowed(select(func.count()), job_id, wanted)
    with reading(engine) as connection:
        found = [dict(row) for row in connection.execute(query).mappings()]
        return found, connection.execute(count).scalar_one()


def batches(engine: Engine, job_id: str, wanted: TrialFilter) -> Iterator[list[dict[str, Any]]]:
    """Yield all of the job's trials that pass the filter, by number, in batches of BATCH.

    Each batch is read in a transaction of its own, so that a slow client keeps no connection to the
    database."""
    query = _narrowed(select(*(trials.c[name] for name in _SHOWN)), job_id, wanted)
    query = query.order_by(trials.c.number).limit(BATCH)
    last = 0
    while True:
        with reading(engine) as connection:
            rows = connection.execute(query.where(trials.c.number > last)).mappings().all()
        if not rows:
            return
        last = rows[-1]["number"]
        yield [dict(row) for row in rows]


def templates_of(engine: Engine, job_id: str) -> list[str]:
    """Return the names of the templates that a job tried, sorted."""
    query = _narrowed(select(trials.c.template).distinct(), job_id, TrialFilter())
    with reading(engine) as connection:
        return sorted(connection.execute(query).scalars())


def _narrowed(query: Select[Any], job_id: str, wanted: TrialFilter) -> Select[Any]:
    query = query.select_from(trials).join(jobs, jobs.c.seq == trials.c.job_seq)
    query = query.where(jobs.c.id == require_job_id(job_id))
    texts = [*filter(None, (wanted.status, wanted.template)), *chain(*wanted.knobs.items())]
    if not all(storable(text) for text in texts):
        return query.where(false())
    if wanted.status is not None:
        query = query.where(trials.c.status == wanted.status)
    if wanted.template is not None:
        query = query.where(trials.c.template == wanted.template)
    return query.where(*(_equals(name, value) for name, value in wanted.knobs.items()))


def _equals(knob: str, text: str) -> ColumnElement[bool]:
    """Return an SQL condition: the knob's value, as text, equals this one if spaces are ignored."""
    stored = cast(trials.c.config[knob].as_string(), Text)
    given = text.replace(" ", "")
    return func.replace(stored, " ", "").in_(_TRUTHS.get(given.lower(), (given,)))
