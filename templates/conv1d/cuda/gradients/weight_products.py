"""CudaWeightProducts: the search space of the weight's gradient of dense channels, on CUDA."""

from __future__ import annotations

from functools import cache

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients import products
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features

PARTS = tuple(1 << n for n in range(11))


class CudaWeightProducts(products.CudaProducts):
    """The weight's gradient as a product: filters by channels and taps, summed over all outputs.

    A block has a tile of ``rows`` filters by ``columns`` taps of channels, and one of up to
    ``parts`` parts of the outputs. If there are several parts, a second launch adds up their sums.
    The other knobs are those of ``CudaProducts``.
    """

    name = "weight_products"
    version = 3
    direction = "backward_weight"

    @staticmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the numbers of rows (filters) and columns (channels times taps, and one more for a
        bias)."""
        return workload.out_channels, workload.C * workload.N + workload.bias

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = super().space(workload, limits)
        space.knob("parts", list(PARTS))
        space.constraint(
            "the parts give each unit about one, two or four blocks, if there is work for them",
            lambda c: (
                c["parts"] in _useful_part_counts(*_stages_and_tiles(workload, c), limits.units)
            ),
            reads=("parts",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        config = super().default(workload, limits)
        counts = _useful_part_counts(*_stages_and_tiles(workload, config), limits.units)
        return config | {"parts": counts[0]}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        depths = workload.B * workload.length / parts(workload, config)
        rows, columns = self.extents(workload)
        area = products.tiles((rows, columns), config) * config["rows"] * config["columns"]
        return {
            **products.features(config, blocks(workload, config), depths, limits),
            "workspace": workspace(workload, config),
            "filled": rows * columns / area,
        }


def parts(workload: Conv1dWorkload, config: Config) -> int:
    """Return the number of parts: that of the knob, but at most the number of stages."""
    stages, _ = _stages_and_tiles(workload, config)
    return int(min(stages, config["parts"]))


def blocks(workload: Conv1dWorkload, config: Config) -> int:
    return products.tiles(CudaWeightProducts.extents(workload), config) * parts(workload, config)


def workspace(workload: Conv1dWorkload, config: Config) -> int:
    """Return the floats of the workspace, 0 if there is one part."""
    several = parts(workload, config)
    return several * workload.output.elements if several > 1 else 0


def _stages_and_tiles(workload: Conv1dWorkload, config: Config) -> tuple[int, int]:
    """Return the number of stages of ``depth`` outputs in all signals, and the number of tiles."""
    stages = ceil_div(workload.B * workload.length, config["depth"])
    return stages, products.tiles(CudaWeightProducts.extents(workload), config)


@cache
def _useful_part_counts(stages: int, across: int, units: int) -> tuple[int, ...]:
    """Return the values of ``parts`` that give each unit about one, two or four blocks, if there
    are ``across`` blocks a part."""
    asked = (min(stages, ceil_div(n * units, across)) for n in (1, 2, 4))
    return tuple(sorted({next((n for n in PARTS if n >= each), PARTS[-1]) for each in asked}))
