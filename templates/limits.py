"""What a search space may depend on: the hard limits and rates of one device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class DeviceLimits:
    """One device as the templates see it.

    Sizes are in bytes, rates in FLOP/s (float32) and bytes/s; a rate of 0 means unknown.
    ``units`` counts multiprocessors on a GPU and hardware threads on a CPU;
    ``cache_bytes`` is the last cache before memory.
    """

    kind: Literal["cpu", "cuda"]
    arch: str
    units: int
    threads_per_block: int = 1
    shared_memory_per_block: int = 0
    shared_memory_opt_in: int = 0  # what a block may have when it asks for it
    warp_size: int = 1
    registers_per_unit: int = 0
    vector_bytes: int = 16
    cache_bytes: int = 0
    peak_flops: float = 0.0
    peak_bandwidth: float = 0.0

    @property
    def shared_memory(self) -> int:
        """The most bytes that a block may have, asking for them if that is needed."""
        return self.shared_memory_opt_in or self.shared_memory_per_block

    @property
    def unit_shared_memory(self) -> int:
        """About what the blocks of a unit have together."""
        return 4 * self.shared_memory_per_block

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> DeviceLimits:
        return cls(**value)
