"""CpuSignals: the search space of direct sums of several signals or channels on a CPU."""

from __future__ import annotations

import math

from templates.arithmetic import DIRECT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 32
MAX_UNROLLED = 256
USUAL_STAGED_BYTES = 2**22
MAX_STAGED_BYTES = 2**24
WIDEST = 16  # lanes
MAX_CHUNK = 512
"""Most products that are added up in one float32 sum. More products need several such sums."""


class CpuSignals(Template[Conv1dWorkload]):
    """Direct sum for every forward workload that is not ``is_basic``.

    A tile is ``vectors`` vector registers of ``lanes`` outputs by ``filters`` output channels of
    the same input. Its sums stay in registers. ``inner`` names the inner one of a task's two loops
    over tiles.

    A task stages the samples that its ``tiles_per_task`` tiles need, with zeros for the padding. If
    the stride is not 1, samples are grouped by their remainder modulo the stride, so that
    neighbouring outputs read neighbouring samples. Samples are read from the input itself if even a
    single vector needs too many to stage. Except at a signal's ends, samples are also read from the
    input itself if it has them in the form in which they would be staged.
    """

    name = "signals"
    kind = "cpu"
    version = 4
    arithmetic = DIRECT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        return super().applies(workload, limits) and not workload.is_basic

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", _lanes(workload, (4, 8, WIDEST)))
        space.knob("vectors", [1, 2, 3, 4, 6, 8])
        space.knob("filters", [f for f in (1, 2, 3, 4, 6, 8) if f <= workload.multiplier])
        space.knob("tiles_per_task", [1, 4, 16, 64, 256])
        space.knob("inner", ["outputs", "filters"] if workload.multiplier > 1 else ["outputs"])
        space.knob("unroll", ["none", "taps"])
        space.knob("threading", ["serial", PARALLEL])
        length = workload.length
        space.constraint(
            "several vectors have no more outputs than a row",
            lambda c: c["vectors"] == 1 or c["lanes"] * c["vectors"] <= length,
        )
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums", lambda c: c["vectors"] * c["filters"] <= MAX_SUMS
        )
        space.constraint(
            f"at most {MAX_UNROLLED} vector multiply-adds unrolled",
            lambda c: (
                c["unroll"] == "none"
                or c["vectors"] * c["filters"] * min(workload.N, MAX_CHUNK) <= MAX_UNROLLED
            ),
        )
        space.constraint(
            "a task has fewer than twice the outputs of a row, or is one tile",
            lambda c: outputs_per_task(c) < 2 * length or c["tiles_per_task"] == 1,
        )
        space.constraint(
            f"a task stages at most {USUAL_STAGED_BYTES} bytes, or is as small as it can be",
            lambda c: (
                4 * staged_samples(workload, outputs_per_task(c)) <= USUAL_STAGED_BYTES
                or (c["vectors"], c["tiles_per_task"]) == (1, 1)
            ),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return {
            "template": self.name,
            "lanes": _lanes(workload, (max(4, min(16, limits.vector_bytes // 4)),))[-1],
            "vectors": 1,
            "filters": min(4, workload.multiplier),
            "tiles_per_task": 1,
            "inner": "outputs",
            "unroll": "none",
            "threading": "serial",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        outputs, sums = outputs_per_task(config), config["vectors"] * config["filters"]
        inputs = workload.B * workload.C // workload.summed
        tasks = inputs * ceil_div(workload.length, outputs)
        filters = ceil_div(workload.multiplier, config["filters"]) * config["filters"]
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": outputs * filters * workload.taps,
            "registers": sums * config["lanes"] * 4 / limits.vector_bytes,
            "loads_per_fma": (config["vectors"] + config["filters"]) / sums,
            "unrolled": sums * (workload.N if config["unroll"] == "taps" else 1),
            "tile_bytes": (
                4 * staged_samples(workload, outputs)
                if can_be_staged(workload) and not has_staged_layout(workload)
                else 0
            ),
            "weight_bytes": 4 * filters * workload.taps,
            "filters_inside": config["inner"] == "filters",
            "padded_share": inputs
            * filters
            * ceil_div(workload.length, outputs)
            * outputs
            / (workload.B * workload.out_channels * workload.length),
        }


def outputs_per_task(config: Config) -> int:
    """Return how many outputs of a channel a task computes."""
    return int(config["lanes"] * config["vectors"] * config["tiles_per_task"])


def remainders(workload: Conv1dWorkload) -> int:
    """Return how many different remainders t * dilation has modulo the stride, over all taps t.

    Tap t belongs to the remainder with the number t modulo the returned count.
    """
    return min(workload.N, workload.stride // math.gcd(workload.stride, workload.dilation))


def pitch(workload: Conv1dWorkload, outputs: int) -> int:
    """Return how many samples of one remainder a task of ``outputs`` outputs needs."""
    return outputs + (workload.N - 1) * workload.dilation // workload.stride


def staged_samples(workload: Conv1dWorkload, outputs: int) -> int:
    """Return how many samples a task of ``outputs`` outputs stages."""
    return workload.summed * remainders(workload) * pitch(workload, outputs)


def can_be_staged(workload: Conv1dWorkload) -> bool:
    """Return whether the samples that one vector needs are few enough to stage."""
    return 4 * staged_samples(workload, WIDEST) <= MAX_STAGED_BYTES


def has_staged_layout(workload: Conv1dWorkload) -> bool:
    """Return whether the input has samples in the order and the dtype in which they would be
    staged: float32, layout NCW, stride 1, channels apart."""
    as_it_is = workload.dtype == "float32" and workload.layout == "NCW"
    return as_it_is and workload.stride == workload.summed == 1


def _lanes(workload: Conv1dWorkload, usual: tuple[int, ...]) -> list[int]:
    """Return the ``usual`` lane counts up to the number of outputs. If there are none, return the
    largest power of two up to that number."""
    return [n for n in usual if n <= workload.length] or [1 << (workload.length.bit_length() - 1)]
