"""What this machine's CPU is."""

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
"""Instruction sets that a hypervisor may hide from a CPU whose model has them, as LLVM spells
them."""
CPUINFO = {"avx512fp16": "avx512_fp16"}
"""Names of instruction sets that /proc/cpuinfo spells differently."""


def threads() -> int:
    """How many threads this process may use. A CPU is tuned for so many."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device() -> Device:
    """This machine's CPU, with all threads that this process may use."""
    import psutil  # here, because calling a library does not need it

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
    """The instructions that this CPU lacks for vector registers of so many bytes; None if none."""
    needed = {32: "avx2", 64: "avx512f"}.get(vector_bytes)
    return None if needed is None or needed in _flags() else needed


def _llvm_name() -> str:
    """LLVM's name for this CPU. TVM's compiler is loaded, not imported, which would take a second
    and more."""
    import tvm_ffi

    spec = find_spec("tvm")
    assert spec is not None  # noqa: S101  # a dependency
    library = Path(str(spec.origin)).parent / "lib" / "libtvm_compiler.so"
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return str(tvm_ffi.get_global_func("target.llvm_get_system_cpu")())


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")


def _flags() -> set[str]:
    return set(_cpuinfo("flags").split())


def name() -> str:
    """As in the device."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _clock_hz() -> float:
    """The highest clock the system reports, 0 if it reports none. Times lanes and two fused
    multiply-adds a cycle (as on current x86 cores) it bounds the float32 rate."""
    import psutil

    frequency = psutil.cpu_freq()
    return 1e6 * float(frequency.max or frequency.current) if frequency else 0.0


def _last_cache_bytes() -> int:
    sizes = [
        path.read_text().strip()
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("*/size")
    ]
    units = {"K": 2**10, "M": 2**20}
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units), default=2**25)


@cache
def _copy_bandwidth() -> float:
    """Bytes per second, read and written, in the best of five copies larger than any cache:
    measured once by each process."""
    source = np.ones(2**24, np.float32)
    sink = np.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(sink, source)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best
