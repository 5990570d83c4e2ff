"""The facts of this machine's GPU, from CUDA's runtime and NVML."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from templates.limits import DeviceLimits
from tuner.device.cuda import checked
from tuner.device.device import Device

LANES_PER_UNIT = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
"""float32 lanes of a multiprocessor by compute capability (CUDA C++ Programming Guide, throughput
of native arithmetic instructions). Every other capability since 5.0 has 128."""
PCI_BUS_ID_BYTES = 32
DEVICE_FILES = ("nvidia*", "dxg")
"""Patterns of the device files in /dev: those of NVIDIA's driver, and WSL's."""


def missing() -> str | None:
    """Return why CUDA can't be used here, or None if it can."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is here (libcuda.so.1 can't be loaded)"
    try:
        from cuda.bindings import runtime
    except ImportError:
        return "the CUDA packages are missing: pip install 'convtune[cuda]'"
    error, count = runtime.cudaGetDeviceCount()
    if int(error) != 0 or count == 0:
        return "the driver shows no GPU (is CUDA_VISIBLE_DEVICES empty?)"
    return None


def count() -> int:
    """Return how many GPUs are visible to this process. Raises RuntimeError if CUDA fails."""
    from cuda.bindings import runtime

    return int(checked(runtime.cudaGetDeviceCount()))


def device() -> Device:
    """Return the first visible GPU; CUDA_VISIBLE_DEVICES chooses another.

    Raises RuntimeError if CUDA fails; :func:`missing` says why beforehand.
    """
    from cuda.bindings import runtime

    properties = checked(runtime.cudaGetDeviceProperties(0))
    capability = f"{properties.major}.{properties.minor}"
    arch = f"sm_{properties.major}{properties.minor}"
    attribute = runtime.cudaDeviceAttr
    clock_khz = _attribute(attribute.cudaDevAttrClockRate)
    memory_khz = _attribute(attribute.cudaDevAttrMemoryClockRate)
    limits = DeviceLimits(
        kind="cuda",
        arch=arch,
        units=properties.multiProcessorCount,
        threads_per_block=properties.maxThreadsPerBlock,
        shared_memory_per_block=properties.sharedMemPerBlock,
        shared_memory_opt_in=properties.sharedMemPerBlockOptin,
        warp_size=properties.warpSize,
        registers_per_unit=properties.regsPerMultiprocessor,
        vector_bytes=16,
        cache_bytes=properties.l2CacheSize,
        peak_flops=2e3
        * clock_khz
        * properties.multiProcessorCount
        * LANES_PER_UNIT.get(capability, 128),
        peak_bandwidth=2e3 * memory_khz * properties.memoryBusWidth / 8,
    )
    return Device(
        kind="cuda",
        name=properties.name.decode().rstrip("\0"),
        arch=arch,
        memory_bytes=properties.totalGlobalMem,
        driver=_driver(),
        limits=limits,
        target=target(limits),
    )


def target(limits: DeviceLimits) -> dict[str, Any]:
    """Return the JSON of TVM's target for a GPU with these limits.

    TVM checks kernels against the limits only if they are spelled out in the target.
    """
    return {
        "kind": "cuda",
        "arch": limits.arch,
        "max_threads_per_block": limits.threads_per_block,
        "max_shared_memory_per_block": limits.shared_memory_per_block,
        "thread_warp_size": limits.warp_size,
        "host": {"kind": "llvm"},
    }


def pci_bus_id() -> str:
    """Return the PCI bus id of the first visible GPU, by which NVML finds it.

    NVML's own numbers count all GPUs, visible or not.
    """
    from cuda.bindings import runtime

    named: bytes = checked(runtime.cudaDeviceGetPCIBusId(PCI_BUS_ID_BYTES, 0))
    return named.partition(b"\0")[0].decode()


def device_files() -> tuple[str, ...]:
    """Return the files that a process must be able to write in order to use a GPU."""
    found = [path for pattern in DEVICE_FILES for path in Path("/dev").glob(pattern)]
    return tuple(str(path) for path in sorted(found) if path.is_char_device())


def clocks() -> dict[str, Any]:
    """Return the present clocks (MHz), temperature (°C) and power (W) of the first visible GPU.

    Return an empty dict if NVML is not installed or fails.
    """
    try:
        import pynvml
    except ImportError:
        return {}
    bus_id = pci_bus_id()
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
        return {
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        }
    except pynvml.NVMLError:
        return {}


def _driver() -> str:
    """Return the version of the driver, or else the CUDA version that it supports."""
    path = Path("/sys/module/nvidia/version")
    if path.exists():
        return path.read_text().strip()
    from cuda.bindings import runtime

    version = checked(runtime.cudaDriverGetVersion())
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def _attribute(attribute: Any) -> int:
    """Return an attribute of the first visible GPU."""
    from cuda.bindings import runtime

    return int(checked(runtime.cudaDeviceGetAttribute(attribute, 0)))
