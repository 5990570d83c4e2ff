"""PyTorch's convolutions, in both layouts where there are two, at their best.

On a CPU also with one thread: if cores are busy, its threads may wait for each other a hundred
times as long as they work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.peer import installed
from tuner.peers.timing import captured

WARM_UP_CALLS = 3
TF32_LEAST_ERROR = 1e-4
"""tf32 has 10 bits of mantissa: under a tighter contract it need not be tried."""
FLOPS_PER_SECOND = {"cpu": 5e9, "cpu NHWC": 5e10, "cuda": 5e11, "cuda NHWC": 5e11}
"""As measured on shapes that PyTorch is slow at: long kernels, and large ones in NCHW."""
ONE_THREAD = 0.5
"""Of these rates, at which a CPU had two."""
FLOAT16_ON_CPU = {"conv1d": 5e8, "depthwise_conv2d": 2e7}
"""The same where a CPU has no arithmetic for it."""


def peers(workload: Workload, kind: str) -> Iterator[PytorchPeer]:
    if not ready(kind):
        return
    layouts = (False, True) if isinstance(workload, DepthwiseConv2dWorkload) else (False,)
    for threads in sorted({host_threads(), 1} if kind == "cpu" else {host_threads()}, reverse=True):
        for channels_last in layouts:
            yield PytorchPeer(workload, kind, channels_last, threads)


def ready(kind: str) -> bool:
    """Whether PyTorch is here and runs on that kind of device; it is set up for a GPU then."""
    if not installed("torch"):
        return False
    import torch

    if kind == "cuda":
        if not torch.cuda.is_available():
            return False
        torch.backends.cudnn.benchmark = True
    return True


def take_threads(threads: int) -> None:
    """PyTorch has one number of threads for all that it computes."""
    import torch

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


class PytorchPeer:
    """``torch.nn.functional``'s convolution; on CUDA captured in a graph, for float32 with tf32
    where the workload's ``max_error`` admits what that does to these inputs: its name ends in it
    then. ``threads`` are a CPU's."""

    def __init__(
        self, workload: Workload, kind: str, channels_last: bool, threads: int | None = None
    ) -> None:
        layout = (
            (" NHWC" if channels_last else " NCHW")
            if isinstance(workload, DepthwiseConv2dWorkload)
            else ""
        )
        all_threads = host_threads()
        self._threads = threads or all_threads
        alone = self._threads == 1 < all_threads
        self.name = f"pytorch{layout}{' 1 thread' if alone else ''}"
        rate = FLOPS_PER_SECOND[f"{kind} NHWC" if channels_last else kind]
        if (kind, workload.dtype) == ("cpu", "float16"):
            rate = FLOAT16_ON_CPU[workload.operator]
        self.seconds = workload.flops / (rate * ONE_THREAD if alone else rate)
        self._workload, self._kind, self._channels_last = workload, kind, channels_last
        self._tf32 = False

    def prepare(self, x: Array, w: Array) -> Kernel:
        self._call = self._convolution(*map(self._placed, (x, w)))
        exact = self._once()
        if self._admits_tf32():
            self._tf32 = True
            error = (self._once() - exact).abs().max() / exact.abs().max()
            self._tf32 = 0 < float(error) <= self._workload.max_error / 2
            self.name += " tf32" if self._tf32 else ""
        for _ in range(WARM_UP_CALLS):
            self._once()
        return Kernel(call=self._once, graphed=self._graphed)

    def output(self) -> Array:
        result: Array = self._once().cpu().numpy()
        return result.reshape(self._workload.output.shape)

    def _admits_tf32(self) -> bool:
        workload = self._workload
        return (self._kind, workload.dtype) == ("cuda", "float32") and (
            workload.max_error >= TF32_LEAST_ERROR
        )

    def _once(self) -> Any:
        import torch

        self._set_up()
        with torch.inference_mode():
            return self._call()

    def _graphed(self, copies: int, stream: int) -> Callable[[], Any]:
        self._set_up()
        return captured(self._call, copies, stream)

    def _set_up(self) -> None:
        """PyTorch has one switch for all, and each peer its own mind."""
        if self._kind == "cuda":
            import torch

            torch.backends.cudnn.allow_tf32 = self._tf32
        else:
            take_threads(self._threads)

    @staticmethod
    def _placed(array: Array) -> Any:
        import torch

        return torch.from_numpy(np.array(array))

    def _convolution(self, x: Any, w: Any) -> Callable[[], Any]:
        import torch
        from torch.nn import functional

        workload = self._workload
        if isinstance(workload, Conv1dWorkload):
            taps = w.flip(0) if workload.kind == "convolve" else w
            signal, taps = x.to(self._kind)[None, None], taps.to(self._kind)[None, None]
            right = workload.length + workload.N - 1 - workload.M - workload.left
            if workload.left == right:
                return lambda: functional.conv1d(signal, taps, padding=right)
            return lambda: functional.conv1d(functional.pad(signal, (workload.left, right)), taps)
        assert isinstance(workload, DepthwiseConv2dWorkload)  # noqa: S101  # there are two
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        image = x.to(self._kind).contiguous(memory_format=layout)
        kernel = w.to(self._kind).contiguous(memory_format=layout)
        options = {
            "stride": workload.stride,
            "padding": workload.K // 2,
            "groups": workload.C,
        }
        return lambda: functional.conv2d(image, kernel, **options)
