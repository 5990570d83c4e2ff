"""CudaInputRows: the search space of the input's gradient of channels apart, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.as_image import has_image
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

MAX_TAPS = 32  # if a thread has a vector of samples
OTHER_REGISTERS = 28  # registers for addresses and so on


class CudaInputRows(Template[Conv1dWorkload]):
    """The input's gradient of channels apart, for workloads that no forward template can compute:
    with a stride, several kernels for a channel, or an activation.

    A thread computes the gradients of ``vector`` neighbouring samples, from all outputs that meet
    them. Registers are limited so that ``resident`` blocks fit on a unit.
    """

    name = "input_rows"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the input's gradient of channels apart on CUDA, and has no
        ``as_forward``. With channels last, kernel or stride must be beyond the limits of depthwise
        convolution, because its template serves the other workloads."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_input"
            and workload.as_forward is None
            and not workload.is_dense
            and (workload.layout == "NCW" or not has_image(workload))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("vector", _vectors(workload))
        space.knob("threads", [64, 128, 256, 512])
        space.knob("resident", [1, 2, 4, 8])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: c["resident"] == 1 or _registers(workload, c) <= registers_each(c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "vector": _vectors(workload)[-1],
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        vector = config["vector"]
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "vector_bytes": vector * BYTES_PER_ELEMENT[workload.dtype],
            "reads_per_sample": (vector + workload.N - 1) / vector * workload.multiplier,
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    vectors = workload.B * workload.C * ceil_div(workload.M, config["vector"])
    return ceil_div(vectors, config["threads"])


def _vectors(workload: Conv1dWorkload) -> list[int]:
    """Return the values of ``vector``: lengths that divide the rows of input and output. The only
    value is 1 if neighbouring samples do not meet neighbouring outputs."""
    near = (workload.stride, workload.dilation) == (1, 1) and workload.N <= MAX_TAPS
    together = near and workload.layout == "NCW"
    return vector_lengths(workload.dtype, workload.M, workload.length) if together else [1]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: sums, the gradients read and addresses."""
    vector = config["vector"]
    return int(vector + (vector + workload.N - 1 if vector > 1 else 2) + OTHER_REGISTERS)
