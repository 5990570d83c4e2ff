"""PyTorch's convolutions, in both layouts where there are two, at their best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tuner.measure.kernel import Kernel

WARM_UP_CALLS = 3


def peers(workload: Workload, kind: str) -> Iterator[PytorchPeer]:
    try:
        import torch
    except ImportError:
        return
    if kind == "cuda" and not torch.cuda.is_available():
        return
    torch.backends.cudnn.benchmark = True
    # tf32 has 10 bits of mantissa: not the same contract
    torch.backends.cudnn.allow_tf32 = False
    yield PytorchPeer(workload, kind, channels_last=False)
    if isinstance(workload, DepthwiseConv2dWorkload):
        yield PytorchPeer(workload, kind, channels_last=True)


class PytorchPeer:
    """``torch.nn.functional``'s convolution; on CUDA captured in a graph."""

    def __init__(self, workload: Workload, kind: str, channels_last: bool) -> None:
        layout = (
            (" NHWC" if channels_last else " NCHW")
            if isinstance(workload, DepthwiseConv2dWorkload)
            else ""
        )
        self.name = f"pytorch{layout}"
        self._workload, self._kind, self._channels_last = workload, kind, channels_last

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        import torch

        self._call = self._convolution(torch.from_numpy(np.array(x)), torch.from_numpy(np.array(w)))
        with torch.inference_mode():
            for _ in range(WARM_UP_CALLS):
                self._call()
        return Kernel(call=self._once, graphed=self._graphed)

    def output(self) -> NDArray[np.float32]:
        result: NDArray[np.float32] = self._once().cpu().numpy()
        return result.reshape(self._workload.output_shape)

    def _once(self) -> Any:
        import torch

        with torch.inference_mode():
            return self._call()

    def _graphed(self, copies: int, stream: int) -> Callable[[], Any]:
        import torch

        ours = torch.cuda.ExternalStream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode():
            ours.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(ours):
                self._call()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=ours):
                for _ in range(copies):
                    self._call()

        def replay() -> None:
            with torch.cuda.stream(ours):
                graph.replay()

        return replay

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
