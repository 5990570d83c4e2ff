"""What a user would call instead. One file each, used where its library is importable."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from templates.workload import Workload
from tuner.peers.peer import Broken, Peer

_MODULES = (
    "numpy_peer",
    "scipy_peer",
    "pytorch_peer",
    "pytorch_fft_peer",
    "cupy_peer",
    "triton_peer",
)

MAX_SECONDS = 1.0
"""A peer that would take longer for one call is left out."""


def peers(workload: Workload, kind: str) -> Iterator[Peer]:
    """Those that can serve the workload beside a device of that kind, on this machine."""
    for module in _MODULES:
        try:
            found = list(importlib.import_module(f"tuner.peers.{module}").peers(workload, kind))
        except Exception as error:  # a faulty installation is reported, and stops nothing
            yield Broken(module.removesuffix("_peer"), error)
            continue
        yield from (peer for peer in found if peer.seconds <= MAX_SECONDS)
