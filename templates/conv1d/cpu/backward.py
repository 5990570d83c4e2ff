"""The space of all gradients at once on a CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Template

MAX_TAPS = 64
MAX_STAGED = 2**20  # floats
MAX_TASKS = 256  # if a channel has more than one
VECTOR = 16  # lanes of a usual vector
ROUND = 16  # places of a tile are a multiple of it


class CpuBackward(Template[Conv1dWorkload]):
    """A task has one of ``parts`` of the tiles, of ``places`` samples, of all signals, and of one
    channel or, if channels are last, of ``lanes``. It stages what the tile's taps meet as float32
    with zeros beside it, makes the sums again, multiplies the output's gradient by the activation's
    derivative there, and has the gradients of weight, bias and input from that, in vectors of
    ``lanes`` places or channels. Sums of at most 512 products are added up first, those of 32
    tiles next, and those of the parts last, in a fixed order."""

    name = "backward"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On a CPU, for all gradients at once, of at most 64 taps within 2^16 samples."""
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
                staged(workload, c) <= MAX_STAGED
                or (c["places"], c["lanes"])
                == (_place_counts(workload)[0], lane_counts(workload)[0])
            ),
            reads=("lanes", "places"),
        )
        space.constraint(
            f"several parts only for threads, of tiles that there are, for {MAX_TASKS} tasks",
            lambda c: (
                c["parts"] == 1
                or (
                    c["threading"] == PARALLEL
                    and c["parts"] <= items(workload, c)
                    and c["parts"] * blocks(workload, c) <= MAX_TASKS
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
        if staged(workload, config) > MAX_STAGED:
            config["lanes"] = lane_counts(workload)[0]
        return config

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        tasks = blocks(workload, config) * config["parts"]
        used = min(tasks, limits.units) if config["threading"] == PARALLEL else 1
        reach = Frame.of(workload).reach
        return {
            "tasks": tasks,
            "threads": used,
            "waves": ceil_div(tasks, used),
            "work_per_task": items(workload, config) * config["places"] / config["parts"],
            "tile_bytes": 4 * staged(workload, config),
            "staged_share": (config["places"] + reach) / config["places"],
            "filled": Frame.of(workload).extent
            / (Frame.of(workload).tiles(config["places"]) * config["places"]),
        }


def is_last(workload: Conv1dWorkload) -> bool:
    """Whether vectors are of channels; else of neighbouring places."""
    return workload.layout == "NWC"


def lane_counts(workload: Conv1dWorkload) -> list[int]:
    if not is_last(workload):
        return [4, 8, VECTOR]
    return [n for n in (1, 2, 4, 8, VECTOR, 32) if n <= workload.C]


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    """Channels, or vectors of them."""
    return ceil_div(workload.C, config["lanes"]) if is_last(workload) else workload.C


def items(workload: Conv1dWorkload, config: Config) -> int:
    """Tiles of a channel, in all signals."""
    return workload.B * Frame.of(workload).tiles(config["places"])


def places_of_sums(workload: Conv1dWorkload, config: Config) -> int:
    """Whole vectors of a tile's outputs, and of those behind it that its samples reach."""
    whole = 1 if is_last(workload) else int(config["lanes"])
    return ceil_div(config["places"] + Frame.of(workload).reach, whole) * whole


def staged(workload: Conv1dWorkload, config: Config) -> int:
    """Floats of a task: samples, the sums' gradients, the input's."""
    each = config["lanes"] if is_last(workload) else 1
    outputs = places_of_sums(workload, config)
    return int((2 * outputs + Frame.of(workload).reach + config["places"]) * each)


def _place_counts(workload: Conv1dWorkload) -> list[int]:
    """Up to all, or of vectors of channels as many as one sum may have."""
    whole = ceil_div(Frame.of(workload).extent, ROUND) * ROUND
    counts = (64, 256, 512) if is_last(workload) else (512, 1024, 4096)
    return sorted({min(count, whole) for count in counts})
