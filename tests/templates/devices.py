"""Limits of devices, written down here so that spaces don't depend on the machine that runs the
tests."""

from templates.limits import DeviceLimits


def _cpu(vector_bytes: int, units: int) -> DeviceLimits:
    return DeviceLimits("cpu", "generic", units, vector_bytes=vector_bytes, cache_bytes=2**25)


def _cuda(arch: str, units: int, opt_in: int, cache_bytes: int) -> DeviceLimits:
    return DeviceLimits(
        "cuda",
        arch,
        units,
        threads_per_block=1024,
        shared_memory_per_block=48 * 1024,
        shared_memory_opt_in=opt_in,
        warp_size=32,
        registers_per_unit=2**16,
        cache_bytes=cache_bytes,
    )


T4 = _cuda("sm_75", 40, 64 * 1024, 4 * 2**20)
H200 = _cuda("sm_90", 132, 227 * 1024, 50 * 2**20)
CPU = _cpu(64, 2)
LIMITS = {
    "T4": T4,
    "H200": H200,
    "CPU, 16-byte vectors": _cpu(16, 4),
    "CPU, 32-byte vectors": _cpu(32, 8),
    "CPU, 64-byte vectors": CPU,
}
