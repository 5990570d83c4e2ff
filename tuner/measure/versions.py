"""The versions that a result depends on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from tuner import __version__
from tuner.build.cuda_compile import OPTIONS
from tuner.measure.clock import PROTOCOL

TVM = version("apache-tvm")


def versions(kind: str) -> dict[str, str]:
    """Versions of what built and timed a kernel on that kind of device, and the options it was
    compiled with, as stored with it."""
    names = ["apache-tvm", "apache-tvm-ffi", "numpy"]
    if kind == "cuda":
        names += ["cuda-bindings", "nvidia-cuda-nvrtc", "torch"]
    found = {name: _version(name) for name in names}
    ours = {"convtune": __version__, "timing_protocol": str(PROTOCOL)}
    if kind == "cuda":
        ours["nvrtc_options"] = " ".join(OPTIONS)
    return ours | {name: v for name, v in found.items() if v}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
