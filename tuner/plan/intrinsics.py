"""Registration of the tensor intrinsics that MetaSchedule's rules use, for one kind of device."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys

PACKAGE = "tvm.s_tir.tensor_intrin"
_OF_CPUS = {"x86_64": "x86", "aarch64": "arm_cpu", "riscv64": "riscv_cpu"}


def register_intrinsics(kind: str) -> None:
    """Register the intrinsics for targets of ``kind`` and no others, for the life of the process.

    ``kind`` is ``cuda``, or ``llvm`` for this machine's CPU. One kind is enough, because a process
    searches for one device. MetaSchedule would import the whole package, which parses the programs
    of all devices. That takes 13 s of an idle CPU; the programs for CPUs alone take 0.2 s, those
    for CUDA 8 s.
    """
    if PACKAGE in sys.modules:
        return
    name = "cuda" if kind == "cuda" else _OF_CPUS.get(platform.machine())
    spec = importlib.util.find_spec(PACKAGE)
    if name is None or spec is None:
        return
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)  # without running its __init__
    importlib.import_module(f"{PACKAGE}.{name}")
