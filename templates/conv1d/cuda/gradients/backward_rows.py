"""The space of all gradients of signals apart at once, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import occupancy, registers_each, resident_blocks
from templates.kernels.vectors import longest_vector
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

LANES = 32
BESIDE = 14  # registers for addresses and the like, of a program bounded to few
STEPS = (4, 8, 16, 32, 64, 128)
FEW_PARTS = 64  # that a thread adds up by itself


class CudaBackwardRows(Template[Conv1dWorkload]):
    """A warp goes through ``steps`` tiles of a row; a lane has ``vector`` neighbouring samples of
    each and their outputs, which it reads ``ahead`` tiles before it uses them. It makes the sums
    again from what its neighbours and it have read, and takes the gradients of weight and bias
    along in registers. What several warps of a channel leave
    a second launch adds up; ``resident`` blocks at least have room on a unit."""

    name = "backward_rows"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On CUDA, for all gradients at once, channels first, of taps within as many samples as a
        lane may have."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward"
            and workload.layout == "NCW"
            and bool(_vectors(workload))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("vector", _vectors(workload))
        space.knob("steps", list(STEPS))
        space.knob("ahead", [1, 2, 3])
        space.knob("threads", [64, 128, 256])
        space.knob("resident", [1, 2, 4, 6, 8])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            "no more steps than a row has tiles, or the fewest",
            lambda c: c["steps"] == STEPS[0] or c["steps"] < 2 * tiles(workload, c),
            reads=("vector", "steps"),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: c["resident"] == 1 or _registers(workload, c) <= registers_each(c, limits),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        """With as few parts as leave each unit sixteen warps."""
        config: Config = {
            "template": self.name,
            "vector": _vectors(workload)[0],
            "steps": STEPS[0],
            "ahead": 1,
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }
        for steps in STEPS[1:]:
            longer = config | {"steps": steps}
            fits = steps < 2 * tiles(workload, longer)
            if fits and blocks(workload, longer) * 4 >= 16 * limits.units:
                config = longer
        return config

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        threads, registers = config["threads"], _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        size = BYTES_PER_ELEMENT[workload.dtype]
        covered = tiles(workload, config) * LANES * config["vector"]
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 0,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "vector_bytes": config["vector"] * size,
            "fetched_bytes": 2 * config["ahead"] * config["vector"] * size,
            "steps": min(config["steps"], tiles(workload, config)),
            "parts": count(workload, config),
            "filled": Frame.of(workload).extent / covered,
            "streaming": config["stores"] == "streaming",
            "workspace": workspace(workload, config),
        }


def tiles(workload: Conv1dWorkload, config: Config) -> int:
    """Of a row."""
    return Frame.of(workload).tiles(LANES * config["vector"])


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Of a row."""
    return ceil_div(tiles(workload, config), config["steps"])


def count(workload: Conv1dWorkload, config: Config) -> int:
    """Parts of a channel."""
    return workload.B * parts(workload, config)


def together(workload: Conv1dWorkload, config: Config) -> int:
    """Threads that add up the parts of a sum."""
    return LANES if count(workload, config) > FEW_PARTS else 1


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return ceil_div(workload.C * count(workload, config) * LANES, config["threads"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Floats; none if a channel has one part."""
    several = count(workload, config)
    return several * workload.C * (workload.N + workload.bias) if several > 1 else 0


def _vectors(workload: Conv1dWorkload) -> list[int]:
    """Whole loads that reach as far as the taps."""
    one = longest_vector(workload.dtype)
    return [n for n in (one, 2 * one) if n >= workload.span - 1]


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Estimated: a lane's samples and sums' gradients, what is read for this step and the next,
    taps and their sums, addresses."""
    vector, reach = config["vector"], workload.span - 1
    words = ceil_div(vector * BYTES_PER_ELEMENT[workload.dtype], 4)
    on_their_way = 2 * (config["ahead"] + 1) * words
    return int(2 * (vector + reach) + reach + on_their_way + 2 * workload.N + BESIDE)
