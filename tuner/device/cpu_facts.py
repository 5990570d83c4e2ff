"""The facts of this machine's CPU: its instruction sets, threads, cache, clock and bandwidth."""

from __future__ import annotations

import ctypes
import os
import platform
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from templates.limits import DeviceLimits
from tuner.device.device import Device

FEATURES = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
    "avx512vbmi", "avx512ifma", "avx512fp16",
)  # fmt: skip
"""Instruction sets, as LLVM spells them, that a hypervisor may hide from a CPU whose model has
them."""
CPUINFO = {"avx512fp16": "avx512_fp16"}
"""Names of instruction sets that /proc/cpuinfo spells differently."""


def threads() -> int:
    """Return how many threads this process may use, which is how many a CPU is tuned for."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device() -> Device:
    """Return this machine's CPU, with all threads that this process may use."""
    import psutil  # here, because a process that only calls a library does not need it

    arch = _llvm_name()
    flags = _flags()
    target: dict[str, Any] = {"kind": "llvm", "mcpu": arch}
    hidden = [
        f"-{feature}"
        for feature in FEATURES
        if flags and CPUINFO.get(feature, feature) not in flags
    ]
    if hidden:
        target["mattr"] = hidden
    cores = threads()
    vector_bytes = 64 if "avx512f" in flags else 32 if "avx2" in flags else 16
    return Device(
        kind="cpu",
        name=name(),
        arch=arch,
        memory_bytes=psutil.virtual_memory().total,
        driver=f"{platform.system()} {platform.machine()}, {cores} threads",
        limits=DeviceLimits(
            kind="cpu",
            arch=arch,
            units=cores,
            vector_bytes=vector_bytes,
            cache_bytes=_last_cache_bytes(),
            peak_flops=cores * _clock_hz() * (vector_bytes // 4) * 4,
            peak_bandwidth=_copy_bandwidth(),
        ),
        target=target,
    )


def missing_instructions(vector_bytes: int) -> str | None:
    """Return an instruction set that this CPU lacks for vector registers of ``vector_bytes`` bytes.

    It is spelled as LLVM does. Return None if the CPU has it.
    """
    needed = {32: "avx2", 64: "avx512f"}.get(vector_bytes)
    return None if needed is None or needed in _flags() else needed


def _llvm_name() -> str:
    """Return LLVM's name for this CPU.

    TVM's compiler is loaded as a library, because importing it would take more than a second.
    """
    import tvm_ffi

    spec = find_spec("tvm")
    assert spec is not None  # noqa: S101  # a dependency
    library = Path(str(spec.origin)).parent / "lib" / "libtvm_compiler.so"
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return str(tvm_ffi.get_global_func("target.llvm_get_system_cpu")())


def _cpuinfo(field: str) -> str:
    """Return the first value of a field of /proc/cpuinfo; "" if there is none."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")


def _flags() -> set[str]:
    return set(_cpuinfo("flags").split())


def name() -> str:
    """Return the name of this machine's CPU, as its :class:`Device` has it."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _clock_hz() -> float:
    """Return the highest clock that the system reports, in Hz; 0 if it reports none.

    The product of clock, lanes and two fused multiply-adds a cycle (as on current x86 cores) bounds
    the float32 rate.
    """
    import psutil

    frequency = psutil.cpu_freq()
    return 1e6 * float(frequency.max or frequency.current) if frequency else 0.0


def _last_cache_bytes() -> int:
    """Return the size of the largest cache of processor 0; 32 MiB if the system does not say."""
    sizes = [
        path.read_text().strip()
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("*/size")
    ]
    units = {"K": 2**10, "M": 2**20}
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units), default=2**25)


@cache
def _copy_bandwidth() -> float:
    """Return the memory bandwidth in bytes per second, of reads and writes together.

    It is that of the best of five copies of 64 MiB of float32, and is measured once in each
    process.
    """
    source = np.ones(2**24, np.float32)
    sink = np.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(sink, source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best
