"""CpuProducts: the search space of a gradient of dense channels as matrix products, on a CPU."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 16  # vectors, in registers
VECTOR = 16  # lanes of a usual vector
LANES = (4, 8, VECTOR)
COLUMNS = (16, 64, 256)
USUAL_COLUMNS = 64
BLOCKS = (1, 2, 4)


class CpuProducts(Template[Conv1dWorkload]):
    """Base of the gradients of dense channels, for workloads of one ``direction``.

    A product has lines by columns of results, each a sum over depths. Several independent products
    are called sheets. A task computes ``columns`` columns by ``blocks`` blocks of ``vectors``
    vectors of ``lanes`` lanes. It stages ``depth`` depths of its lines and columns at a time, as
    float32. Registers hold the sums of one block of lines by ``own_columns`` columns.
    """

    kind = "cpu"
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True
    direction: ClassVar[str]

    @staticmethod
    @abstractmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the lines and the columns of a product."""

    @staticmethod
    @abstractmethod
    def depths(workload: Conv1dWorkload) -> int:
        """Return about how many terms are summed for a result."""

    @staticmethod
    def sheets(workload: Conv1dWorkload) -> int:
        return 1

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is this gradient of dense channels, on a CPU."""
        is_asked = workload.direction == self.direction and workload.is_dense
        return super().applies(workload, limits) and is_asked

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        lines, columns = self.extents(workload)
        space = ConfigSpace(self.name, self.version)
        space.knob("lanes", _lanes(lines))
        space.knob("vectors", [1, 2])
        space.knob("blocks", list(BLOCKS))
        space.knob("columns", _columns(columns))
        space.knob("own_columns", [2, 4, 8])
        space.knob("depth", [128, 512])
        space.knob("threading", ["serial", PARALLEL])
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums",
            lambda c: c["own_columns"] * c["vectors"] * ceil_div(c["lanes"], VECTOR) <= MAX_SUMS,
        )
        space.constraint(
            "a task has fewer than twice the product's lines, or one vector of them",
            lambda c: (c["vectors"], c["blocks"]) == (1, 1) or tile_lines(c) < 2 * lines,
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        """Return tiles so large that staging costs less than multiplying."""
        lines, columns = self.extents(workload)
        widest = max(LANES[0], limits.vector_bytes // 4)
        lanes = max(n for n in _lanes(lines) if n <= widest)
        return {
            "template": self.name,
            "lanes": lanes,
            "vectors": 1,
            "blocks": max(n for n in BLOCKS if n == 1 or lanes * n < 2 * lines),
            "columns": [n for n in _columns(columns) if n <= USUAL_COLUMNS][-1],
            "own_columns": 4,
            "depth": 512,
            "threading": "serial",
        }

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        (lines, columns), sheets = self.extents(workload), self.sheets(workload)
        height, width, deep = tile_lines(config), config["columns"], config["depth"]
        tasks = sheets * ceil_div(lines, height) * ceil_div(columns, width)
        own = config["own_columns"] * config["vectors"]
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": height * width * self.depths(workload),
            "registers": own * config["lanes"] * 4 / limits.vector_bytes,
            "loads_per_fma": (config["vectors"] + config["own_columns"]) / own,
            "staged_per_fma": (height + width) / (height * width),
            "tile_bytes": 4 * ((height + width) * deep + 2 * height * width),
            "filled": lines * columns * sheets / (tasks * height * width),
        }


def tile_lines(config: Config) -> int:
    """Return the number of lines of a task."""
    return int(config["lanes"] * config["vectors"] * config["blocks"])


def _lanes(lines: int) -> list[int]:
    return [n for n in LANES if n == LANES[0] or n < 2 * lines]


def _columns(columns: int) -> list[int]:
    return [n for n in COLUMNS if n == COLUMNS[0] or n < 2 * columns]
