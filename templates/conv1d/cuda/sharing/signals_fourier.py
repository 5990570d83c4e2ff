"""The space of the tensor-core Fourier form for signals that share long kernels on CUDA."""

from __future__ import annotations

from templates.arithmetic import FFT_IN_HALVES
from templates.ceil_div import ceil_div
from templates.conv1d.cuda.fft import is_served
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

THREADS = 512
BLOCKS = 128  # of a signal
BLOCK = (16, 32, 64)
"""Samples of one."""
ITEMS = (1, 2, 4, 8, 16, 32)
FEWEST_SIGNALS = 4
"""Below, most of the columns of a product are empty, and the taps' spectrum is read for few."""
FEWEST_TAPS = 128
LEAST_ERROR = 1e-3
"""Numbers are rounded to half precision five times on their way. Errors were 5.7e-4 of the largest
output at most, measured on every 16th of 64 signals of 768 channels of 8192 samples, and 8e-4 of
one channel, simulated."""
TAPS_THREADS, TAPS_RESIDENT = 256, 3
TAPS_WORDS = {block: 2 * BLOCKS * block + 2 * TAPS_THREADS // 32 for block in BLOCK}
"""Of the launch that transforms the taps: threads of a block, blocks of a unit at the same time,
words of shared memory."""
MAX_WORKSPACE = 2**33  # bytes, as all tensors of a workload


class CudaSignalsFourier(Template[Conv1dWorkload]):
    """Signals of 128 blocks of samples, transformed by blocks, meet one matrix of the taps'
    spectrum for each frequency (``schedules/signals_fourier.cu``); one launch makes those
    spectra. Threads keep 256 / ``block`` signals in shared memory at a time, ``items`` times."""

    name = "signals_fourier"
    kind = "cuda"
    version = 2
    arithmetic = FFT_IN_HALVES

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """In 16 bits, for kernels of one input channel each, at stride 1, channels first, if
        the first output meets one tap and there are at most 8192, on compute capability 9.0: if
        outputs of the full convolution are left out before, those may be the large ones, to which
        the others' errors are relative."""
        return (
            super().applies(workload, limits)
            and limits.arch == "sm_90"
            and workload.dtype != "float32"
            and is_served(workload)
            and workload.B >= FEWEST_SIGNALS
            and workload.N >= FEWEST_TAPS
            and workload.error_of_sums(workload.N) >= LEAST_ERROR
            and workload.left == workload.N - 1
            and bool(_blocks(workload))
            and 4 * shared_words({}) <= limits.shared_memory
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("block", _blocks(workload))
        space.knob("items", _items(workload, limits))
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "no more items than there are",
            lambda c: c["items"] == 1 or c["items"] <= items(workload, c),
            reads=("block", "items"),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        block = _blocks(workload)[0]
        each = ceil_div(items(workload, {"block": block}), limits.units)
        return {"template": self.name, "block": block, "items": each, "stores": "cached"}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
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


def items(workload: Conv1dWorkload, config: Config) -> int:
    return workload.out_channels * ceil_div(workload.B, 256 // config["block"])


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return ceil_div(items(workload, config), config["items"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """32-bit words: of a channel its spectra, the sums of its first taps, an exponent; a table."""
    channels = workload.out_channels
    of_channels = 5 * BLOCKS * config["block"] * channels + 4 * ceil_div(channels, 4)
    return int(of_channels + BLOCKS * BLOCKS + 2 * THREADS)


def shared_words(config: Config) -> int:
    """Of samples, spectra and tables, at a multiple of 1024 bytes, and numbers of signals."""
    return int((1024 + 12 * BLOCKS * 128 + 2 * 64 * BLOCKS * 2) // 4 + 2 * 16 * 4 + 3 * 16)


def _items(workload: Conv1dWorkload, limits: DeviceLimits) -> list[int]:
    """With those that give each unit one block of threads."""
    once = {
        ceil_div(items(workload, {"block": block}), limits.units) for block in _blocks(workload)
    }
    return sorted(once.union(ITEMS))


def _blocks(workload: Conv1dWorkload) -> list[int]:
    return [
        block
        for block in BLOCK
        if workload.length <= BLOCKS * block
        and 4 * workspace(workload, {"block": block}) < MAX_WORKSPACE
    ]
