"""The roofline: how close a time is to what the device allows."""

from __future__ import annotations

from typing import Any

from templates.limits import DeviceLimits
from templates.workload import Workload


def roofline(
    workload: Workload, limits: DeviceLimits, time_us: float, empty_us: float
) -> dict[str, Any]:
    """Return the floor of a workload's time on a device, and how close ``time_us`` is to it.

    ``floor_us`` is the largest of three times in µs: flops over the float32 peak (bound by
    ``compute``), compulsory bytes over the peak bandwidth (``memory``; both from Williams,
    Waterman, Patterson, "Roofline", 2009), and ``empty_us``, the time of the empty program
    (``launch``), which begins early if the device can
    (``templates/kernels/launches/early_launch.py``). ``bound`` names the largest, and
    ``fraction`` is floor over time. All are None if the device's peaks are unknown.
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
