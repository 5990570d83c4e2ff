"""Device: a CPU or a GPU that is tuned for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from templates.limits import DeviceLimits


@dataclass(frozen=True)
class Device:
    """Results are kept per fingerprint. ``target`` is the JSON of TVM's target; ``limits`` is
    what the templates may depend on."""

    kind: str
    name: str
    arch: str
    memory_bytes: int
    driver: str
    limits: DeviceLimits
    target: dict[str, Any]

    @property
    def identity(self) -> tuple[str, str, str, int, str]:
        """What tells it from others: its limits are measured in part, and never twice the same."""
        return self.kind, self.name, self.arch, self.memory_bytes, self.driver

    def fingerprint(self) -> dict[str, Any]:
        """What the storage keeps: the identity, and the limits beside it."""
        return {
            "kind": self.kind,
            "name": self.name,
            "arch": self.arch,
            "memory_bytes": self.memory_bytes,
            "driver": self.driver,
            "limits": self.limits.to_json(),
        }
