"""The versions of everything that a result depends on."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from tuner import __version__
from tuner.build.cuda_compile import OPTIONS
from tuner.device.device import Device
from tuner.measure.clock import PROTOCOLS

TVM = version("apache-tvm")
PEERS = (
    "numpy",
    "scipy",
    "torch",
    "cupy-cuda13x",
    "cupy-cuda12x",
    "triton",
    "causal-conv1d",
    "nvidia-cudnn-frontend",
)
"""The names under which peers are installed."""


def versions(kind: str) -> dict[str, str]:
    """Return the versions of what builds and times a kernel on that kind of device (``cpu``,
    ``cuda``).

    The compiler's options for a GPU are among them. All of this is stored with a result.
    """
    names = ["apache-tvm", "apache-tvm-ffi", "numpy"]
    if kind == "cuda":
        names += ["cuda-bindings", "nvidia-cuda-nvrtc", "torch"]
    found = _installed(names)
    ours = {"convtune": __version__, "timing_protocol": str(PROTOCOLS[kind])}
    if kind == "cuda":
        ours["nvrtc_options"] = " ".join(OPTIONS)
    return ours | found


def installed_peers() -> dict[str, str]:
    """Return the versions of the peers that are installed, by the names in PEERS."""
    return _installed(PEERS)


def of_peers(device: Device) -> dict[str, str]:
    """Return everything that the times of peers on a device depend on.

    That is the peers' own versions, Python's and ours, which call and time them, and how many units
    (multiprocessors or threads) of the device they may use.
    """
    return installed_peers() | {
        "python": platform.python_version(),
        "convtune": __version__,
        "timing_protocol": str(PROTOCOLS[device.kind]),
        "units": str(device.limits.units),
    }


def _installed(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the distributions among ``names`` that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
