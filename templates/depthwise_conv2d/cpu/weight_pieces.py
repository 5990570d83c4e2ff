"""Search space of the weight's gradient on a CPU."""

from __future__ import annotations

from functools import partial

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.pieces import (
    MAX_STAGED,
    Piece,
    add_knobs,
    axes,
    channels_are_last,
    limit_staged,
    smallest_piece,
    usual_piece,
    vectors_of,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.occupancy import occupancy_by_tasks
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import PARALLEL, Config, Features, Template

MAX_SUMS = 16  # the most vectors of sums in registers
MAX_TASKS = 256  # the most tasks if a channel has several parts
MAX_PARTIAL = 2**22  # the most floats of all parts' sums


class CpuWeightPieces(Template[DepthwiseConv2dWorkload]):
    """A task has one of ``parts`` parts of the pieces of all images.

    A piece has ``rows`` by ``columns`` outputs of one output channel or, if channels are last, of
    ``lanes`` channels. The task stages the gradient of a piece's sums and the input that it meets,
    as float32 and with zeros beside them. The input's phases are staged separately (see
    ``input_pieces``), so that neighbouring outputs meet neighbouring elements. The task adds up
    ``tap_rows`` rows of ``tap_columns`` taps at a time in vectors of ``lanes`` channels, or of
    places of the staged rows, which together form one long row. The parts are added up last, in a
    fixed order.
    """

    name = "weight_pieces"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of a weight on a CPU.

        The smallest piece must need at most 2^22 floats.
        """
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_weight"
            and staged(workload, smallest_piece(workload, workload.out_width)) <= MAX_STAGED
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        down, across = axes(workload)
        space = ConfigSpace(self.name, self.version)
        add_knobs(space, workload, workload.out_height, workload.out_width)
        space.knob("tap_rows", [n for n in (1, 2, 3, 4) if n <= down.taps])
        space.knob("tap_columns", _tap_columns(across.taps))
        space.knob("threading", ["serial", PARALLEL])
        space.knob("parts", _parts(workload))
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums",
            lambda c: vectors_of(c["tap_rows"] * c["tap_columns"], c) <= MAX_SUMS,
            reads=("lanes", "tap_columns"),
        )
        limit_staged(space, partial(staged, workload), smallest_piece(workload, workload.out_width))
        space.constraint(
            "several parts only if threading is parallel, no more parts than a channel has "
            f"pieces, and at most {MAX_TASKS} tasks",
            lambda c: (
                c["parts"] == 1
                or (
                    c["threading"] == PARALLEL
                    and c["parts"] <= pieces(workload, c)
                    and c["parts"] * blocks(workload, c) <= MAX_TASKS
                )
            ),
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        _, across = axes(workload)
        rest = {
            "tap_rows": 1,
            "tap_columns": _tap_columns(across.taps)[-1],
            "threading": "serial",
            "parts": 1,
        }
        piece_of_task = usual_piece(
            workload,
            workload.out_height,
            workload.out_width,
            limits.vector_bytes,
            partial(staged, workload),
        )
        return {"template": self.name, **piece_of_task, **rest}

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        here, sums = piece(workload, config), config["tap_rows"] * config["tap_columns"]
        tasks = blocks(workload, config) * config["parts"]
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": workload.B * here.bands * here.strips * here.flat / config["parts"],
            "registers": sums * config["lanes"] * 4 / limits.vector_bytes,
            "loads_per_fma": (sums + 1) / sums,
            "tile_bytes": 4 * staged(workload, config),
            "staged_share": here.window / (here.rows * here.columns),
            "filled": here.filled,
        }


def piece(workload: DepthwiseConv2dWorkload, config: Config) -> Piece:
    """Return a piece of a plane of outputs."""
    height, width = workload.out_height, workload.out_width
    return Piece(height, width, config["rows"], config["columns"], *axes(workload))


def pieces(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of pieces of a channel, in all images."""
    here = piece(workload, config)
    return workload.B * here.bands * here.strips


def blocks(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the number of channels, or of vectors of channels if channels are last."""
    channels = workload.out_channels
    return ceil_div(channels, config["lanes"]) if channels_are_last(workload) else channels


def staged(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the floats that a task stages.

    They are the input's phases, the sums' gradients, and the sums from which these are computed.
    """
    here, (down, across) = piece(workload, config), axes(workload)
    each = config["lanes"] if channels_are_last(workload) else 1
    return int((down.phases * across.phases + 2) * here.window * each)


def _tap_columns(taps: int) -> list[int]:
    """Return how many taps of a row may be summed at a time: 4, 8, or all if they are few."""
    return [n for n in (4, 8) if n < taps] + ([taps] if taps <= MAX_SUMS else [])


def _parts(workload: DepthwiseConv2dWorkload) -> list[int]:
    sums = workload.output.elements
    return [n for n in (1, 2, 4, 8, 16, 64) if n == 1 or n * sums <= MAX_PARTIAL]
