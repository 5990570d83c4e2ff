"""CpuFft: the search space of overlap-save convolution by Fourier transforms on a CPU."""

from __future__ import annotations

from templates.arithmetic import FFT
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

FEWEST_TAPS = 64
"""On a long signal, transforms are faster than the direct sum from about this many taps on."""
SHORTEST = 128  # points of a block
MOST_STAGED_BYTES = 2**24
"""Limit of what each thread stages. Only a single pair of the shortest blocks may exceed it."""


class CpuFft(Template[Conv1dWorkload]):
    """Overlap-save convolution: blocks of ``points`` samples, which overlap by the taps.

    Sample p of a block is lane p mod ``lanes`` of row p div ``lanes``. Each lane is a phase of the
    signal, so that a transform down the rows needs no shuffles. The phases are combined when
    spectra are multiplied: at each frequency, a Toeplitz matrix of ``lanes`` by ``lanes``
    multiplies a vector (polyphase filtering; Vetterli, "Running FIR and IIR filtering using
    multirate filter banks", 1988).

    Two blocks form a pair: the real and the imaginary part of one transform. ``pairs`` pairs share
    each load of the weights' spectrum. ``radix`` is the largest factor of a transform, and
    ``largest`` says whether the factors begin or end with it. A single signal that is shorter than
    its kernel swaps roles with it.
    """

    name = "fft"
    kind = "cpu"
    version = 4
    arithmetic = FFT

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        fits = workload.are_apart and workload.N >= FEWEST_TAPS
        return super().applies(workload, limits) and fits

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", [4, 8, 16])
        space.knob("points", _block_lengths(workload))
        space.knob("radix", [4, 8])
        space.knob("largest", ["first", "last"])
        space.knob("pairs", [1, 2, 3, 4])
        space.knob("threading", ["serial", "parallel"])
        space.constraint(
            "a block yields at least a row of outputs", lambda c: outputs_of_block(workload, c) > 0
        )
        space.constraint(
            "radix is the largest factor, and largest is first if all factors are equal",
            lambda c: (
                max(factors(c)) == c["radix"]
                and (c["largest"] == "first" or len(set(factors(c))) > 1)
            ),
        )
        space.constraint("at most six factors", lambda c: len(factors(c)) <= 6)
        space.constraint(
            "no more blocks at a time than the signal has",
            lambda c: (
                c["pairs"] == 1
                or outputs_of_block(workload, c) * 2 * (c["pairs"] - 1) < workload.length
            ),
        )
        shortest = _block_lengths(workload)[0]
        space.constraint(
            f"a thread stages at most {MOST_STAGED_BYTES >> 20} MiB, or one pair of the shortest "
            "blocks",
            lambda c: c["points"] * c["pairs"] == shortest or _staged_bytes(c) <= MOST_STAGED_BYTES,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        lanes = max(4, min(16, limits.vector_bytes // 4))
        points = next(p for p in _block_lengths(workload)[1:] if p >= 16 * lanes)
        config = {"lanes": lanes, "points": points, "radix": 8, "largest": "first"}
        config["radix"] = max(factors(config))
        return {"template": self.name, **config, "pairs": 1, "threading": "serial"}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        points, lanes, pairs = config["points"], config["lanes"], config["pairs"]
        new = outputs_of_block(workload, config)
        tasks = workload.rows * ceil_div(workload.length, 2 * new * pairs)
        parts = factors(config)
        # multiply-adds for a sample of a block: its transforms', and its share of the products
        work = 2.5 * sum(part.bit_length() + 1 for part in parts) + 2 * lanes
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": 2 * pairs * points * work,
            "transforms": len(parts),
            "registers": 2 * config["radix"] * lanes * 4 / limits.vector_bytes,
            "tile_bytes": _staged_bytes(config),
            "spectrum_bytes": 16 * points,
            "padded_share": tasks * 2 * pairs * points / (workload.rows * workload.length),
        }


def filter_length(workload: Conv1dWorkload) -> int:
    """Return the length of the tensor that is transformed once: the kernel, or a single signal that
    is shorter than it."""
    return min(workload.M, workload.N) if workload.is_one_signal else workload.N


def outputs_of_block(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of outputs of a block: the points of all whole rows into which no tap wraps
    around. It is 0 or less if there is no such row."""
    rows: int = (config["points"] - filter_length(workload) + 1) // config["lanes"]
    return rows * int(config["lanes"])


def factors(config: Config) -> list[int]:
    """Return the radices of the transform down the rows, as few and as equal as ``radix`` allows,
    in the order of the forward passes."""
    bits = (config["points"] // config["lanes"]).bit_length() - 1
    parts = ceil_div(bits, config["radix"].bit_length() - 1)
    low, more = divmod(bits, parts)
    exponents = [low + 1] * more + [low] * (parts - more)
    return [2**e for e in (exponents if config["largest"] == "first" else exponents[::-1])]


def _staged_bytes(config: Config) -> int:
    """Return the bytes that a thread stages: a complex float32 for each point of each pair."""
    return 8 * int(config["points"]) * int(config["pairs"])


def _block_lengths(workload: Conv1dWorkload) -> list[int]:
    """Return five block lengths, all powers of two. The shortest is longer than the taps; with the
    longest, the overlap costs little."""
    first = max(SHORTEST, 2 ** (filter_length(workload) + 2).bit_length())
    return [first << step for step in range(5)]
