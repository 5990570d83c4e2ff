"""Known formats from which nothing can be imported. Each is refused by its name."""

from __future__ import annotations

from typing import NoReturn

from templates.errors import InvalidRecords, RecordFault

_WAY_OUT = "order the shape instead (tuner tune, POST /jobs)"


def metaschedule(content: bytes) -> NoReturn:
    _refuse(
        "is MetaSchedule's database: steps of a schedule for functions whose stride, padding and "
        "order of taps stand in a module that only TVM reads. Its records can be imported if they "
        "name their template beside them, as GET /records?format=metaschedule and `tuner export "
        f"--format metaschedule` write them (give its folder); of others, {_WAY_OUT}"
    )


def auto_scheduler(content: bytes) -> NoReturn:
    _refuse(
        "is a log of TVM's auto-scheduler: steps of a schedule for functions that are named by a "
        f"hash, of which nothing can be imported; {_WAY_OUT}"
    )


def kernel_tuner_cache(content: bytes) -> NoReturn:
    _refuse(
        "is Kernel Tuner's cache: configurations of a kernel that it does not describe, of which "
        f"nothing can be imported; {_WAY_OUT}"
    )


def _refuse(message: str) -> NoReturn:
    raise InvalidRecords([RecordFault(1, "log", message)])
