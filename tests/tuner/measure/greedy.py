"""A template whose build takes memory without end. It is in a module because builders' processes
import it by name."""

import ctypes
import os
from typing import Any

from templates.conv1d.workload import Conv1dWorkload
from templates.template import Config
from tests.tuner.measure.planted import Planted

BLOCK = 1 << 28


class GreedyBuild(Planted):
    """Behaviours: ``right`` builds. The others ask for more memory than they may have: ``python``
    so that Python raises MemoryError, ``native`` so that the process aborts as LLVM does."""

    name = "greedy_build"
    behaviours = ("right", "python", "native")

    def schedule(self, workload: Conv1dWorkload, config: Config) -> Any:
        behaviour = config["behaviour"]
        return super().schedule(workload, config) if behaviour == "right" else Greedy(behaviour)


class Greedy:
    """A stand-in for a schedule, which takes memory when the compiler asks for its module."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour

    @property
    def mod(self) -> None:
        """Allocate as much memory as the machine has, which the builder's limit should prevent. The
        memory is not written to, so the machine's memory stays free even if the limit fails."""
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        if self._behaviour == "python":
            bytearray(machine)
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        for _ in range(machine // BLOCK):
            if malloc(ctypes.c_size_t(BLOCK)) is None:
                os.abort()
