"""CudaSignalsFourier: the search space of Fourier transforms on tensor cores, for signals that
share long kernels, on CUDA."""

from __future__ import annotations

from templates.arithmetic import FFT_IN_HALVES
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.fft import has_contiguous_rows
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

THREADS = 512
BLOCKS = 128  # of samples, into which a signal is divided
BLOCK_LENGTHS = (16, 32, 64)
"""Samples of a block of a signal."""
ITEM_COUNTS = (1, 2, 4, 8, 16, 32)
FEWEST_SIGNALS = 4
"""With fewer signals, most columns of a product are empty, and the taps' spectrum is read for few
signals."""
FEWEST_TAPS = 128
LEAST_ERROR = 1e-3
"""This template is used only if at least this error is allowed. Values are rounded to half
precision five times. The largest error was 5.7e-4 of the largest output, measured on every 16th of
64 signals of 768 channels of 8192 samples, and 8e-4 on one simulated channel."""
TAPS_THREADS, TAPS_RESIDENT = 256, 3
TAPS_WORDS = {block: 2 * BLOCKS * block + 2 * TAPS_THREADS // 32 for block in BLOCK_LENGTHS}
"""The launch that transforms the taps: threads of a block, resident blocks of a unit, and 32-bit
words of a block's shared memory."""
MAX_WORKSPACE = 2**33  # bytes, the limit of all tensors of a workload


class CudaSignalsFourier(Template[Conv1dWorkload]):
    """Convolution of signals that share long kernels, by Fourier transforms on tensor cores.

    A signal is 128 blocks of ``block`` samples. It is transformed over the blocks. At each
    frequency, the samples of a block are multiplied by one matrix of the taps' spectrum
    (``schedules/signals_fourier.cu``). A first launch computes these spectra. In the second, a
    block of threads has 256 / ``block`` signals of a channel in shared memory at a time, and
    computes ``items`` such groups one after the other.
    """

    name = "signals_fourier"
    kind = "cuda"
    version = 4
    arithmetic = FFT_IN_HALVES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``has_contiguous_rows``, 16 bits, enough signals and taps, at
        most 8192 outputs a row and a first output that meets one tap, on compute capability 9.0.

        The first output matters because errors are relative to the largest output of the full
        convolution. If the first of those outputs were left out, the largest might be among them.
        """
        return (
            super().applies(workload, limits)
            and limits.arch == "sm_90"
            and workload.dtype != "float32"
            and has_contiguous_rows(workload)
            and workload.B >= FEWEST_SIGNALS
            and workload.N >= FEWEST_TAPS
            and workload.error_of_sums(workload.N) >= LEAST_ERROR
            and workload.left == workload.N - 1
            and bool(_block_lengths(workload))
            and 4 * shared_words({}) <= limits.shared_memory
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("block", _block_lengths(workload))
        space.knob("items", _item_counts(workload, limits))
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "no more items than there are groups of signals",
            lambda c: c["items"] == 1 or c["items"] <= signal_groups(workload, c),
            reads=("block", "items"),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        block = _block_lengths(workload)[0]
        each = ceil_div(signal_groups(workload, {"block": block}), limits.units)
        return {"template": self.name, "block": block, "items": each, "stores": "cached"}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        block, count = config["block"], blocks(workload, config)
        turns = ceil_div(count, limits.units) * config["items"]
        return {
            **occupancy(count, THREADS, 1, limits),
            "shared_bytes": 4 * shared_words(config),
            "registers": limits.registers_per_unit // THREADS,
            "block": block,
            "items": config["items"],
            "turns_of_a_unit": turns,
            "products": turns * (3 * BLOCKS + 4 * block),
            "launches": 2,
            "workspace_bytes": 4 * workspace(workload, config),
            "padded_share": count * config["items"] * 256 * BLOCKS / workload.output.elements,
            "streaming": config["stores"] == "streaming",
        }


def signal_groups(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of groups of 256 / ``block`` signals in all channels."""
    return workload.out_channels * ceil_div(workload.B, 256 // config["block"])


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return ceil_div(signal_groups(workload, config), config["items"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the 32-bit words of the workspace: for each channel its spectra, the running sums of
    its taps and an exponent; and a table."""
    channels = workload.out_channels
    of_channels = 5 * BLOCKS * config["block"] * channels + 4 * ceil_div(channels, 4)
    return int(of_channels + BLOCKS * BLOCKS + 2 * THREADS)


def shared_words(config: Config) -> int:
    """Return the 32-bit words of a block's shared memory: samples, spectra and tables, at a
    multiple of 1024 bytes, and a few numbers of each signal."""
    return int((1024 + 12 * BLOCKS * 128 + 2 * 64 * BLOCKS * 2) // 4 + 2 * 16 * 4 + 3 * 16)


def _item_counts(workload: Conv1dWorkload, limits: DeviceLimits) -> list[int]:
    """Return the values of ``items``: ITEM_COUNTS, and those that give each unit one block."""
    once = {
        ceil_div(signal_groups(workload, {"block": block}), limits.units)
        for block in _block_lengths(workload)
    }
    return sorted(once.union(ITEM_COUNTS))


def _block_lengths(workload: Conv1dWorkload) -> list[int]:
    return [
        block
        for block in BLOCK_LENGTHS
        if workload.length <= BLOCKS * block
        and 4 * workspace(workload, {"block": block}) < MAX_WORKSPACE
    ]
