"""Hard limits and rates of one device, on which a search space may depend."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

EARLY_LAUNCHES = 90
"""Least compute capability, times ten, of a GPU that can begin a launch early."""
TENSOR_COPIES = 90
"""Least compute capability, times ten, of a GPU that copies boxes of tensors between memory and
shared memory by itself."""


def capability(arch: str) -> int:
    """Return the compute capability of an arch, times ten: 75 for ``sm_75``, 90 for ``sm_90a``."""
    return int(arch.removeprefix("sm_").rstrip("af"))


@dataclass(frozen=True)
class DeviceLimits:
    """One device as the templates see it.

    Sizes are in bytes, rates in FLOP/s (float32) and bytes/s; a rate of 0 means unknown. ``units``
    counts multiprocessors on a GPU and hardware threads on a CPU. ``cache_bytes`` is the size of
    the last cache before memory.
    """

    kind: Literal["cpu", "cuda"]
    arch: str
    units: int
    threads_per_block: int = 1
    shared_memory_per_block: int = 0
    shared_memory_opt_in: int = 0  # the most a block may have if its kernel asks for it
    warp_size: int = 1
    registers_per_unit: int = 0
    vector_bytes: int = 16
    cache_bytes: int = 0
    peak_flops: float = 0.0
    peak_bandwidth: float = 0.0

    @property
    def capability(self) -> int:
        """Return a GPU's compute capability, times ten."""
        return capability(self.arch)

    @property
    def begins_launches_early(self) -> bool:
        """Return whether a launch may begin before the previous one on its stream has ended."""
        return self.kind == "cuda" and self.capability >= EARLY_LAUNCHES

    @property
    def copies_tensors(self) -> bool:
        """Return whether a thread can start the copy of a box of a tensor."""
        return self.kind == "cuda" and self.capability >= TENSOR_COPIES

    @property
    def shared_memory(self) -> int:
        """Return the most bytes of shared memory that a block may have, by opting in if needed."""
        return self.shared_memory_opt_in or self.shared_memory_per_block

    @property
    def unit_shared_memory(self) -> int:
        """Return roughly the bytes of shared memory that a unit has for all its blocks."""
        return 4 * self.shared_memory_per_block

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DeviceLimits:
        return cls(**value)
