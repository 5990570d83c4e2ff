"""Peers: what a user would call instead of a tuned kernel. Each library has a file with a table
``BY_OPERATOR``, whose functions list the library's ways to compute a workload of an operator."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress

from db.contract.order import Baselines
from templates.workload import Workload
from tuner.peers.peer import Broken, Peer, installed

DEVICE, HOST, PYTORCH = "device", "host", "pytorch"
"""Groups of peers: a GPU's libraries; NumPy and SciPy on the host; PyTorch on a CPU."""
LAYERS = "layers"
"""The group of PyTorch's own convolutions, as a model's layers call them."""

LIBRARIES = {
    "numpy_peer": HOST,
    "scipy_peer": HOST,
    "pytorch_peer": PYTORCH,
    "pytorch_fft_peer": PYTORCH,
    "cupy_peer": DEVICE,
    "triton_peer": DEVICE,
    "causal_conv1d_peer": DEVICE,
    "cudnn_peer": DEVICE,
    "pytorch_compiled_peer": PYTORCH,  # last, because it takes longest to be ready
}
"""The modules of peers for forward workloads, each with its group. On a GPU those of PYTORCH
belong to DEVICE."""
GRADIENTS = {"gradients.causal_conv1d": DEVICE, "gradients.pytorch": PYTORCH}
"""The same for workloads that are gradients."""

MAX_SECONDS = 1.0
"""A peer is not timed if one call would take longer."""


class TooSlow(Exception):
    """A peer is not timed, because one call would take longer than MAX_SECONDS."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"a call would take about {seconds:.2g} s; at most {MAX_SECONDS:g} is timed"
        )


def groups(kind: str, baselines: Baselines = "all") -> tuple[str, ...]:
    """Return the groups of peers that an order with these baselines compares with, on a kind of
    device."""
    if baselines == "all":
        return (DEVICE, HOST) if kind == "cuda" else (HOST, PYTORCH)
    return (LAYERS,) if baselines == "pytorch" else ()


def shares_kernel_process(group: str, kind: str) -> bool:
    """Return whether the group is timed in the same process as the kernels.

    Peers that run on a CPU get a process of their own. In one process, the threads of two runtimes
    can make each other a hundred times slower."""
    return kind == "cuda" and group != HOST


def may_be_installed(group: str) -> bool:
    """Return whether a library of the group may be installed. If none is, no process needs to be
    started for the group."""
    return group not in (PYTORCH, LAYERS) or installed("torch")


IMPORTED = {
    DEVICE: ("torch", "torch._inductor.compile_fx", "cupy", "cupyx.scipy.signal", "triton"),
    HOST: ("scipy.signal",),
    PYTORCH: ("torch", "torch._inductor.compile_fx"),
    LAYERS: ("torch",),
}
"""The modules that a group's peers import. Some of them take seconds."""


def import_libraries(group: str) -> None:
    """Import the group's libraries ahead of time. A library that can't be imported is skipped here;
    :func:`peers` reports it."""
    for name in IMPORTED[group]:
        with suppress(Exception):
            importlib.import_module(name)


def peers(workload: Workload, kind: str, group: str | None = None) -> Iterator[Peer]:
    """Yield the peers on this machine that compute the workload, for jobs on a kind of device.

    ``group`` leaves out the peers of other groups. A peer that can't be used, or that would take
    longer than MAX_SECONDS, is yielded as :class:`Broken`, with the reason."""
    for module, its_own in (LIBRARIES if workload.is_forward else GRADIENTS).items():
        found_in = DEVICE if (kind, its_own) == ("cuda", PYTORCH) else its_own
        alone = group == LAYERS and module in ("pytorch_peer", "gradients.pytorch")
        if group not in (None, found_in) and not alone:
            continue
        try:
            table = importlib.import_module(f"tuner.peers.{module}").BY_OPERATOR
            listed = table.get(workload.operator)
            found = [] if listed is None else list(listed(workload, kind))
        except Exception as error:  # a faulty installation is reported, and the search goes on
            yield Broken(module.removesuffix("_peer"), error)
            continue
        for peer in found:
            yield peer if peer.seconds <= MAX_SECONDS else Broken(peer.name, TooSlow(peer.seconds))
