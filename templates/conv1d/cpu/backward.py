"""CpuBackward: the search space of all gradients in one program on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_TAPS = 64
MAX_STAGED = 2**20  # floats of a task
MAX_TASKS = 256  # if channels are divided into parts
VECTOR = 16  # lanes of a usual vector
ROUND = 16  # a tile's number of places is a multiple of it


class CpuBackward(Template[Conv1dWorkload]):
    """All gradients in one pass over tiles of ``places`` samples (see ``Frame``).

    A task has one channel, or ``lanes`` of them in layout NWC, and one of ``parts`` equal shares of
    its tiles in all signals. For each tile it stages the samples that the taps meet as float32,
    with zeros for the padding. It computes the sums again, and multiplies the output's gradient by
    the activation's derivative at these sums. From the product it computes the gradients of weight,
    bias and input, in vectors of ``lanes`` places or channels.

    The gradients of weight and bias are summed in a fixed order: first up to 512 products, then
    32 tiles, then all tiles of a part, then the parts.
    """

    name = "backward"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is direction backward, with at most 64 taps that span at most
        2^16 samples, on a CPU."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward"
            and workload.N <= MAX_TAPS
            and workload.span <= 2**16
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", lane_counts(workload))
        space.knob("places", _place_counts(workload))
        space.knob("threading", ["serial", PARALLEL])
        space.knob("parts", [1, 2, 4, 8, 16, 64])
        space.constraint(
            f"a task stages at most {MAX_STAGED} floats, or is as small as it can be",
            lambda c: (
                staged_floats(workload, c) <= MAX_STAGED
                or (c["places"], c["lanes"])
                == (_place_counts(workload)[0], lane_counts(workload)[0])
            ),
            reads=("lanes", "places"),
        )
        space.constraint(
            "several parts only if threading is parallel, no more parts than a channel has tiles, "
            f"and at most {MAX_TASKS} tasks",
            lambda c: (
                c["parts"] == 1
                or (
                    c["threading"] == PARALLEL
                    and c["parts"] <= tiles_of_channel(workload, c)
                    and c["parts"] * channel_blocks(workload, c) <= MAX_TASKS
                )
            ),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        most = max(4, min(VECTOR, limits.vector_bytes // 4))
        config: Config = {
            "template": self.name,
            "lanes": max(n for n in lane_counts(workload) if n <= most),
            "places": _place_counts(workload)[0],
            "threading": "serial",
            "parts": 1,
        }
        if staged_floats(workload, config) > MAX_STAGED:
            config["lanes"] = lane_counts(workload)[0]
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        tasks = channel_blocks(workload, config) * config["parts"]
        reach = Frame.of(workload).reach
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": tiles_of_channel(workload, config)
            * config["places"]
            / config["parts"],
            "tile_bytes": 4 * staged_floats(workload, config),
            "staged_share": (config["places"] + reach) / config["places"],
            "filled": Frame.of(workload).extent
            / (Frame.of(workload).tiles(config["places"]) * config["places"]),
        }


def is_channels_last(workload: Conv1dWorkload) -> bool:
    """Return whether channels are last. Vectors are then of channels, otherwise of places."""
    return workload.layout == "NWC"


def lane_counts(workload: Conv1dWorkload) -> list[int]:
    if not is_channels_last(workload):
        return [4, 8, VECTOR]
    return [n for n in (1, 2, 4, 8, VECTOR, 32) if n <= workload.C]


def channel_blocks(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of channels, or of vectors of channels if channels are last."""
    return ceil_div(workload.C, config["lanes"]) if is_channels_last(workload) else workload.C


def tiles_of_channel(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of tiles of a channel in all signals."""
    return workload.B * Frame.of(workload).tiles(config["places"])


def places_of_sums(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of places for which a tile computes sums, rounded up to whole vectors. They
    are its own places, and those behind it on which the gradients of its samples depend."""
    whole = 1 if is_channels_last(workload) else int(config["lanes"])
    return ceil_div(config["places"] + Frame.of(workload).reach, whole) * whole


def staged_floats(workload: Conv1dWorkload, config: Config) -> int:
    """Return the floats that a task stages: samples, gradients of sums and of the input."""
    each = config["lanes"] if is_channels_last(workload) else 1
    outputs = places_of_sums(workload, config)
    return int((2 * outputs + Frame.of(workload).reach + config["places"]) * each)


def _place_counts(workload: Conv1dWorkload) -> list[int]:
    """Return the tile sizes of the space, in places. No tile is larger than one tile for all
    places. If channels are last, a tile has at most 512 places, whose products are added up in one
    float32 sum."""
    whole = ceil_div(Frame.of(workload).extent, ROUND) * ROUND
    counts = (64, 256, 512) if is_channels_last(workload) else (512, 1024, 4096)
    return sorted({min(count, whole) for count in counts})
