"""The knobs, the default and the features of matrix products on a CPU, as which the gradients of
dense channels are computed.

A product has ``lines`` by ``columns`` results, each a sum over ``depths``. A template may compute
several independent products, called sheets.
"""

from __future__ import annotations

from templates.ceil_div import ceil_div
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config

MAX_SUMS = 16  # vectors, in registers
VECTOR = 16  # lanes of a usual vector
LANES = (4, 8, VECTOR)
COLUMNS = (16, 64, 256)
USUAL_COLUMNS = 64
BLOCKS = (1, 2, 4)


def add_knobs(space: ConfigSpace, lines: int, columns: int) -> None:
    """Add the knobs of a product of ``lines`` by ``columns`` to the space.

    A task computes ``columns`` columns by ``blocks`` blocks of ``vectors`` vectors of ``lanes``
    lines. It stages ``depth`` depths of its lines and columns at a time, as float32. In registers
    are the sums of one block of lines by ``own_columns`` columns.
    """
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
        "a task has less than twice the lines, or one vector of them",
        lambda c: (c["vectors"], c["blocks"]) == (1, 1) or tile_lines(c) < 2 * lines,
    )


def default_knobs(lines: int, columns: int, limits: DeviceLimits) -> Config:
    """Return default values of the knobs: tiles so large that staging costs less than
    multiplying."""
    widest = max(LANES[0], limits.vector_bytes // 4)
    lanes = max(n for n in _lanes(lines) if n <= widest)
    return {
        "lanes": lanes,
        "vectors": 1,
        "blocks": max(n for n in BLOCKS if n == 1 or lanes * n < 2 * lines),
        "columns": [n for n in _columns(columns) if n <= USUAL_COLUMNS][-1],
        "own_columns": 4,
        "depth": 512,
        "threading": "serial",
    }


def features(
    config: Config, lines: int, columns: int, sheets: int, depths: float, limits: DeviceLimits
) -> dict[str, float]:
    """Return the features of ``sheets`` products of ``lines`` by ``columns``, each result a sum
    over about ``depths`` terms."""
    height, width, deep = tile_lines(config), config["columns"], config["depth"]
    tasks = sheets * ceil_div(lines, height) * ceil_div(columns, width)
    used = min(tasks, limits.units) if config["threading"] == PARALLEL else 1
    own = config["own_columns"] * config["vectors"]
    return {
        "tasks": tasks,
        "threads": used,
        "waves": ceil_div(tasks, used),
        "work_per_task": height * width * depths,
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
