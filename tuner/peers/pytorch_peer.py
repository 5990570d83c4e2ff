"""PyTorch's own convolutions, set up for speed, in each layout that the operator has.

On a CPU they are timed with one thread too. If cores are busy, PyTorch's threads may wait for each
other a hundred times as long as they work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.epilogue import WithEpilogue
from templates.workload import Workload
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.epilogue import torch_epilogue
from tuner.peers.peer import Listing, Peer, installed
from tuner.peers.timing import captured
from tuner.peers.torch_arrays import to_array, to_tensor

if TYPE_CHECKING:
    from torch import Tensor, dtype, memory_format

WARM_UP_CALLS = 3
TF32_LEAST_ERROR = 1e-4
"""tf32 has 10 bits of mantissa, so it is not tried if ``max_error`` is smaller than this."""
FLOPS_PER_SECOND = {"cpu": 5e9, "cpu channels last": 5e10, "cuda": 5e11}
"""Rough rates. A call's time is estimated from them. They were measured on shapes at which PyTorch
is slow: long kernels, and large ones in NCHW."""
CHANNELS_LAST = ("NHWC", "NWC")
ONE_THREAD = 0.5
"""The rate of one thread, as a share of these rates, which hold for a CPU with two threads."""


@dataclass(frozen=True)
class Form:
    """One way in which PyTorch, or a library on its tensors, computes an operator."""

    call: Callable[..., Callable[[], Any]]
    """``call(workload, memory format, *tensors)`` returns the call that is timed."""
    float16_on_cpu: float = FLOPS_PER_SECOND["cpu"]
    """Operations a second for float16 on a CPU that has no arithmetic for it."""
    layouts: tuple[str, ...] = ("",)
    """Names of the layouts worth trying. If there is only one, its name is empty."""
    name: str = "pytorch"
    """The peer's name without its layout."""
    ahead: Callable[[Callable[[], Any]], None] = lambda _: None
    """``ahead(call)`` compiles for a GPU what the first call would compile, without calling."""
    to_workload_layout: Callable[[Any, Any], Tensor | tuple[Tensor, ...]] = lambda _, y: y
    """``to_workload_layout(workload, output)`` returns the call's output with the axes of the
    workload's output, or a tuple of outputs. It is not timed."""


def set_up_torch(kind: str) -> bool:
    """Return whether PyTorch is installed and runs on a kind of device. On a GPU, also let cuDNN
    search for the fastest algorithm."""
    if not installed("torch"):
        return False
    import torch

    if kind == "cuda":
        if not torch.cuda.is_available():
            return False
        torch.backends.cudnn.benchmark = True
    return True


def take_threads(threads: int) -> None:
    """Set PyTorch's number of CPU threads, which holds for the whole process."""
    import torch

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


class PytorchPeer(Peer):
    """A form of PyTorch's in one layout. On CUDA its call is captured in a graph.

    A float32 workload is computed in tf32 if the error on the given inputs is at most half of the
    workload's ``max_error``. The peer's name then ends in tf32. ``threads`` is the number of
    PyTorch's threads on a CPU; None means all that this process may use."""

    def __init__(
        self, form: Form, workload: Workload, kind: str, layout: str, threads: int | None = None
    ) -> None:
        all_threads = host_threads()
        self._threads = threads or all_threads
        alone = self._threads == 1 < all_threads
        self.name = " ".join(filter(None, [form.name, layout, "1 thread" if alone else ""]))
        self._channels_last = layout in CHANNELS_LAST
        rate = FLOPS_PER_SECOND[kind]
        if self._channels_last:
            rate = FLOPS_PER_SECOND.get(f"{kind} channels last", rate)
        if (kind, workload.dtype) == ("cpu", "float16"):
            rate = form.float16_on_cpu
        self.seconds = workload.flops / (rate * ONE_THREAD if alone else rate)
        self._form, self._workload, self._kind = form, workload, kind
        self._tf32 = False

    def compile(self, *given: Array) -> None:
        """Copy the arrays, and make the first call on a CPU. On a GPU compile ahead and only load
        cuDNN's libraries, because cuDNN searches at the first call of each shape."""
        import torch

        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        tensors = [to_tensor(array, self._kind) for array in given]
        self._call = self._form.call(self._workload, layout, *tensors)
        if self._kind == "cpu":
            self._once()
            return
        self._set_up()
        with torch.inference_mode():
            _load_cudnn(tensors[0].dtype)
            self._form.ahead(self._call)

    def kernel(self) -> Kernel:
        exact = self._ordered()
        if self._admits_tf32():
            self._tf32 = True
            error = max(
                float((y - each).abs().max() / each.abs().max())
                for y, each in zip(self._ordered(), exact, strict=True)
            )
            self._tf32 = 0 < error <= self._workload.max_error / 2
            self.name += " tf32" if self._tf32 else ""
        for _ in range(WARM_UP_CALLS):
            self._once()
        return Kernel(call=self._once, graphed=self._graphed)

    def output(self) -> Array:
        (found,) = self.outputs()
        return found

    def outputs(self) -> tuple[Array, ...]:
        outputs = zip(self._ordered(), self._workload.outputs, strict=True)
        return tuple(to_array(y).reshape(output.shape) for y, output in outputs)

    def _admits_tf32(self) -> bool:
        workload = self._workload
        return (self._kind, workload.dtype) == ("cuda", "float32") and (
            workload.max_error >= TF32_LEAST_ERROR
        )

    def _ordered(self) -> tuple[Tensor, ...]:
        found = self._form.to_workload_layout(self._workload, self._once())
        return found if isinstance(found, tuple) else (found,)

    def _once(self) -> Any:
        import torch

        self._set_up()
        with torch.inference_mode():
            return self._call()

    def _graphed(self, copies: int, stream: int) -> Callable[[], Any]:
        self._set_up()
        return captured(self._call, copies, stream)

    def _set_up(self) -> None:
        """Set PyTorch's global switches (tf32, number of threads) as this peer needs them."""
        if self._kind == "cuda":
            import torch

            torch.backends.cudnn.allow_tf32 = self._tf32
        else:
            take_threads(self._threads)


@cache
def _load_cudnn(dtype: dtype) -> None:
    """Load cuDNN's libraries by a tiny convolution. cuDNN still searches for the workload's shape
    at the first call of that shape."""
    import torch

    signal, kernel = (torch.ones(1, 1, n, dtype=dtype, device="cuda") for n in (5, 3))
    torch.nn.functional.conv1d(signal, kernel)
    torch.cuda.synchronize()


def _conv1d(
    workload: Conv1dWorkload, layout: memory_format, x: Tensor, w: Tensor, *added: Tensor
) -> Callable[[], Tensor]:
    """Return the call for a conv1d. If channels come last, signals become images of one row,
    because PyTorch has no such layout for signals."""
    import torch
    from torch.nn import functional

    images = layout is torch.channels_last

    def in_layout(signals: Tensor) -> Tensor:
        return (signals[:, :, None] if images else signals).contiguous(memory_format=layout)

    bias, residual = bias_and_residual(workload, added)
    finish = torch_epilogue(
        workload, None if residual is None else in_layout(channels_first(workload, residual))
    )
    taps = w.reshape(workload.out_channels, workload.summed, workload.N)
    signals = in_layout(channels_first(workload, x))
    ones, zeros = ((1,), (0,)) if images else ((), ())
    call = partial(
        functional.conv2d if images else functional.conv1d,
        weight=in_layout(taps.flip(-1) if workload.kind == "convolve" else taps),
        bias=bias,
        stride=(*ones, workload.stride),
        dilation=(*ones, workload.dilation),
        groups=workload.C // workload.summed,
    )
    convolved = _padded(workload, call, zeros)
    if workload.gated:
        before, behind, signal = signals.chunk(3, dim=1)
        return lambda: convolved(before * signal) * behind
    return lambda: finish(convolved(signals))


def _padded(
    workload: Conv1dWorkload, call: Callable[..., Tensor], zeros: tuple[int, ...]
) -> Callable[[Tensor], Tensor]:
    """Return ``call`` with the workload's padding; ``zeros`` is that of the images' rows."""
    from torch.nn import functional

    left, right = workload.pads
    if left == right:
        return lambda signals: call(signals, padding=(*zeros, right))
    if workload.mode == "causal":  # as models write it: pad both ends, then cut the output off
        front = slice(workload.length)
        return lambda signals: call(signals, padding=(*zeros, left))[..., front]
    return lambda signals: call(functional.pad(signals, (left, right)))


def channels_first(workload: Conv1dWorkload, tensor: Tensor) -> Tensor:
    """Return a view (B, C, M) of a tensor in the workload's layout."""
    if workload.is_one_signal:
        return tensor[None, None]
    return tensor.transpose(1, 2) if workload.layout == "NWC" else tensor


def signals_in_layout(workload: Conv1dWorkload, y: Tensor) -> Tensor:
    """Return PyTorch's output (B, F, L), or (B, F, 1, L) of images, in the workload's layout."""
    y = y.reshape(workload.B, workload.out_channels, workload.length)
    return y.transpose(1, 2) if workload.layout == "NWC" else y


def _depthwise_conv2d(
    workload: DepthwiseConv2dWorkload, layout: memory_format, x: Tensor, w: Tensor, *added: Tensor
) -> Callable[[], Tensor]:
    from torch.nn import functional

    to_nchw = workload.axes(range(4))
    bias, residual = bias_and_residual(workload, added)
    if residual is not None:
        residual = residual.permute(to_nchw).contiguous(memory_format=layout)
    finish = torch_epilogue(workload, residual)
    image = x.permute(to_nchw).contiguous(memory_format=layout)
    kernel = w.contiguous(memory_format=layout)
    top, left, bottom, right = workload.pads
    call = partial(
        functional.conv2d,
        weight=kernel,
        bias=bias,
        stride=workload.stride,
        dilation=workload.dilation,
        groups=workload.C,
    )
    if (top, left) == (bottom, right):
        return lambda: finish(call(image, padding=(top, left)))
    ends = (left, right, top, bottom)
    return lambda: finish(call(functional.pad(image, ends)))


def _in_layout(workload: DepthwiseConv2dWorkload, y: Tensor) -> Tensor:
    """Return PyTorch's output with the axes in the order of the workload's layout. PyTorch's own
    order is (B, C, H, W), wherever the channels are in memory."""
    return y.permute(workload.place(0, 1, 2, 3))


def bias_and_residual(
    workload: WithEpilogue, added: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the bias and the residual among the added tensors, None if the workload has none."""
    rest = list(added)
    return (rest.pop(0) if workload.bias else None, rest.pop(0) if workload.residual else None)


def conv1d(workload: Conv1dWorkload) -> Form:
    """Return PyTorch's form of conv1d, in both layouts unless the workload is one signal."""
    layouts = ("",) if workload.is_one_signal else ("NCW", "NWC")
    return Form(_conv1d, float16_on_cpu=5e8, layouts=layouts, to_workload_layout=signals_in_layout)


def depthwise_conv2d(workload: DepthwiseConv2dWorkload) -> Form:
    """Return PyTorch's form of depthwise_conv2d, in both layouts."""
    layouts = ("NCHW", "NHWC")
    return Form(
        _depthwise_conv2d, float16_on_cpu=2e7, layouts=layouts, to_workload_layout=_in_layout
    )


def listed(form: Form, workload: Workload, kind: str) -> Iterator[PytorchPeer]:
    """Yield a peer for each layout of the form, on a CPU with all threads and with one thread."""
    for threads in sorted({host_threads(), 1} if kind == "cpu" else {host_threads()}, reverse=True):
        for layout in form.layouts:
            yield PytorchPeer(form, workload, kind, layout, threads)


def _listed(form_of: Callable[[Any], Form], workload: Workload, kind: str) -> Iterator[PytorchPeer]:
    if set_up_torch(kind):
        yield from listed(form_of(workload), workload, kind)


BY_OPERATOR: dict[str, Listing] = {
    "conv1d": partial(_listed, conv1d),
    "depthwise_conv2d": partial(_listed, depthwise_conv2d),
}
