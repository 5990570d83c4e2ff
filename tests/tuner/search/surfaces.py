"""Made-up devices for tests of search strategies: a space, and a formula for each configuration's
time, by which some configurations fail."""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from templates.ceil_div import ceil_div
from templates.spaces.space import ConfigSpace
from templates.spaces.union import UnionSpace
from tuner.search.strategy import Result, Strategy

Config = dict[str, Any]
Cost = Callable[[Config], float | None]


@dataclass(frozen=True)
class Surface:
    """A space and the times of its configurations. ``cost`` gives microseconds, or None if the
    configuration fails; ``featurize`` gives derived features."""

    space: ConfigSpace | UnionSpace
    cost: Cost
    featurize: Callable[[Config], dict[str, float]]

    @cached_property
    def times(self) -> list[float | None]:
        return [self.cost(config) for config in self.space]

    @cached_property
    def good(self) -> set[int]:
        """The indices of the configurations that take at most 5 % more than the fastest."""
        limit = 1.05 * min(time for time in self.times if time is not None)
        return {i for i, time in enumerate(self.times) if time is not None and time <= limit}

    def results(self, indices: list[int]) -> list[Result]:
        return [Result(index, self.times[index]) for index in indices]

    def trials_to_good(self, strategy: Strategy, batch: int = 8) -> int:
        """Return how many configurations the strategy measures until one is in :attr:`good`."""
        measured = 0
        while asked := strategy.ask(batch):
            for index in asked:
                measured += 1
                if index in self.good:
                    return measured
            strategy.tell(self.results(asked))
        raise AssertionError("the space ran out before a good configuration was asked for")


def luck(config: Config, salt: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on configuration and salt."""
    return zlib.crc32(f"{salt}{sorted(config.items())}".encode()) / 2**32


def direct(length: int = 16384, taps: int = 32, units: int = 132) -> Surface:
    """Return a model of a GPU convolution: occupancy, a last partial wave, bank conflicts, and a
    limit on registers."""
    space = ConfigSpace("direct", 1)
    space.knob("threads", [32, 64, 96, 128, 192, 256, 512])
    space.knob("outputs", [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 28])
    space.knob("step", [1, 2, 4, 8, 16, 32])
    space.knob("weights", ["shared", "global"])
    space.knob("stage", [1, 2, 4], when={"weights": "shared"})
    space.knob("unroll", [True, False])

    def featurize(c: Config) -> dict[str, float]:
        blocks = ceil_div(length, c["threads"] * c["outputs"])
        return {"blocks_per_unit": blocks / units, "registers": c["outputs"] * 2 + c["step"] + 24}

    def cost(c: Config) -> float | None:
        registers = featurize(c)["registers"] * c["threads"]
        if registers > 24_000 or luck(c, "build") < 0.03:
            return None
        blocks = ceil_div(length, c["threads"] * c["outputs"])
        resident = min(65536 // int(registers), 2048 // c["threads"]) * c["threads"]
        busy = min(blocks / units * c["threads"], resident)
        hidden = min(1.0, busy * math.sqrt(c["outputs"]) / 900)
        loads = 1 / c["outputs"] + 2 / c["step"] * (0.5 if c["weights"] == "shared" else 1)
        conflict = 1.6 if c["outputs"] in (8, 16) else 1.15 if c["outputs"] % 4 else 1.0
        waves = math.ceil(blocks / units) / (blocks / units)
        loop = 1.0 if c["unroll"] and c["outputs"] * c["step"] <= 256 else 1.25
        stage = {None: 1.1, 1: 1.0, 2: 0.97, 4: 1.05}[c.get("stage")]
        work = length * taps / units / 128 / hidden * (0.3 + loads * conflict) * waves
        return (1.2 + work * 1e-3 * loop * stage) * (1 + 0.02 * luck(c, "noise"))

    return Surface(space, cost, featurize)


def tiled() -> Surface:
    """Return a model of a CPU loop nest with two splits: vector width, cache and threads count.
    There are no derived features."""
    space = ConfigSpace("tiled", 1)
    space.split("rows", extent=96, parts=3)
    space.split("columns", extent=64, parts=2)
    space.knob("vector", [1, 4, 8])
    space.knob("parallel", ["rows", "columns", "none"])

    def cost(c: Config) -> float | None:
        outer, middle, inner = c["rows"]
        blocks, width = c["columns"]
        if width % c["vector"] or luck({"i": inner, "w": width}, "crash") < 0.05:
            return None
        pieces = {"rows": outer, "columns": blocks, "none": 1}[c["parallel"]]
        speedup = pieces / math.ceil(pieces / 8)
        sums = inner * width / c["vector"]
        registers = 1 + max(0.0, math.log2(sums / 16)) ** 2 / 4 + max(0.0, math.log2(6 / sums)) / 2
        cache = 1 + 0.3 * max(0.0, math.log2(middle * inner * width / 1024))
        lanes = {1: 5.0, 4: 1.8, 8: 1.0}[c["vector"]]
        overhead = 0.02 * outer * blocks
        return (40 * registers * cache * lanes / speedup + overhead) * (1 + 0.02 * luck(c, "noise"))

    return Surface(space, cost, lambda _: {})


def rugged(seed: int = 5) -> Surface:
    """Return a surface of seven knobs with random effects and, for each pair of the first six,
    random interactions."""
    rng = np.random.default_rng(seed)
    values = [1, 2, 4, 8]
    space = ConfigSpace("rugged", 1)
    for place in range(6):
        space.knob(f"knob{place}", values)
    space.knob("kind", ["a", "b"])
    single = rng.normal(0, 0.35, (6, 4))
    double = rng.normal(0, 0.15, (6, 6, 4, 4))

    def cost(c: Config) -> float | None:
        digits = [values.index(c[f"knob{place}"]) for place in range(6)]
        if digits[0] + digits[1] + (c["kind"] == "b") > 5 or digits[2] * digits[3] == 9:
            return None
        effect = sum(single[i, d] for i, d in enumerate(digits))
        for i in range(6):
            effect += sum(double[i, j, digits[i], digits[j]] for j in range(i))
        kind = 1.3 if c["kind"] == "b" and digits[5] < 2 else 1.0
        return 10 * math.exp(effect) * kind * (1 + 0.02 * luck(c, "noise"))

    return Surface(space, cost, lambda _: {})


def both() -> Surface:
    """Return a surface of two templates: ``direct``, and ``rugged``, which is slower nearly
    everywhere."""
    fine, coarse = direct(), rugged()
    assert isinstance(fine.space, ConfigSpace) and isinstance(coarse.space, ConfigSpace)
    union = UnionSpace([coarse.space, fine.space])

    def of(config: Config) -> Surface:
        return fine if config["template"] == "direct" else coarse

    def cost(config: Config) -> float | None:
        time = of(config).cost(config)
        return time * 15 if time is not None and config["template"] == "rugged" else time

    return Surface(union, cost, lambda c: of(c).featurize(c))
