"""Export of records to log files for other tools, and import of logs as orders for a worker."""

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
from db.records.listed import ListedConfig, ListedOrder
from db.records.records import Filters, read
from db.sql.choices import Format, Kept
from db.upkeep.sqlite_file import is_of_database, temporary_path_for
from templates import logs
from templates.logs import Log, Refused
from tuner.errors import UnusableFile

DATABASE = ("database_workload.json", "database_tuning_record.json")
"""The files of MetaSchedule's JSONDatabase: workloads and tuning records."""
OURS = "convtune.jsonl"
"""The file of our own records beside those two. The folder is imported from it."""
MAX_BYTES = 64 * 1024 * 1024


def write(
    engine: Engine, name: Format, filters: Filters, kept: Kept | None, stream: BinaryIO
) -> None:
    """Write a log in one of the formats to a stream, piece by piece as it is read."""
    for piece in export(engine, name, filters, kept):
        stream.write(piece)


def write_file(
    engine: Engine, name: Format, filters: Filters, kept: Kept | None, path: Path
) -> None:
    """Write a log to a file, which appears only when it is complete. Raises UnusableFile."""
    refuse_database(engine, path)
    with _whole(path) as stream:
        write(engine, name, filters, kept, stream)


def write_database(engine: Engine, filters: Filters, folder: Path) -> int:
    """Write the bests as MetaSchedule's database, with our own records; return their number.

    Raises UnusableFile if the folder has such files already or can't be written to.
    """
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
    """Read a log file, or the folder of a MetaSchedule database that :func:`write_database` wrote.

    Raises UnusableFile, InvalidRecords.
    """
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
    """Read a log from a stream; ``name`` is for messages. Raises UnusableFile, InvalidRecords."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UnusableFile(name, f"has more than {MAX_BYTES} bytes; split it")
    return logs.read(content)


def store(engine: Engine, log: Log) -> Stored:
    """Store jobs that measure a log's configurations and tune its shapes, and return them."""
    configs = [
        ListedOrder(
            JobOrder.of(each.workload, target=each.target, search=listed.IMPORTED),
            [ListedConfig(each.config, each.template_version, each.source)],
        )
        for each in log.configs
    ]
    shapes = [JobOrder.of(each.workload, target=each.target) for each in log.shapes]
    return imports.store(engine, configs, shapes)


def refuse_database(engine: Engine, path: Path) -> None:
    """Raise UnusableFile if the path is a file of the database, so that it is not overwritten."""
    found = engine.url.database
    if engine.dialect.name == "sqlite" and is_of_database(path, Path(found or "").resolve()):
        raise UnusableFile(path, "is a file of the database itself; name another file")


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name only when it is complete.

    A link is followed, not replaced. A path that is no plain file, such as /dev/stdout, is written
    to directly. Raises UnusableFile.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        path = path.resolve()
        with temporary_path_for(path) as part:
            with part.open("wb") as stream:
                yield stream
            part.replace(path)
    except OSError as error:
        raise UnusableFile(path, str(error.strerror)) from error
