"""CudaPartitions: the search space of uniformly partitioned convolution by Fourier transforms on
CUDA."""

from __future__ import annotations

from templates.arithmetic import FFT
from templates.ceil_div import ceil_div
from templates.conv1d.cuda import fft
from templates.conv1d.cuda.fft import LEAST_ERROR, has_contiguous_rows, threads
from templates.conv1d.roles import roles
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.launches.next_launch import begins_next, held_kib, held_words
from templates.kernels.occupancy import occupancy
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

FEWEST_TAPS = 2048
"""With fewer taps, a block has room for the kernel's spectrum and a segment, as in ``CudaFft``."""
POINTS = (1024, 2048, 4096, 8192)
MAX_WORKSPACE = 2**33  # bytes, the limit of all tensors of a workload


class CudaPartitions(Template[Conv1dWorkload]):
    """Convolution with long kernels, in parts whose spectra are in the workspace.

    The taps are divided into parts of ``points`` taps, and the output into segments of as many
    outputs (``schedules/partitions.cu``). The first launch computes the spectra of all parts and
    input segments, the last one transforms back and, if ``products`` are "fused", also sums the
    products of spectra. If they are "apart", a launch of their own sums them, with ``together``
    output segments a thread. Registers are limited so that ``resident`` blocks fit on a unit. With
    ``held_kib``, transforms let the next launch begin
    (``templates/kernels/launches/next_launch.py``).
    """

    name = "partitions"
    kind = "cuda"
    version = 6
    arithmetic = FFT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload ``has_contiguous_rows``, allows the error of transforms, and
        has at least 2048 taps, and as many samples if there is a single signal."""
        return (
            super().applies(workload, limits)
            and has_contiguous_rows(workload)
            and roles(workload).taps.extent >= FEWEST_TAPS
            and workload.error_of_sums(workload.N) >= LEAST_ERROR
            and bool(_points(workload, limits))
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("points", _points(workload, limits))
        space.knob("products", ["fused", "apart"])
        space.knob("together", [1, 2, 4, 8], when={"products": ["apart"]})
        space.knob("resident", [1, 2, 3, 4, 8])
        space.knob("held_kib", held_kib(limits))
        space.constraint(
            f"the workspace has fewer than {MAX_WORKSPACE} bytes",
            lambda c: 4 * workspace(workload, c) < MAX_WORKSPACE,
            reads=("points", "products"),
        )
        space.constraint(
            "the threads and the shared memory of the resident blocks fit",
            lambda c: (
                c["resident"] == 1
                or (
                    c["resident"] * threads(c) <= 1024
                    and c["resident"] * 4 * held_words(c, shared_words(c)) <= limits.shared_memory
                )
            ),
            reads=("points", "resident", "held_kib"),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        points = _points(workload, limits)[-1]
        return {
            "template": self.name,
            "points": points,
            "products": "fused",
            "resident": 1,
            "held_kib": 0,
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        points, width = config["points"], threads(config)
        registers = min(255, limits.registers_per_unit // (width * config["resident"]) // 8 * 8)
        there, back = spectrum_count(workload, config), rows_of_segments(workload, config)
        resident = max(config["resident"], min(4, 2048 // width))
        fused = config["products"] == "fused"
        together = config.get("together", 1)
        met = parts(workload, config)
        read = back * met * 2 if fused else back * (2 * met + together - 1) / together
        work = points * (points.bit_length() - 1)
        return {
            **occupancy(max(there, back), width, resident, limits),
            "shared_bytes": 4 * held_words(config, shared_words(config)),
            "next_begins_early": begins_next(config),
            "registers": registers,
            "points": points,
            "parts": met,
            "together": together,
            "launches": 2 if fused else 3,
            "work_per_unit": work * (ceil_div(there, limits.units) + ceil_div(back, limits.units)),
            "products_per_unit": points * met * ceil_div(back, limits.units),
            "workspace_bytes": 4 * workspace(workload, config),
            "moved_bytes": 8 * points * (there + read + (0 if fused else 2 * back)),
        }


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts of the taps."""
    return ceil_div(roles(workload).taps.extent, config["points"])


def segments(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of segments of a row of the output."""
    return ceil_div(workload.length, config["points"])


def input_segments(workload: Conv1dWorkload, config: Config) -> range:
    """Return the range of input segments of a row that are not all zeros and meet an output.

    Segment q begins at sample (q - 1) * points + taps - 1 - left and has 2 * points samples.
    """
    points, role = config["points"], roles(workload)
    shift = role.taps.extent - 1 - role.left
    low = max(1 - parts(workload, config), -((points + shift - 1) // points))
    high = min(segments(workload, config) - 1, (role.samples.extent - shift - 1) // points + 1)
    return range(low, max(high, low) + 1)


def spectrum_count(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of spectra: of input segments, and of parts of kernels."""
    segments = rows_of_samples(workload) * len(input_segments(workload, config))
    return segments + roles(workload).kernels * parts(workload, config)


def rows_of_samples(workload: Conv1dWorkload) -> int:
    return workload.out_channels if roles(workload).swapped else workload.B * workload.C


def rows_of_segments(workload: Conv1dWorkload, config: Config) -> int:
    return workload.rows * segments(workload, config)


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the float32 elements of the workspace: all spectra, and the sums of products if they
    are apart."""
    sums = rows_of_segments(workload, config) if config["products"] == "apart" else 0
    return int(2 * config["points"] * (spectrum_count(workload, config) + sums))


def shared_words(config: Config) -> int:
    return fft.buffer_words(config["points"])


def _points(workload: Conv1dWorkload, limits: DeviceLimits) -> list[int]:
    """Return the values of ``points`` for which shared memory and the workspace have room, with at
    most 64 parts, up to the first that is no shorter than the taps."""
    taps = roles(workload).taps.extent
    fitting = [
        p
        for p in POINTS
        if 4 * shared_words({"points": p}) <= limits.shared_memory
        and 4 * workspace(workload, {"points": p, "products": "fused"}) < MAX_WORKSPACE
    ]
    return [p for p in fitting if p // 2 < taps <= 64 * p]
