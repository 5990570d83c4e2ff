"""CudaGated: the search space of convolutions with gates, channels last, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div, excess
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 16  # in registers
MAX_UNROLLED = 2048  # multiply-adds
MAX_REGISTERS = 232  # as estimated
BESIDE = 28  # registers for addresses and the like


class CudaGated(Template[Conv1dWorkload]):
    """Direct sum of a signal with gates, channels last (``schedules/gated.cu``).

    Memory limits its speed: the signal is multiplied by its gates while it is read, and the outputs
    by theirs before the only store. A thread computes ``rows`` neighbouring outputs of ``channels``
    neighbouring channels. With ``reads`` "strip", the thread has all taps in registers and reads
    each row of input once. With "taps", which serves any kernel, it reads the rows that each tap
    meets. Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "gated"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT
    takes_gates = True

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("reads", _reads(workload))
        space.knob("channels", vector_lengths(workload.dtype, workload.C))
        space.knob("rows", [r for r in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if r <= workload.M])
        space.knob("threads", [t for t in (64, 128, 256, 512) if t <= limits.threads_per_block])
        space.knob("resident", [1, 2, 3, 4, 5, 6, 8, 10, 12, 16])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "the strips together are less than a quarter longer than the signal",
            lambda c: excess(workload.M, c["rows"]) < 1.25,
            reads=("rows",),
        )
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled",
            lambda c: _unrolled(workload, c) <= MAX_UNROLLED,
            reads=("rows",),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: _registers(workload, c) <= min(MAX_REGISTERS, registers_each(c, limits)),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        config: Config = {
            "template": self.name,
            "reads": _reads(workload)[0],
            "channels": vector_lengths(workload.dtype, workload.C)[-1],
            "rows": 1,
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }
        space = self.space(workload, limits)
        longer = [config | {"rows": rows} for rows in (4, 2)]
        return next((each for each in longer if each in space), config)

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, rows, channels = config["threads"], config["rows"], config["channels"]
        registers = _registers(workload, config)
        read = rows + workload.N - 1 if config["reads"] == "strip" else rows * workload.N
        vector = channels * BYTES_PER_ELEMENT[workload.dtype]
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "outputs_per_thread": rows * channels,
            "work_per_thread": rows * channels * workload.N,
            "fetched_bytes": (2 * read + rows) * vector,
            "vector_bytes": vector,
            "reads_per_output": read / rows,
            "padded_share": excess(workload.M, rows),
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the blocks of the grid."""
    strips = ceil_div(workload.M, config["rows"])
    work = workload.B * strips * (workload.C // config["channels"])
    return ceil_div(work, config["threads"])


def _reads(workload: Conv1dWorkload) -> list[str]:
    few = workload.N <= MAX_TAPS and workload.dilation == 1
    return ["strip", "taps"] if few else ["taps"]


def _unrolled(workload: Conv1dWorkload, config: Config) -> int:
    """Return the multiply-adds in the code."""
    taps = workload.N if config["reads"] == "strip" else 1
    return int(config["rows"] * config["channels"] * taps)


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return the estimated registers: taps, sums, three vectors of input, bias and addresses."""
    channels, rows = config["channels"], config["rows"]
    is_strip = config["reads"] == "strip"
    taps = workload.N if is_strip else 1
    sums = min(rows, workload.N) if is_strip else 2 * rows
    return int((taps + sums + 3 + workload.bias) * channels + BESIDE)
