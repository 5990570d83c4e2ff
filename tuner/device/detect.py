"""Which device this machine has."""

from __future__ import annotations

from tuner.device import cpu_facts, cuda_facts
from tuner.device.device import Device
from tuner.errors import NoDevice


def detect(target: str = "auto") -> Device:
    """The device for ``auto`` (CUDA if there is a GPU, else the CPU), ``cpu`` or ``cuda``.

    Raises NoDevice for ``cuda`` on a machine without a usable GPU, with what is missing.
    """
    if target == "cpu":
        return cpu_facts.device()
    missing = cuda_facts.missing()
    if missing is None:
        return cuda_facts.device()
    if target == "cuda":
        raise NoDevice(missing)
    return cpu_facts.device()
