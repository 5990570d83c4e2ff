"""CudaProducts: the search space of a gradient of dense channels as matrix products, on CUDA."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from templates.arithmetic import PRODUCTS
from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import USUAL_ERROR
from templates.kernels.halves import has_tensor_cores_for
from templates.kernels.occupancy import occupancy, resident_blocks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

SIDES = (32, 64, 128)
OWN_OF_THREADS = (2, 4, 8)
OWN_OF_WARPS = (16, 32, 64)
THREADS = (64, 512)  # of a block
MAX_REGISTERS = 200  # as estimated
OTHER_REGISTERS = 44  # registers for addresses and so on


class CudaProducts(Template[Conv1dWorkload]):
    """Base of the gradients of dense channels, for workloads of one ``direction``.

    A product has rows by columns of results, each a sum over depths. A block computes a tile of
    ``rows`` by ``columns``, and stages ``depth`` depths at a time. ``multiplied_by`` says whether
    threads multiply, or warps on tensor cores. Each thread or warp has ``own_rows`` by
    ``own_columns`` of the tile.
    """

    kind = "cuda"
    arithmetic = PRODUCTS
    computes_gradients = True
    direction: ClassVar[str]

    @staticmethod
    @abstractmethod
    def extents(workload: Conv1dWorkload) -> tuple[int, int]:
        """Return the rows and the columns of a product."""

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is this gradient of dense channels, on CUDA."""
        is_asked = workload.direction == self.direction and workload.is_dense
        return super().applies(workload, limits) and is_asked

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        rows, columns = self.extents(workload)
        space = ConfigSpace(self.name, self.version)
        is_tensor = is_on_tensor_cores(workload, limits)
        own = list(OWN_OF_WARPS if is_tensor else OWN_OF_THREADS)
        space.knob("multiplied_by", ["warps" if is_tensor else "threads"])
        space.knob("rows", _sides(rows))
        space.knob("columns", _sides(columns))
        space.knob("depth", [16, 32])
        space.knob("own_rows", own)
        space.knob("own_columns", own)
        space.knob("resident", [1, 2, 4])
        space.constraint(
            f"a tile is shared by {THREADS[0]} to {THREADS[1]} threads",
            lambda c: (
                c["rows"] % c["own_rows"] == 0
                and c["columns"] % c["own_columns"] == 0
                and THREADS[0] <= threads(c) <= THREADS[1]
            ),
            reads=("own_columns",),
        )
        space.constraint(
            f"at most {MAX_REGISTERS} registers",
            lambda c: registers(c) <= MAX_REGISTERS,
            reads=("own_columns",),
        )
        space.constraint(
            "the registers and the shared memory of the resident blocks fit",
            lambda c: (
                registers(c) * threads(c) * c["resident"] <= limits.registers_per_unit
                and 4 * shared_words(c) * c["resident"] <= limits.shared_memory
            ),
            reads=("resident",),
        )
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        """Return a configuration with the smallest tiles."""
        rows, columns = self.extents(workload)
        is_tensor = is_on_tensor_cores(workload, limits)
        return {
            "template": self.name,
            "multiplied_by": "warps" if is_tensor else "threads",
            "rows": _sides(rows)[0],
            "columns": _sides(columns)[0],
            "depth": 16,
            "own_rows": 16 if is_tensor else 4,
            "own_columns": 16 if is_tensor else 4,
            "resident": 1,
        }


def is_on_tensor_cores(workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
    """Return whether tensor cores multiply the dtype, and ``max_error`` lets the sums' gradients be
    rounded to it."""
    may_round = workload.activation == "none" or workload.max_error >= USUAL_ERROR[workload.dtype]
    return may_round and has_tensor_cores_for(workload.dtype, limits)


def features(config: Config, blocks: int, depths: float, limits: DeviceLimits) -> Features:
    """Return the features of ``blocks`` blocks, each of which sums over ``depths`` depths."""
    count, needed, shared = threads(config), registers(config), 4 * shared_words(config)
    resident = resident_blocks(count, needed, limits, limits.shared_memory // shared)
    own = config["own_rows"] * config["own_columns"]
    return {
        **occupancy(blocks, count, resident, limits),
        "shared_bytes": shared,
        "least_resident_threads": config["resident"] * count,
        "registers": needed,
        "steps": depths / config["depth"],
        "products_per_step": config["rows"] * config["columns"] * config["depth"] / count,
        "loads_per_product": (config["own_rows"] + config["own_columns"]) / own,
        "fetched": _fetched(config),
    }


def threads(config: Config) -> int:
    own = config["own_rows"] * config["own_columns"]
    return int(config["rows"] * config["columns"] // own * (32 if _is_of_warps(config) else 1))


def shared_words(config: Config) -> int:
    """Return the 32-bit words of a block's shared memory, as ``products.cu`` lays them out."""
    rows, columns, depth = config["rows"], config["columns"], config["depth"]
    if _is_of_warps(config):
        return int((rows + columns) * depth // 2)
    return int((rows + columns + 2) * depth)


def registers(config: Config) -> int:
    """Return an estimate of a thread's registers: sums of 512 products and totals, the lines of a
    factor, the elements that are being loaded and their addresses."""
    rows, columns = config["own_rows"], config["own_columns"]
    shared_out = 32 if _is_of_warps(config) else 1
    lines = rows // 4 + columns // 4 if _is_of_warps(config) else rows + columns
    return int(2 * rows * columns // shared_out + lines + 2 * _fetched(config) + OTHER_REGISTERS)


def tiles(extents: tuple[int, int], config: Config) -> int:
    """Return the number of tiles of a product."""
    return ceil_div(extents[0], config["rows"]) * ceil_div(extents[1], config["columns"])


def _fetched(config: Config) -> int:
    """Return how many words a thread loads at once for the next step."""
    halves = 2 if _is_of_warps(config) else 1
    sides = (config["rows"], config["columns"])
    return sum(ceil_div(n * config["depth"] // halves, threads(config)) for n in sides)


def _is_of_warps(config: Config) -> bool:
    return bool(config["multiplied_by"] == "warps")


def _sides(lines: int) -> list[int]:
    """Return the values for an extent of a tile: the smallest, and all that are less than twice the
    ``lines``."""
    return [n for n in SIDES if n == SIDES[0] or n < 2 * lines]
