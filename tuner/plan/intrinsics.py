"""The tensor intrinsics that MetaSchedule's rules for one kind of device name."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys

PACKAGE = "tvm.s_tir.tensor_intrin"
_OF_CPUS = {"x86_64": "x86", "aarch64": "arm_cpu", "riscv64": "riscv_cpu"}


def register_intrinsics(kind: str) -> None:
    """Register those for targets of ``kind`` (``llvm``, of this machine, or ``cuda``) and no
    others, for good: a process searches for one device.

    MetaSchedule would import the whole package, which parses the programs of all devices: 13 s of
    an idle CPU, of which those for CPUs take 0.2 s and those for CUDA 8 s.
    """
    if PACKAGE in sys.modules:
        return
    name = "cuda" if kind == "cuda" else _OF_CPUS.get(platform.machine())
    spec = importlib.util.find_spec(PACKAGE)
    if name is None or spec is None:
        return
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)  # made, not run
    importlib.import_module(f"{PACKAGE}.{name}")
