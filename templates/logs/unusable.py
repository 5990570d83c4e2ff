"""Known formats from which nothing can be imported. Each is refused by its name."""

from __future__ import annotations

from typing import NoReturn

from templates.errors import InvalidRecords, RecordFault

_WAY_OUT = "order the shape instead (tuner tune, POST /jobs)"


def metaschedule(content: bytes) -> NoReturn:
    _refuse(
        "is MetaSchedule's database: steps of schedules for functions whose stride, padding and "
        "order of taps only TVM can read. Its records can be imported if each also names its "
        "template, as those of GET /records?format=metaschedule and `tuner export --format "
        f"metaschedule` do (give its folder); for other records, {_WAY_OUT}"
    )


def auto_scheduler(content: bytes) -> NoReturn:
    _refuse(
        "is a log of TVM's auto-scheduler, from which nothing can be imported: it names functions "
        f"only by a hash; {_WAY_OUT}"
    )


def kernel_tuner_cache(content: bytes) -> NoReturn:
    _refuse(
        "is Kernel Tuner's cache, from which nothing can be imported: it has configurations of a "
        f"kernel that it does not describe; {_WAY_OUT}"
    )


def _refuse(message: str) -> NoReturn:
    raise InvalidRecords([RecordFault(1, "log", message)])
