"""Convolution by PyTorch's transforms (overlap-save), as users of PyTorch write it for long
kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.peer import Listing, Peer, transform_seconds
from tuner.peers.pytorch_peer import set_up_torch, take_threads
from tuner.peers.timing import captured, fastest
from tuner.peers.torch_arrays import to_array, to_tensor

if TYPE_CHECKING:
    from torch import Tensor

FLOPS_PER_SECOND = {"cpu": 1e10, "cuda": 1e11}
"""Rough rates. A call's time is estimated from them."""
SMALLEST, WIDEST = 64, 6
"""The smallest block in samples, and how many powers of two are tried from the first block on."""
FEWEST_TAPS = 64
"""Several signals are transformed only from this number of taps on: nobody does it for fewer."""


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[OverlapSavePeer]:
    long = min(workload.N, workload.M) >= FEWEST_TAPS
    served = workload.are_apart and not workload.has_epilogue
    if served and (workload.is_one_signal or long) and set_up_torch(kind):
        yield OverlapSavePeer(workload, kind)


def block_sizes(workload: Conv1dWorkload) -> list[int]:
    """Return the block sizes worth trying, in samples, ascending. They are powers of two, from
    twice the shorter of kernel and signal up to one block that holds the whole output."""
    taps = min(workload.N, workload.M)
    first = max(SMALLEST, _power_of_two(2 * taps))
    whole = max(SMALLEST, _power_of_two(workload.length + taps - 1))
    return [size for size in (first << step for step in range(WIDEST)) if size < whole] + [whole]


class OverlapSavePeer(Peer):
    """Overlap-save: blocks of the signals, which overlap by ``N - 1`` samples, are transformed as
    one batch and multiplied by the transform of the weights.

    The weights are transformed in each call, as in ``fftconvolve``. If signals are shorter than
    their kernels, the two change places. A few block sizes are tried on the given inputs; on a CPU
    each is tried with all threads and with one. ``block`` is the fastest size in samples.
    """

    block: int

    def __init__(self, workload: Conv1dWorkload, kind: str) -> None:
        self.name = "pytorch fft"
        self.seconds = workload.rows * transform_seconds(workload, FLOPS_PER_SECOND[kind])
        self._workload, self._kind = workload, kind
        self._call: Callable[[], Tensor]

    def compile(self, *given: Array) -> None:
        import torch

        x, w = given
        self._given = to_tensor(x, self._kind), to_tensor(w, self._kind)
        if self._kind == "cuda":  # first calls load kernels and plan transforms
            with torch.inference_mode():
                for way in self._ways():
                    self._way(*self._given, *way)

    def kernel(self) -> Kernel:
        import torch

        ways = self._ways()
        calls = [partial(self._way, *self._given, *way) for way in ways]
        with torch.inference_mode():
            chosen = fastest(calls, self._kind)
        self.block, self._call = ways[chosen][1], calls[chosen]
        return Kernel(call=self._once, graphed=partial(captured, self._call))

    def _ways(self) -> list[tuple[int | None, int]]:
        """Return the pairs of a number of threads and a block size that are tried."""
        return list(product(self._threads(), block_sizes(self._workload)))

    def _threads(self) -> list[int | None]:
        """Return the numbers of CPU threads worth trying; only None for a GPU."""
        return [None] if self._kind == "cuda" else [*{1, host_threads()}]

    def _way(self, signal: Tensor, weights: Tensor, threads: int | None, block: int) -> Tensor:
        if threads is not None:
            take_threads(threads)
        return overlap_save(self._workload, signal, weights, block)

    def output(self) -> Array:
        return to_array(self._once())

    def _once(self) -> Tensor:
        import torch

        with torch.inference_mode():
            return self._call()


def overlap_save(workload: Conv1dWorkload, signals: Tensor, weights: Tensor, block: int) -> Tensor:
    """Return the output in the workload's shape and the signals' dtype, by float32 transforms of
    ``block`` samples."""
    import torch

    B, C, M, N = workload.B, workload.C, workload.M, workload.N
    rows = signals.float().reshape(B, C, 1, M)
    kernels = weights.float().reshape(1, C, workload.multiplier, N)
    correlates = workload.kind == "correlate"
    if N > M and correlates:
        kernels, correlates = kernels.flip(-1), False
    long, short = (kernels, rows) if N > M else (rows, kernels)
    taps = short.shape[-1]
    step = block - taps + 1
    blocks = ceil_div(workload.length, step)
    left = workload.left + taps - N  # if the two changed places, outputs begin elsewhere
    right = (blocks - 1) * step + block - left - long.shape[-1]
    padded = torch.nn.functional.pad(long, (left, right))  # a negative number crops
    spectrum = torch.fft.rfft(short, block).unsqueeze(-2)
    # the first ``step`` sums of a circular correlation are right, and the last of a convolution
    if correlates:
        spectrum, start = spectrum.conj(), 0
    else:
        start = taps - 1
    spectra = torch.fft.rfft(padded.unfold(-1, block, step))
    in_place = spectra.shape == torch.broadcast_shapes(spectra.shape, spectrum.shape)
    product = spectra.mul_(spectrum) if in_place else spectra * spectrum
    sums = torch.fft.irfft(product, block)[..., start : start + step]
    kept: Tensor = sums.reshape(workload.rows, -1)[:, : workload.length]
    return kept.to(signals.dtype).reshape(workload.output.shape)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d}
