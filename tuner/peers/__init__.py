"""What a user would call instead. One file for each library, with a table ``BY_OPERATOR`` of what
lists its ways to compute a workload; used where the library is importable."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress

from db.contract.order import Baselines
from templates.workload import Workload
from tuner.peers.peer import Broken, Peer, installed

DEVICE, HOST, PYTORCH = "device", "host", "pytorch"
"""Groups: a GPU's own libraries; NumPy and SciPy on the host; PyTorch on a CPU."""
LAYERS = "layers"
"""The group of PyTorch's convolutions alone, as a model's layers call them."""

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
GRADIENTS = {"gradients.causal_conv1d": DEVICE, "gradients.pytorch": PYTORCH}
"""The same for gradients."""

MAX_SECONDS = 1.0
"""A peer that would take longer for one call is not timed."""


class TooSlow(Exception):
    """Why a peer is not timed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"a call would take about {seconds:.2g} s; at most {MAX_SECONDS:g} is timed"
        )


def groups(kind: str, baselines: Baselines = "all") -> tuple[str, ...]:
    """The groups of peers beside a device of that kind, if an order wants those baselines."""
    if baselines == "all":
        return (DEVICE, HOST) if kind == "cuda" else (HOST, PYTORCH)
    return (LAYERS,) if baselines == "pytorch" else ()


def beside_kernels(group: str, kind: str) -> bool:
    """Whether the group is timed in the process of the kernels. On a CPU each has its own: threads
    of two runtimes in one disturb each other up to a hundredfold."""
    return kind == "cuda" and group != HOST


def here(group: str) -> bool:
    """Whether a library of the group may be installed: a process for none imports for nothing."""
    return group not in (PYTORCH, LAYERS) or installed("torch")


IMPORTED = {
    DEVICE: ("torch", "torch._inductor.compile_fx", "cupy", "cupyx.scipy.signal", "triton"),
    HOST: ("scipy.signal",),
    PYTORCH: ("torch", "torch._inductor.compile_fx"),
    LAYERS: ("torch",),
}
"""What a group's peers import, of which some take seconds."""


def import_libraries(group: str) -> None:
    """Import what is installed of them; of a faulty one, listing its peers says more."""
    for name in IMPORTED[group]:
        with suppress(Exception):
            importlib.import_module(name)


def peers(workload: Workload, kind: str, group: str | None = None) -> Iterator[Peer]:
    """Those that can serve the workload beside a device of that kind, here; of one group, or
    all. One that can't be used or would take too long is there as :class:`Broken`."""
    for module, its_own in (LIBRARIES if workload.is_forward else GRADIENTS).items():
        found_in = DEVICE if (kind, its_own) == ("cuda", PYTORCH) else its_own
        alone = group == LAYERS and module in ("pytorch_peer", "gradients.pytorch")
        if group not in (None, found_in) and not alone:
            continue
        try:
            table = importlib.import_module(f"tuner.peers.{module}").BY_OPERATOR
            listed = table.get(workload.operator)
            found = [] if listed is None else list(listed(workload, kind))
        except Exception as error:  # a faulty installation is reported, and stops nothing
            yield Broken(module.removesuffix("_peer"), error)
            continue
        for peer in found:
            yield peer if peer.seconds <= MAX_SECONDS else Broken(peer.name, TooSlow(peer.seconds))
