"""Rungs that fail on purpose, in a module because builders' processes import them by name."""

import time
from typing import Any

from tvm.s_tir import Schedule

from templates import operator
from templates.conv1d.workload import Conv1dWorkload
from templates.rung import Rung
from tests.tuner.measure.planted import Planted
from tests.tuner.measure.planted_programs import program


def planted(name: str) -> Rung:
    document = operator("conv1d").rungs[0].document
    return Rung(f"000 {name}", document, name, f"{__name__}:{name}", t4_us=7.5)


def right(workload: Conv1dWorkload, kind: str) -> Any:
    return Schedule(program(workload, "right"))


def right_again(workload: Conv1dWorkload, kind: str) -> Any:
    return Schedule(program(workload, "right"))


def wrong(workload: Conv1dWorkload, kind: str) -> Any:
    return Schedule(program(workload, "wrong"))


def crash(workload: Conv1dWorkload, kind: str) -> Any:
    return Schedule(program(workload, "crash"))


def endless(workload: Conv1dWorkload, kind: str) -> Any:
    time.sleep(600)


def unschedulable(workload: Conv1dWorkload, kind: str) -> Any:
    raise ValueError("planted: no such schedule")


class NeverRight(Planted):
    """A template whose every configuration is wrong: a search of it finds nothing."""

    behaviours = ("wrong", "partial")
