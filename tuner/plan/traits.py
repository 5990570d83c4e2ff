"""Traits: the numbers that a ranker sees of a configuration.

A trait means the same for every shape and device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from templates.limits import DeviceLimits
from templates.workload import Workload

LEAST_US = {"cpu": 0.1, "cuda": 0.7}
"""The least time of a call in µs: that of a call that computes almost nothing."""
USUAL_FLOPS = {"cpu": 1e11, "cuda": 2e13}
USUAL_BANDWIDTH = {"cpu": 2e10, "cuda": 1e12}
"""Peaks in FLOP/s and bytes/s that are assumed if a device's own peaks are unknown."""
RATES = ("units", "vector_bytes", "shared_memory", "cache_bytes", "peak_flops", "peak_bandwidth")


def floor_us(workload: Workload, limits: DeviceLimits) -> float:
    """Return the least time in µs that the device's peaks allow.

    Unlike the roofline (tuner/measure/roofline.py), it takes usual peaks if the device's own are
    unknown, and a usual cost of a call instead of the measured one.
    """
    kind = limits.kind
    compute = workload.flops / (limits.peak_flops or USUAL_FLOPS[kind])
    memory = workload.bytes / (limits.peak_bandwidth or USUAL_BANDWIDTH[kind])
    return max(1e6 * compute, 1e6 * memory, LEAST_US[kind])


def shape_traits(workload: Workload, limits: DeviceLimits) -> dict[str, float]:
    """Return the traits that all configurations of a workload on a device share."""
    found = _numbers("shape", workload.model_dump())
    found |= {f"device:{name}": float(getattr(limits, name)) for name in RATES}
    return found | {
        "flops": workload.flops,
        "bytes": workload.bytes,
        "flops_per_byte": workload.flops / workload.bytes,
        "outputs": sum(output.elements for output in workload.outputs),
        "taps": workload.taps,
        "floor_us": floor_us(workload, limits),
    }


def config_traits(config: Mapping[str, Any], derived: Mapping[str, float]) -> dict[str, float]:
    """Return the traits of a configuration: its knobs, and what its template derives from them,
    for example occupancy, waves and bytes."""
    return _numbers("knob", config) | {f"derived:{name}": v for name, v in derived.items()}


def _numbers(kind: str, fields: Mapping[str, Any]) -> dict[str, float]:
    """Return fields as traits named ``kind:field``.

    Finite numbers keep their value. Each element of a list is a trait of its own. Any other value
    becomes a trait ``kind:field=value`` of 1; None becomes no trait.
    """
    found: dict[str, float] = {}
    for name, value in fields.items():
        parts = enumerate(value) if isinstance(value, list | tuple) else [("", value)]
        for place, part in parts:
            if isinstance(part, int | float):
                if math.isfinite(part):
                    found[f"{kind}:{name}{place}"] = float(part)
            elif part is not None:
                found[f"{kind}:{name}{place}={part}"] = 1.0
    return found
