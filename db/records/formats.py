"""Formats of exported records: convtune's own JSON lines, MetaSchedule's, AutoTVM's, and Kernel
Tuner's T4 results."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from db.records.records import Filters, Record, read
from db.sql.choices import Format, Kept
from db.sql.columns import to_json

VERSION = 1
"""The version of convtune's own format."""
AUTOTVM_VERSION = 0.2
T4_VERSION = "1.0.0"
FAILED_SECONDS = 1e9
"""The time that AutoTVM's logs give to a failed trial."""
AUTOTVM_ERRORS = {
    "ok": 0,
    "schedule_error": 1,  # its INSTANTIATION_ERROR
    "build_error": 2,
    "run_error": 4,
    "wrong_answer": 5,
    "build_timeout": 6,
    "run_timeout": 7,
}
AUTOTVM_UNKNOWN = 8
T4_INVALIDITY = {
    "ok": "correct",
    "schedule_error": "compile",
    "build_error": "compile",
    "build_timeout": "timeout",
    "run_error": "runtime",
    "run_timeout": "timeout",
    "machine_error": "runtime",
    "wrong_answer": "correctness",
    "skipped": "constraints",
}


@dataclass(frozen=True)
class Writer:
    """A format: how a record is turned into text, and what is written around the records.

    ``record`` returns None for a record that the format leaves out."""

    media_type: str
    suffix: str
    record: Callable[[Record], str | None]
    kept: Kept  # what is exported if the user does not say
    begin: str = ""
    between: str = "\n"
    end: str = ""


def export(
    engine: Engine, name: Format, filters: Filters, kept: Kept | None = None
) -> Iterator[bytes]:
    """Yield the exported text as UTF-8, one piece for each batch of records.

    ``kept`` of None means the format's default. Errors are those of
    :func:`db.records.records.read`: the first piece raises NotFound for an unknown job, and any
    piece raises CorruptArtifact."""
    writer = WRITERS[name]
    lead = writer.begin
    for batch in read(engine, kept or writer.kept, filters):
        texts = [text for record in batch if (text := writer.record(record)) is not None]
        if texts:
            yield (lead + writer.between.join(texts)).encode()
            lead = writer.between
    if lead == writer.begin:
        yield (writer.begin + writer.end).encode()
    else:
        yield (writer.end or "\n").encode()


def own(record: Record) -> dict[str, Any]:
    """Return a record in convtune's own format: first the fields that an import reads, then those
    of the result on this device."""
    return {
        "convtune": VERSION,
        "operator": record.operator,
        "workload": record.workload,
        "target": record.device_kind,
        "template": record.template,
        "version": record.template_version,
        "config": record.config,
        "status": record.status,
        "time_us": record.time_us,
        "max_error": record.max_error,
        "error": record.error,
        "timing": record.timing,
        "seconds": record.seconds,
        "device": {"name": record.device_name, "arch": record.device_arch},
        "tvm": record.tvm_version,
        "job": record.job,
        "measured_at": record.measured_at.isoformat(),
    }


def metaschedule(record: Record) -> dict[str, Any] | None:
    """Return a best's MetaSchedule record (a line of each of the two files of a MetaSchedule
    database) with the record in convtune's own format beside it. Return None for trials, and for a
    best without a MetaSchedule record."""
    if record.metaschedule is None:
        return None
    stored = json.loads(record.metaschedule)
    return {"convtune": own(record), **stored}


def autotvm(record: Record) -> dict[str, Any]:
    """Return a record as a line of AutoTVM's log, with times in seconds. The task's arguments are
    the workload's fields, as pairs of name and value."""
    options = {"cuda": "cuda -arch=", "cpu": "llvm -mcpu="}[record.device_kind]
    model = "-".join(record.device_name.split())
    task = f"{record.operator}/{record.template}.{record.device_kind}"
    worked = record.status == "ok" and record.time_us is not None
    entity = [
        [name, "sp" if isinstance(value, list) else "ot", value]
        for name, value in record.config.items()
        if name != "template"
    ]
    return {
        "input": [
            f"{options}{record.device_arch} -model={model}",
            task,
            [[name, value] for name, value in record.workload.items()],
            {},
        ],
        "config": {"index": None, "code_hash": None, "entity": entity},
        "result": [
            [(record.time_us or 0) * 1e-6] if worked else [FAILED_SECONDS],
            AUTOTVM_ERRORS.get(record.status, AUTOTVM_UNKNOWN),
            sum(record.seconds.values()),
            record.measured_at.timestamp(),
        ],
        "version": AUTOTVM_VERSION,
        "tvm_version": record.tvm_version,
    }


def kernel_tuner(record: Record) -> dict[str, Any]:
    """Return a record as a result of Kernel Tuner's T4 schema, with all times in milliseconds and
    under Kernel Tuner's names. Workload and device are added, although the schema has no fields for
    them."""
    spent = {name: 1e3 * seconds for name, seconds in record.seconds.items()}
    time_ms = None if record.time_us is None else 1e-3 * record.time_us
    measured = {"time": (time_ms, "ms"), "max_error": (record.max_error, "")}
    return {
        "timestamp": record.measured_at.isoformat(),
        "configuration": record.config,
        "objectives": ["time"],
        "times": {
            "compilation": spent.get("schedule", 0.0) + spent.get("build", 0.0),
            "validation": spent.get("check", 0.0),
            "benchmark": spent.get("run", 0.0),
            "runtimes": [] if time_ms is None else [time_ms],
        },
        "invalidity": T4_INVALIDITY[record.status],
        "correctness": 1 if record.status == "ok" else 0,
        "measurements": [
            {"name": name, "value": value, "unit": unit}
            for name, (value, unit) in measured.items()
            if value is not None
        ],
        "operator": record.operator,
        "workload": record.workload,
        "target": record.device_kind,
        "device": record.device_name,
    }


def _line(write: Callable[[Record], dict[str, Any] | None]) -> Callable[[Record], str | None]:
    def text(record: Record) -> str | None:
        value = write(record)
        return None if value is None else to_json(value)

    return text


_JSON_LINES = "application/x-ndjson"
WRITERS: dict[Format, Writer] = {
    "convtune": Writer(_JSON_LINES, ".jsonl", _line(own), "trials"),
    "metaschedule": Writer(_JSON_LINES, ".jsonl", _line(metaschedule), "bests"),
    "autotvm": Writer(_JSON_LINES, ".log", _line(autotvm), "trials"),
    "kerneltuner": Writer(
        "application/json",
        ".json",
        _line(kernel_tuner),
        "trials",
        begin=f'{{"schema_version":"{T4_VERSION}","metadata":{{"timeunit":"milliseconds"}},'
        '"results":[\n',
        between=",\n",
        end="\n]}\n",
    ),
}
