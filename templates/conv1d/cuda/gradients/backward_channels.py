"""CudaBackwardChannels: the search space of all gradients in one program, channels last, on
CUDA."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.occupancy import bounded_occupancy, registers_each
from templates.kernels.vectors import vector_lengths
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

OTHER_REGISTERS = 30  # registers for addresses and so on
MAX_REGISTERS = 232  # as estimated
USUAL_REGISTERS = 128
MAX_UNROLLED = 2400  # multiply-adds of a turn
PLACES = (32, 64, 128, 256, 512, 1024, 2048)


class CudaBackwardChannels(Template[Conv1dWorkload]):
    """All gradients of channels apart, channels last, in one pass over each signal.

    A thread has ``channels`` neighbouring channels and goes through about ``places`` places of a
    signal, that is, samples and their outputs (see ``Frame``). It works in turns of ``rings`` times
    the span of the taps, and reads the places of a turn during the turn before. It computes the
    sums again from the samples that it holds, and adds up the gradients of weight and bias in
    registers. If a channel has several threads, a second launch adds up their results. Registers
    are limited so that ``resident`` blocks fit on a unit.
    """

    name = "backward_channels"
    kind = "cuda"
    version = 2
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is direction backward, channels last, on CUDA, and a thread
        can hold the window of the taps."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward"
            and workload.layout == "NWC"
            and _fits_registers(workload, {"channels": 1, "rings": 1})
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
            lambda c: _fits_registers(workload, c),
            reads=("channels", "rings"),
        )
        space.constraint(
            "a thread has fewer than twice a signal's places, or the fewest",
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
        """Return the configuration with the fewest parts that give each unit sixteen warps."""
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
            if is_usual and _fits_registers(workload, changed):
                config = changed
        for more in PLACES[1:]:
            longer = config | {"places": more}
            fits = places(workload, longer) < 2 * Frame.of(workload).extent
            if fits and blocks(workload, longer) * 4 >= 16 * limits.units:
                config = longer
        return config

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        threads, registers = config["threads"], _registers(workload, config)
        size, own = BYTES_PER_ELEMENT[workload.dtype], places(workload, config)
        frame = Frame.of(workload)
        return {
            **bounded_occupancy(config, blocks(workload, config), threads, registers, limits),
            "vector_bytes": config["channels"] * size,
            "fetched_bytes": 2 * places_per_turn(workload, config) * config["channels"] * size,
            "steps": min(own, frame.extent),
            "parts": parts_of_channel(workload, config),
            "reads_per_place": (own + 1.5 * frame.reach) / own,
            "filled": frame.extent / (parts(workload, config) * own),
            "streaming": config["stores"] == "streaming",
            "workspace": workspace(workload, config),
        }


def places_per_turn(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of places from a read to its use."""
    return int(workload.span * config["rings"])


def places(workload: Conv1dWorkload, config: Config) -> int:
    """Return the places of a thread: those of the knob, rounded up to whole turns."""
    whole = places_per_turn(workload, config)
    return ceil_div(config["places"], whole) * whole


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of a signal. Each part has one thread."""
    return Frame.of(workload).tiles(places(workload, config))


def parts_of_channel(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of a channel in all signals."""
    return workload.B * parts(workload, config)


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    vectors = workload.C // config["channels"]
    return ceil_div(vectors * parts_of_channel(workload, config), config["threads"])


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the floats of the workspace, 0 if a channel has one part."""
    several = parts_of_channel(workload, config)
    return several * workload.C * (workload.N + workload.bias) if several > 1 else 0


def _fits_registers(workload: Conv1dWorkload, config: Config) -> bool:
    unrolled = places_per_turn(workload, config) * config["channels"] * 3 * workload.N
    return unrolled <= MAX_UNROLLED and _registers(workload, config) <= MAX_REGISTERS


def _registers(workload: Conv1dWorkload, config: Config) -> int:
    """Return an estimate of a thread's registers: samples and sums' gradients of a window, taps and
    their sums, elements read ahead, and addresses."""
    channels = config["channels"]
    words = ceil_div(channels * BYTES_PER_ELEMENT[workload.dtype], 4)
    each = 2 * workload.span + 2 * workload.N + 2 * workload.bias
    return int(each * channels + 2 * places_per_turn(workload, config) * words + OTHER_REGISTERS)
