"""A template whose build takes memory without end, found by builders' children by import path."""

import ctypes
import os
from typing import Any

from templates.conv1d.workload import Conv1dWorkload
from templates.template import Config
from tests.tuner.measure.planted import Planted

BLOCK = 1 << 28


class GreedyBuild(Planted):
    """``right``, or one whose compilation takes memory: ``python``, where MemoryError is raised,
    or ``native``, where the compiler aborts as LLVM does."""

    name = "greedy_build"
    behaviours = ("right", "python", "native")

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        behaviour = config["behaviour"]
        return super().schedule(workload, config) if behaviour == "right" else Greedy(behaviour)


class Greedy:
    """Instead of a schedule: its module is asked for when it is compiled."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour

    @property
    def mod(self) -> None:
        """Untouched, so that the machine's memory stays free. More than there is: it was let."""
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        if self._behaviour == "python":
            bytearray(machine)
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        for _ in range(machine // BLOCK):
            if malloc(ctypes.c_size_t(BLOCK)) is None:
                os.abort()
