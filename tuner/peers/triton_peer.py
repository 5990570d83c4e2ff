"""A convolution of one signal in Triton, as its users write it: a kernel for blocks of outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.peer import Listing, Peer, installed
from tuner.peers.pytorch_peer import set_up_torch
from tuner.peers.timing import captured, fastest

BLOCK, STEP = 2048, 4
"""Outputs a program and taps a step, as in the seed document."""
WARPS = (4, 8, 16)
"""Numbers of warps that are tried."""
FLOPS_PER_SECOND = 5e11


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[TritonPeer]:
    if (
        kind == "cuda"
        and workload.is_plain
        and workload.dtype == "float32"  # the kernel does not convert what it loads
        and installed("triton")
        and set_up_torch(kind)
    ):
        yield TritonPeer(workload)


class TritonPeer(Peer):
    """The Triton kernel with the fastest number of warps, ``warps``. It runs on PyTorch's tensors
    and stream, and is captured in a CUDA graph."""

    warps: int

    def __init__(self, workload: Conv1dWorkload) -> None:
        self.name = "triton"
        self.seconds = workload.flops / FLOPS_PER_SECOND
        self._workload = workload
        self._call: Callable[[], Any]

    def compile(self, *given: Array) -> None:
        import torch

        self._x, self._w = (torch.from_numpy(np.array(array)).cuda() for array in given)
        self._y = torch.full(self._workload.output.shape, torch.nan, device="cuda")
        for warps in WARPS:
            self._launch(warps)

    def kernel(self) -> Kernel:
        calls = [partial(self._launch, warps) for warps in WARPS]
        chosen = fastest(calls, "cuda")
        self.warps, self._call = WARPS[chosen], calls[chosen]
        return Kernel(call=self._call, graphed=partial(captured, self._call))

    def output(self) -> Array:
        self._y.fill_(float("nan"))
        self._call()
        result: Array = self._y.cpu().numpy()
        return result

    def _launch(self, warps: int) -> None:
        from tuner.peers.triton_kernel import conv1d_kernel

        workload = self._workload
        conv1d_kernel[(ceil_div(workload.length, BLOCK),)](
            self._x,
            self._w,
            self._y,
            workload.M,
            workload.N,
            workload.length,
            workload.left,
            reverse=workload.kind == "convolve",
            block=BLOCK,
            step=STEP,
            num_warps=warps,
        )


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d}
