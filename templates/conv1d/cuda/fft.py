"""CudaFft: the search space of overlap-save convolution by Fourier transforms on CUDA."""

from __future__ import annotations

from templates.arithmetic import FFT
from templates.ceil_div import ceil_div
from templates.conv1d.roles import roles
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import BYTES_PER_ELEMENT
from templates.kernels.launches.next_launch import begins_next, held_kib, held_words
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

FEWEST_TAPS = 48
"""With fewer taps, other templates are faster."""
LEAST_ERROR = 5e-6
"""Transforms are used only if at least this error is allowed. Their measured error is 1.3e-6 of the
largest output on normally distributed input, and 2.5e-6 on an impulse."""
SECTOR_BYTES = 32  # a GPU's memory is written in units of so many bytes
ROW = 272  # places for a row of 256 complex values in shared memory
POINTS = (512, 1024, 2048, 3072, 4096, 5120, 6144, 8192)
SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
TEAMS = (1, 2, 3, 4)
OTHER_REGISTERS = 40  # registers for roots, addresses and what a transform has in flight
MAX_RESIDENT = 1024  # threads of the ``resident`` blocks of a unit, and of a block


class CudaFft(Template[Conv1dWorkload]):
    """Overlap-save convolution in which a block of threads transforms each segment as a whole.

    Segments of 2 * ``points`` samples overlap by at least the taps. Each is one transform of
    ``points`` complex values (``schedules/fft.cu``). A block transforms a filter, and then
    ``segments`` segments of the signals that the filter meets.

    ``spectrum`` says whether the filter's spectrum is kept in registers, or in a buffer of its own
    in shared memory. With the buffer, a block's threads may form several ``teams``, which transform
    segments at the same time. The first team also transforms the filter. ``samples`` says whether
    this team loads its samples while it transforms the taps ("early"), or after that ("late"),
    which takes fewer registers. Registers are limited so that ``resident`` blocks fit on a unit.

    With ``held_kib``, the launch lets the next one begin
    (``templates/kernels/launches/next_launch.py``).
    """

    name = "fft"
    kind = "cuda"
    version = 7
    arithmetic = FFT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload :func:`has_contiguous_rows`, has at least 48 taps and allows
        the error of transforms. The kernel, or a single signal that is shorter, must be no longer
        than three quarters of the longest segment."""
        return (
            super().applies(workload, limits)
            and has_contiguous_rows(workload)
            and workload.N >= FEWEST_TAPS
            and workload.error_of_sums(workload.N) >= LEAST_ERROR
            and bool(_points(workload, limits))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("points", _points(workload, limits))
        space.knob("segments", SEGMENTS)
        space.knob("spectrum", ["registers", "shared"])
        space.knob("teams", TEAMS, when={"spectrum": ["shared"]})
        space.knob("samples", ["late", "early"])
        space.knob("resident", [1, 2, 3, 4, 6, 8, 12, 16])
        space.knob("held_kib", held_kib(limits))
        space.constraint(
            "a block has no more segments than its filter meets",
            lambda c: c["segments"] == 1 or c["segments"] <= segments_of_filter(workload, c),
            reads=("points", "segments"),
        )
        space.constraint(
            "all teams have equally many segments",
            lambda c: c["segments"] % teams(c) == 0,
            reads=("segments", "teams"),
        )
        space.constraint(
            "the resident blocks fit into shared memory",
            lambda c: c["resident"] * 4 * held_words(c, shared_words(c)) <= limits.shared_memory,
            reads=("points", "teams", "spectrum", "resident", "held_kib"),
        )
        space.constraint(
            f"the resident blocks have at most {MAX_RESIDENT} threads",
            lambda c: c["resident"] * block_threads(c) <= MAX_RESIDENT,
            reads=("points", "teams", "resident"),
        )
        space.constraint(
            "the registers of the resident blocks fit",
            lambda c: _has_fewest_registers(c) or _registers(c) <= _available(c, limits),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        """Return the configuration with the shortest segments of which half are new outputs, and
        with the fewest registers."""
        choices = _points(workload, limits)
        half_new = (p for p in choices if outputs_of_segment(workload, {"points": p}) >= p)
        points = next(half_new, choices[-1])
        return {
            "template": self.name,
            "points": points,
            "segments": 1,
            "spectrum": "registers",
            "samples": "late",
            "resident": 1,
            "held_kib": 0,
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        points, each, size = config["points"], config["segments"], BYTES_PER_ELEMENT[workload.dtype]
        shared, width = 4 * held_words(config, shared_words(config)), block_threads(config)
        registers = min(_registers(config), _available(config, limits))
        resident = min(
            max(1, limits.registers_per_unit // (registers * width)),
            max(1, limits.shared_memory // shared),
            max(1, 2 * MAX_RESIDENT // width),
        )
        count, transforms = blocks(workload, config), 1 + 2 * each
        work = points * (points.bit_length() - 1)
        waves = ceil_div(count, resident * limits.units)
        return {
            **occupancy(count, width, resident, limits),
            "shared_bytes": shared,
            "registers": registers,
            "spilled": max(0, _registers(config) - _available(config, limits)),
            "least_resident_threads": config["resident"] * width,
            "points": points,
            "columns_of_all_threads": ceil_div(256, threads(config)),
            "teams": teams(config),
            "next_begins_early": begins_next(config),
            "transforms": transforms,
            "transforms_in_turn": 1 + 2 * each / teams(config),
            "work_per_block": transforms * work,
            "work_per_unit": ceil_div(count, limits.units) * transforms * work,
            "work_per_wave": waves * transforms * work,
            "read_bytes": size * count * (2 * points * each + roles(workload).taps.extent),
            "padded_share": 2 * points / outputs_of_segment(workload, config),
        }


def has_contiguous_rows(workload: Conv1dWorkload) -> bool:
    """Return whether channels are apart and each row is contiguous, at stride 1 without dilation.

    The templates that transform signals serve no other workloads.
    """
    apart = workload.layout == "NCW" or workload.C == workload.out_channels == 1
    return apart and not workload.is_dense and (workload.stride, workload.dilation) == (1, 1)


def dropped(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of sums at the start of a segment that are not stored.

    The taps wrap around into taps - 1 of them. This number is rounded up to whole sectors of memory
    if a row needs no more segments for that. Each segment's outputs then begin with a sector if the
    row does.
    """
    wrapped = roles(workload).taps.extent - 1
    per_sector = SECTOR_BYTES // BYTES_PER_ELEMENT[workload.dtype]
    rounded, length = ceil_div(wrapped, per_sector) * per_sector, 2 * config["points"]
    needs_more = length <= rounded or (
        ceil_div(workload.length, length - rounded) > ceil_div(workload.length, length - wrapped)
    )
    return int(wrapped if needs_more else rounded)


def outputs_of_segment(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of outputs of a segment."""
    return int(2 * config["points"] - dropped(workload, config))


def segments_of_filter(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of segments that a filter meets, in all its signals."""
    return roles(workload).signals * ceil_div(workload.length, outputs_of_segment(workload, config))


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    per_filter = ceil_div(segments_of_filter(workload, config), config["segments"])
    return roles(workload).kernels * per_filter


def threads(config: Config) -> int:
    """Return the number of threads that transform together: one for each 16 values of the rows, or
    one for each of 256 columns if fewer threads would have unequal numbers of columns."""
    rows = int(config["points"] // 16)
    return 256 if rows < 256 and 256 % rows else rows


def teams(config: Config) -> int:
    """Return the number of teams of a block, which share a spectrum in shared memory."""
    return int(config.get("teams", 1))


def block_threads(config: Config) -> int:
    return teams(config) * threads(config)


def shared_words(config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``fft.cu`` lays them out."""
    buffers = teams(config) + (1 if config["spectrum"] == "shared" else 0)
    return int(buffers * buffer_words(config["points"]))


def buffer_words(points: int) -> int:
    """Return the 32-bit words of the buffer of a transform."""
    return 2 * points // 256 * ROW


def _points(workload: Conv1dWorkload, limits: DeviceLimits) -> list[int]:
    """Return the values of ``points`` for which new outputs are at least a quarter of a segment.
    The last value is the first for which one segment covers a whole row."""
    fitting = [
        p
        for p in POINTS
        if 2 * outputs_of_segment(workload, {"points": p}) >= p
        and 4 * buffer_words(p) <= limits.shared_memory
    ]
    whole = [p for p in fitting if outputs_of_segment(workload, {"points": p}) >= workload.length]
    return [p for p in fitting if not whole or p <= whole[0]]


def _has_fewest_registers(config: Config) -> bool:
    """Return whether the configuration asks for the fewest registers. Such a configuration is
    always valid, so the space is never empty."""
    least = {"segments": 1, "spectrum": "registers", "samples": "late", "resident": 1}
    return all(config[name] == value for name, value in least.items())


def _registers(config: Config) -> int:
    """Return an estimate of a thread's registers: its columns, its part of the spectrum, and
    samples that were loaded early."""
    columns = 2 * config["points"] // 256 * ceil_div(256, threads(config))
    holds = config["spectrum"] == "registers" and config["segments"] > 1
    waiting = columns // 2 if config["samples"] == "early" else 0
    return int(max(columns, 40) + OTHER_REGISTERS + (32 if holds else 0) + waiting)


def _available(config: Config, limits: DeviceLimits) -> int:
    each = limits.registers_per_unit // (block_threads(config) * config["resident"])
    return int(min(255, each // 8 * 8))
