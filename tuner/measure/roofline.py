"""How close a time is to what the device allows."""

from __future__ import annotations

from typing import Any

from templates.limits import DeviceLimits
from templates.workload import Workload


def roofline(
    workload: Workload, limits: DeviceLimits, time_us: float, empty_us: float
) -> dict[str, Any]:
    """``floor_us`` is the larger of flops over the float32 peak and compulsory bytes over the
    peak bandwidth (Williams, Waterman, Patterson, "Roofline", 2009), or the empty kernel's time
    if that is larger still. ``bound`` says which it is, and ``fraction`` is floor over time. All
    are None if the device's peaks are unknown.
    """
    if not (limits.peak_flops and limits.peak_bandwidth):
        return {"bound": None, "floor_us": None, "fraction": None}
    floors = {
        "compute": 1e6 * workload.flops / limits.peak_flops,
        "memory": 1e6 * workload.bytes / limits.peak_bandwidth,
        "launch": empty_us,
    }
    bound = max(floors, key=lambda name: floors[name])
    return {"bound": bound, "floor_us": floors[bound], "fraction": floors[bound] / time_us}
