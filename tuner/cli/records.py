"""Logs as files: out of the database for other tools, and into it as orders for a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from sqlalchemy.engine import Engine

from db.contract.order import JobOrder
from db.records import imports, listed
from db.records.formats import export, metaschedule
from db.records.imports import Stored
from db.records.listed import Listed, ListedOrder
from db.records.records import Filters, read
from db.sql.choices import Format, Kept
from db.sql.sqlite_file import part_of
from templates import logs
from templates.logs import Log, Refused
from tuner.errors import UnusableFile

DATABASE = ("database_workload.json", "database_tuning_record.json")
"""What MetaSchedule's JSONDatabase is made of."""
OURS = "convtune.jsonl"
"""Beside them: our own records, by which the folder can be imported."""
MAX_BYTES = 64 * 1024 * 1024


def write(
    engine: Engine, name: Format, filters: Filters, kept: Kept | None, stream: BinaryIO
) -> None:
    """A log in one of the formats, written as it is read."""
    for piece in export(engine, name, filters, kept):
        stream.write(piece)


def write_file(
    engine: Engine, name: Format, filters: Filters, kept: Kept | None, path: Path
) -> None:
    """As :func:`write`; the file is there when all of it is."""
    with _whole(path) as stream:
        write(engine, name, filters, kept, stream)


def write_database(engine: Engine, filters: Filters, folder: Path) -> int:
    """MetaSchedule's database of the bests, in a folder that has none, and our own records; how
    many each has."""
    for each in (*DATABASE, OURS):
        if (folder / each).exists():
            raise UnusableFile(folder / each, "is there already; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableFile(folder, str(error.strerror)) from error
    places: dict[str, int] = {}
    count = 0
    with ExitStack() as stack:
        workloads, records, ours = (
            stack.enter_context(_whole(folder / each)) for each in (*DATABASE, OURS)
        )
        for batch in read(engine, "bests", filters):
            for record in batch:
                stored = metaschedule(record)
                if stored is None:
                    continue
                workload = json.dumps(stored["workload"], separators=(",", ":"))
                if workload not in places:
                    places[workload] = len(places)
                    workloads.write(f"{workload}\n".encode())
                line = [places[workload], stored["tuning_record"]]
                records.write(f"{json.dumps(line, separators=(',', ':'))}\n".encode())
                ours.write(f"{json.dumps(stored['convtune'], separators=(',', ':'))}\n".encode())
                count += 1
    return count


def read_file(path: Path) -> Log:
    """A log, or the folder of a MetaSchedule database that was exported here. Raises UnusableFile,
    InvalidRecords."""
    try:
        if path.is_dir():
            return _read_database(path)
        with path.open("rb") as stream:
            return read_log(stream, str(path))
    except OSError as error:
        raise UnusableFile(path, str(error.strerror)) from error


def _read_database(folder: Path) -> Log:
    if not (folder / OURS).exists():
        why = f"has no {OURS}, which `tuner export --format metaschedule` writes into its folder"
        raise UnusableFile(folder, why)
    log = read_file(folder / OURS)
    with (folder / DATABASE[1]).open("rb") as stream:
        added = sum(1 for line in stream if line.strip()) - log.records
    if added <= 0:
        return log
    reason = f"was added by MetaSchedule, and {OURS} does not name its template"
    return replace(log, refused=[Refused(reason, added, log.records + 1)])


def read_log(stream: BinaryIO, name: str) -> Log:
    """Raises UnusableFile, InvalidRecords."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UnusableFile(name, f"has more than {MAX_BYTES} bytes; split it")
    return logs.read(content)


def store(engine: Engine, log: Log) -> Stored:
    """The jobs that measure a log's configurations, or tune its shapes."""
    configs = [
        ListedOrder(
            operator=each.workload.operator,
            workload_key=each.workload.key,
            workload=each.workload.model_dump(),
            target=each.target,
            search=listed.IMPORTED,
            listed=[Listed(each.config, each.template_version, each.source)],
        )
        for each in log.configs
    ]
    shapes = [JobOrder.of(each.workload, target=each.target) for each in log.shapes]
    return imports.store(engine, configs, shapes)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file that has its name once all of it is written. A link stays one, and so does what is no
    plain file, as /dev/stdout: that is written to as it is."""
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        path = path.resolve()
        with part_of(path) as part:
            with part.open("wb") as stream:
                yield stream
            part.replace(path)
    except OSError as error:
        raise UnusableFile(path, str(error.strerror)) from error
