"""Jobs that do not search, but measure a list of configurations.

The list was imported, or is a neighbour's configuration. Its configurations are built, checked and
measured like those of a search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Engine, insert, select

from db.contract.job import Job
from db.contract.order import JobOrder
from db.queue.jobs import by_seqs, require_job_id
from db.queue.submit import create, hash_fields, retry_on_conflict
from db.results.trials import config_key
from db.sql.tables import JOINABLE, jobs, listed_configs
from db.sql.transaction import reading

IMPORTED = "imported"
NEIGHBOUR = "neighbour"
SEARCHES = (IMPORTED, NEIGHBOUR)
"""The values of ``search`` that such jobs have, in place of a search strategy."""


@dataclass(frozen=True)
class ListedConfig:
    """A configuration on a job's list."""

    config: dict[str, Any]
    template_version: int
    source: dict[str, Any] = field(default_factory=dict)  # where it was found, and its result there


@dataclass(frozen=True)
class ListedOrder:
    """An order to measure these configurations. Its ``search`` is one of SEARCHES."""

    order: JobOrder
    listed: Sequence[ListedConfig]

    @property
    def job_order(self) -> JobOrder:
        """The order with the terms of a list: all of it is measured, and anew for each order."""
        count = len(self.listed)
        return replace(self.order, trials=count, on_existing="retune", warm_start=False)


def submit(engine: Engine, orders: Iterable[ListedOrder]) -> list[tuple[Job, bool]]:
    """Return a job for each order, and whether this call created it.

    An order gets an equal job if one is queued or running, and is not being cancelled. All jobs are
    created in one short transaction, or none. Raises QuotaExceeded if the orderer of `engine` would
    have too many unfinished jobs."""
    wanted = {_order_key(order): order for order in orders}
    return retry_on_conflict(engine, lambda connection: _submit(connection, wanted))


def grouped(entries: Iterable[ListedOrder]) -> list[ListedOrder]:
    """Merge orders into one for each workload, kind of device and search. If a configuration is
    listed several times with the same template version, the first one is kept."""
    merged: dict[tuple[str, str, str], dict[tuple[str, int], ListedConfig]] = {}
    first: dict[tuple[str, str, str], ListedOrder] = {}
    for entry in entries:
        group = (entry.order.workload_key, entry.order.target, entry.order.search)
        first.setdefault(group, entry)
        for listed in entry.listed:
            key = (config_key(listed.config), listed.template_version)
            merged.setdefault(group, {}).setdefault(key, listed)
    return [
        ListedOrder(entry.order, list(merged[group].values())) for group, entry in first.items()
    ]


def of_job(engine: Engine, job_id: str) -> list[ListedConfig]:
    """Return a job's listed configurations in their order; empty if the job searches, or if there
    is no such job."""
    query = (
        select(listed_configs)
        .join(jobs, jobs.c.seq == listed_configs.c.job_seq)
        .where(jobs.c.id == require_job_id(job_id))
        .order_by(listed_configs.c.place)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).mappings()
        return [ListedConfig(row["config"], row["template_version"], row["source"]) for row in rows]


def _submit(connection: Connection, wanted: Mapping[str, ListedOrder]) -> list[tuple[Job, bool]]:
    equal = select(jobs.c.order_key, jobs.c.seq).where(jobs.c.order_key.in_(list(wanted)), JOINABLE)
    seqs = {row.order_key: row.seq for row in connection.execute(equal)}
    new = {key: order for key, order in wanted.items() if key not in seqs}
    if new:
        seqs |= create(connection, {key: order.job_order for key, order in new.items()})
        rows = [
            {"job_seq": seqs[key], "place": place, **vars(listed)}
            for key, order in new.items()
            for place, listed in enumerate(order.listed)
        ]
        connection.execute(insert(listed_configs), rows)
    found = by_seqs(connection, seqs.values())
    return [(found[seqs[key]], key in new) for key in wanted]


def _order_key(order: ListedOrder) -> str:
    compared = order.job_order.compared_fields() | {
        "listed": [[each.config, each.template_version] for each in order.listed]
    }
    return hash_fields(compared)
