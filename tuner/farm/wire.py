"""What crosses between a worker and an RPC server, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from templates.limits import DeviceLimits
from tuner import __version__
from tuner.device import Device
from tuner.errors import ForeignServer
from tuner.measure.clock import PROTOCOL
from tuner.measure.comparison import Comparison, Entry
from tuner.measure.trial import Measured
from tuner.versions import TVM

FUNCTION = "convtune.{}"
"""By what name TVM knows a function of :mod:`tuner.farm.session`."""

SAME = {"convtune": __version__, "apache-tvm": TVM, "timing_protocol": PROTOCOL}
"""What worker and server must agree in, or their times would not be comparable."""


def device_to_json(device: Device) -> dict[str, Any]:
    return asdict(device)


def device_from_json(value: dict[str, Any]) -> Device:
    return Device(**value | {"limits": DeviceLimits.from_json(value["limits"])})


def measured_to_json(measured: Measured) -> dict[str, Any]:
    return asdict(measured)


def measured_from_json(value: dict[str, Any]) -> Measured:
    return Measured(**value)


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    return asdict(comparison)


def comparison_from_json(value: dict[str, Any]) -> Comparison:
    entries = {name: Entry(**entry) for name, entry in value["entries"].items()}
    return Comparison(**value | {"entries": entries})


def check_same(theirs: dict[str, Any]) -> None:
    """Raises ForeignServer where a server's versions are not this program's."""
    for name, ours in SAME.items():
        if theirs.get(name) != ours:
            raise ForeignServer(
                f"the RPC server has {name} {theirs.get(name)}, this worker {ours}; "
                "install the same on both"
            )
