"""Logs as files: out of the database for other tools, and into it as orders for a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from sqlalchemy.engine import Engine

from db import listed
from db.choices import Format, Kept
from db.formats import export, metaschedule
from db.jobs import Job
from db.listed import Listed, ListedOrder
from db.records import Filters, read
from templates.record import parse
from tuner.errors import UnusableFile

DATABASE = ("database_workload.json", "database_tuning_record.json")
"""What MetaSchedule's JSONDatabase is made of."""
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
    """MetaSchedule's database of the bests, in a folder that has none; how many records it has."""
    for each in DATABASE:
        if (folder / each).exists():
            raise UnusableFile(folder / each, "is there already; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableFile(folder, str(error.strerror)) from error
    places: dict[str, int] = {}
    count = 0
    with ExitStack() as stack:
        workloads, records = (stack.enter_context(_whole(folder / each)) for each in DATABASE)
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
                count += 1
    return count


def take_in(engine: Engine, stream: BinaryIO, name: str) -> list[tuple[Job, bool]]:
    """The jobs that measure a log's configurations, and which of them are new. Raises
    InvalidRecords."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UnusableFile(name, f"has more than {MAX_BYTES} bytes; split it")
    orders = [
        ListedOrder(
            operator=each.workload.operator,
            workload_key=each.workload.key,
            workload=each.workload.model_dump(),
            target=each.target,
            search=listed.IMPORTED,
            listed=[Listed(each.config, each.template_version, each.source)],
        )
        for each in parse(content.split(b"\n"))
    ]
    return listed.submit(engine, listed.grouped(orders))


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(path)
    except OSError as error:
        raise UnusableFile(path, str(error.strerror)) from error
    finally:
        part.unlink(missing_ok=True)
