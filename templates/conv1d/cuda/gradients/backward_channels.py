"""The space of all gradients of signals apart at once, channels last, on CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import occupancy, registers_each, resident_blocks
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

BESIDE = 30  # registers for addresses and the like
MAX_REGISTERS = 232  # as estimated
USUAL_REGISTERS = 128
MAX_UNROLLED = 2400  # multiply-adds of a turn
PLACES = (32, 64, 128, 256, 512, 1024, 2048)


class CudaBackwardChannels(Template[Conv1dWorkload]):
    """A thread has ``channels`` neighbours and goes through about ``places`` samples of a signal
    and their outputs, of which it reads those of ``rings`` windows of taps before it uses them. It
    makes the sums again from the samples that it holds, and takes the gradients of weight and bias
    along in registers. What several threads of a channel leave a second launch adds up;
    ``resident`` blocks at least have room on a unit."""

    name = "backward_channels"
    kind = "cuda"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On CUDA, for all gradients at once, channels last, of taps whose window a thread can
        hold."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward"
            and workload.layout == "NWC"
            and _is_held(workload, {"channels": 1, "rings": 1})
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("channels", vector_lengths(workload.dtype, workload.C))
        space.knob("rings", [1, 2, 4, 8])
        space.knob("places", list(PLACES))
        space.knob("threads", [64, 128, 256])
        space.knob("resident", [1, 2, 3, 4, 6, 8])
        space.knob("stores", ["cached", "streaming"])
        space.constraint(
            f"at most {MAX_UNROLLED} multiply-adds unrolled and {MAX_REGISTERS} registers",
            lambda c: _is_held(workload, c),
            reads=("channels", "rings"),
        )
        space.constraint(
            "no more places than a signal has, or the fewest",
            lambda c: (
                c["places"] == PLACES[0] or places(workload, c) < 2 * Frame.of(workload).extent
            ),
            reads=("rings", "places"),
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
            "channels": 1,
            "rings": 1,
            "places": PLACES[0],
            "threads": 128,
            "resident": 1,
            "stores": "cached",
        }
        pairs = [{"channels": 2}] if workload.C % 2 == 0 else []
        for change in (*pairs, {"rings": 2}):
            changed = config | change
            is_usual = _registers(workload, changed) <= USUAL_REGISTERS
            if is_usual and _is_held(workload, changed):
                config = changed
        for more in PLACES[1:]:
            longer = config | {"places": more}
            fits = places(workload, longer) < 2 * Frame.of(workload).extent
            if fits and blocks(workload, longer) * 4 >= 16 * limits.units:
                config = longer
        return config

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        threads, registers = config["threads"], _registers(workload, config)
        resident = resident_blocks(threads, registers, limits)
        size, own = BYTES_PER_ELEMENT[workload.dtype], places(workload, config)
        frame = Frame.of(workload)
        return {
            **occupancy(blocks(workload, config), threads, resident, limits),
            "shared_bytes": 0,
            "least_resident_threads": config["resident"] * threads,
            "registers": registers,
            "vector_bytes": config["channels"] * size,
            "fetched_bytes": 2 * turn(workload, config) * config["channels"] * size,
            "steps": min(own, frame.extent),
            "parts": count(workload, config),
            "reads_per_place": (own + 1.5 * frame.reach) / own,
            "filled": frame.extent / (parts(workload, config) * own),
            "streaming": config["stores"] == "streaming",
            "workspace": workspace(workload, config),
        }


def turn(workload: Conv1dWorkload, config: Config) -> int:
    """Places between a read and its use."""
    return int(workload.span * config["rings"])


def places(workload: Conv1dWorkload, config: Config) -> int:
    """Of a thread: whole turns."""
    whole = turn(workload, config)
    return ceil_div(config["places"], whole) * whole


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Of a signal."""
    return Frame.of(workload).tiles(places(workload, config))


def count(workload: Conv1dWorkload, config: Config) -> int:
    """Parts of a channel."""
    return workload.B * parts(workload, config)


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    vectors = workload.C // config["channels"]
    return ceil_div(vectors * count(workload, config), config["threads"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Floats; none if a channel has one part."""
    several = count(workload, config)
    return several * workload.C * (workload.N + workload.bias) if several > 1 else 0


def _is_held(workload: Conv1dWorkload, config: Config) -> bool:
    unrolled = turn(workload, config) * config["channels"] * 3 * workload.N
    return unrolled <= MAX_UNROLLED and _registers(workload, config) <= MAX_REGISTERS


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Estimated: samples and sums' gradients of a window, taps and their sums, what is read ahead,
    addresses."""
    channels = config["channels"]
    words = ceil_div(channels * BYTES_PER_ELEMENT[workload.dtype], 4)
    each = 2 * workload.span + 2 * workload.N + 2 * workload.bias
    return int(each * channels + 2 * turn(workload, config) * words + BESIDE)
