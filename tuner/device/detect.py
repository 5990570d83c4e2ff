"""Finding the device of this machine."""

from __future__ import annotations

from tuner.device import cpu_facts, cuda_facts
from tuner.device.device import Device
from tuner.errors import NoDevice


def detect(target: str = "auto") -> Device:
    """Return this machine's device for a target: ``auto``, ``cpu`` or ``cuda``.

    ``auto`` is the GPU if there is a usable one, else the CPU. Raises NoDevice, which says what is
    missing, for ``cuda`` on a machine without a usable GPU.
    """
    if target == "cpu":
        return cpu_facts.device()
    missing = cuda_facts.missing()
    if missing is None:
        return cuda_facts.device()
    if target == "cuda":
        raise NoDevice(missing)
    return cpu_facts.device()
