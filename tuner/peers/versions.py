"""The versions that a peer's time depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from tuner import __version__
from tuner.device.device import Device
from tuner.measure.clock import PROTOCOL

DISTRIBUTIONS = (
    "numpy",
    "scipy",
    "torch",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "triton",
    "causal-conv1d",
    "nvidia-cudnn-frontend",
)


def installed() -> dict[str, str]:
    """Versions of the peers' distributions, of those that are here."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def versions(device: Device) -> dict[str, str]:
    """The peers' own versions; Python's and ours, which call and time them; and how many units of
    the device they may use."""
    return installed() | {
        "python": platform.python_version(),
        "convtune": __version__,
        "timing_protocol": str(PROTOCOL),
        "units": str(device.limits.units),
    }
