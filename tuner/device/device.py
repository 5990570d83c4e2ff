"""Device: a CPU or a GPU that is tuned for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from templates.limits import DeviceLimits


@dataclass(frozen=True)
class Device:
    """A device. Results are kept by its fingerprint.

    ``kind`` is ``cpu`` or ``cuda``. ``target`` is the JSON of TVM's target; ``limits`` is all that
    the templates may depend on.
    """

    kind: str
    name: str
    arch: str
    memory_bytes: int
    driver: str
    limits: DeviceLimits
    target: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str, str, int, str]:
        """Return the facts that tell this device from others.

        The limits are not among them, because some are measured and differ a little each time.
        """
        return self.kind, self.name, self.arch, self.memory_bytes, self.driver

    def fingerprint(self) -> dict[str, Any]:
        """Return the JSON object that the storage keeps of the device: its identity and its
        limits."""
        return {
            "kind": self.kind,
            "name": self.name,
            "arch": self.arch,
            "memory_bytes": self.memory_bytes,
            "driver": self.driver,
            "limits": self.limits.to_json(),
        }
