"""PyTorch's convolutions as ``torch.compile`` makes them, at the end of which bias, residual and
activation are in one kernel. On a CPU with all threads: their number is part of what is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from templates.workload import Workload
from tuner.peers.peer import Listing
from tuner.peers.pytorch_peer import Form, PytorchPeer, conv1d, depthwise_conv2d, ready


def compiled(form: Form) -> Form:
    """The same, compiled at its first call, without CUDA graphs of PyTorch's own: what is timed is
    captured as other peers are."""
    return replace(
        form,
        name="pytorch compiled",
        call=lambda *given: _compiled(form.call(*given)),
    )


def _compiled(call: Callable[[], Any]) -> Callable[[], Any]:
    import torch
    from torch._inductor import config

    config.compile_threads = 1  # processes that compile would outlast this and disturb the round
    result: Callable[[], Any] = torch.compile(call, fullgraph=True, dynamic=False)
    return result


def _listed(form_of: Callable[[Any], Form], workload: Workload, kind: str) -> Iterator[PytorchPeer]:
    if not ready(kind):
        return
    form = compiled(form_of(workload))
    for layout in form.layouts:
        yield PytorchPeer(form, workload, kind, layout)


BY_OPERATOR: dict[str, Listing] = {
    "conv1d": partial(_listed, conv1d),
    "depthwise_conv2d": partial(_listed, depthwise_conv2d),
}
