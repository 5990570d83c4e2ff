"""The space of the input's gradient of signals apart, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.column import has_image
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import occupancy, registers_each, resident_blocks
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

MAX_TAPS = 32  # that vectors meet
BESIDE = 28  # registers for addresses and the like


class CudaInputRows(Template[Conv1dWorkload]):
    """A thread sums ``vector`` neighbouring samples, from all outputs that their taps meet;
    ``resident`` blocks at least have room on a unit. It serves what no forward template can:
    strides, several kernels for a channel, and activations."""

    name = "input_rows"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On CUDA, for the gradient of the input of channels apart that is no forward workload,
        channels first, or last if depthwise convolution has no such kernels."""
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

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        threads, registers = config["threads"], _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        vector = config["vector"]
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 0,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "vector_bytes": vector * BYTES_PER_ELEMENT[workload.dtype],
            "reads_per_sample": (vector + workload.N - 1) / vector * workload.multiplier,
            "streaming": config["stores"] == "streaming",
        }


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    vectors = workload.B * workload.C * ceil_div(workload.M, config["vector"])
    return ceil_div(vectors, config["threads"])


def _vectors(workload: Conv1dWorkload) -> list[int]:
    """Samples that lie together at multiples of their size, with what they meet."""
    near = (workload.stride, workload.dilation) == (1, 1) and workload.N <= MAX_TAPS
    together = near and workload.layout == "NCW"
    return vector_lengths(workload.dtype, workload.M, workload.length) if together else [1]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Estimated: sums, what they meet, addresses."""
    vector = config["vector"]
    return int(vector + (vector + workload.N - 1 if vector > 1 else 2) + BESIDE)
