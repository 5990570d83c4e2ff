"""What a user would call instead. One file each, used where its library is importable."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from templates.workload import Workload
from tuner.peers.peer import Peer

_MODULES = ("numpy_peer", "pytorch_peer")

MAX_FLOPS = 2e10
"""A peer that would take seconds for one call is left out."""


def peers(workload: Workload, kind: str) -> Iterator[Peer]:
    """Those that can serve the workload beside a device of that kind, on this machine."""
    if workload.flops > MAX_FLOPS:
        return
    for module in _MODULES:
        yield from importlib.import_module(f"tuner.peers.{module}").peers(workload, kind)
