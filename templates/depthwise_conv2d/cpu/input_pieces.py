"""Search space of the input's gradient on a CPU."""

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

MAX_PHASES = 16
MAX_PRODUCTS = 2**12
"""The most products that are added up in one sum of float32."""
MAX_SUMS = 16  # the most vectors of sums in registers
MAX_UNROLLED = 256


class CpuInputPieces(Template[DepthwiseConv2dWorkload]):
    """A task has a piece of ``rows`` by ``columns`` of every phase of the input's gradient.

    A phase has the elements whose rows and columns have the same remainders modulo the stride. They
    meet the same taps, and neighbours within a phase meet neighbouring outputs.

    The piece is of one channel or, if channels are last, of ``lanes`` channels. The task stages the
    gradient of the sums that the piece meets, as float32 and with zeros beside it, and adds up
    ``vectors`` vectors at a time in registers. A vector is of neighbouring channels, or of
    neighbouring columns of the staged rows, which together form one long row. The template serves
    gradients that no forward template can compute: with a stride, with several kernels for a
    channel, or through an activation.
    """

    name = "input_pieces"
    kind = "cpu"
    version = 1
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of an input on a CPU that no forward workload computes.

        The stride must leave at most 16 phases, an element must be a sum of at most 4096 products,
        and the smallest piece must need at most 2^22 floats.
        """
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_input"
            and workload.as_forward is None
            and _phases(workload) <= MAX_PHASES
            and workload.taps <= MAX_PRODUCTS
            and staged(workload, smallest_piece(workload, _plane(workload)[1])) <= MAX_STAGED
        )

    def space(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> ConfigSpace:
        _, across = axes(workload)
        taps = ceil_div(across.taps, across.phases) * _phases(workload)
        space = ConfigSpace(self.name, self.version)
        add_knobs(space, workload, *_plane(workload))
        space.knob("vectors", [1, 2, 4, 8])
        space.knob("unroll", ["none", "columns"])
        space.knob("threading", ["serial", PARALLEL])
        space.constraint(
            "no more vectors than a piece needs",
            lambda c: (
                c["vectors"] == 1
                or c["vectors"]
                <= (
                    c["columns"]
                    if channels_are_last(workload)
                    else ceil_div(piece(workload, c).flat, c["lanes"])
                )
            ),
        )
        space.constraint(
            f"at most {MAX_SUMS} vectors of sums",
            lambda c: vectors_of(c["vectors"], c) <= MAX_SUMS,
        )
        space.constraint(
            f"at most {MAX_UNROLLED} vector multiply-adds unrolled",
            lambda c: c["unroll"] == "none" or vectors_of(c["vectors"] * taps, c) <= MAX_UNROLLED,
        )
        limit_staged(
            space, partial(staged, workload), smallest_piece(workload, _plane(workload)[1])
        )
        return space

    def default(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> Config:
        height, width = _plane(workload)
        rest = {"vectors": 1, "unroll": "none", "threading": "serial"}
        piece_of_task = usual_piece(
            workload, height, width, limits.vector_bytes, partial(staged, workload)
        )
        return {"template": self.name, **piece_of_task, **rest}

    def features(
        self, workload: DepthwiseConv2dWorkload, config: Config, limits: DeviceLimits
    ) -> Features:
        here, width = piece(workload, config), config["lanes"]
        blocks = ceil_div(workload.C, width) if channels_are_last(workload) else workload.C
        tasks = workload.B * blocks * here.bands * here.strips
        return {
            **occupancy_by_tasks(tasks, config, limits),
            "work_per_task": here.rows * here.columns * workload.stride**2 * workload.taps,
            "registers": config["vectors"] * width * 4 / limits.vector_bytes,
            "loads_per_fma": 1 + 1 / config["vectors"],
            "unrolled": config["vectors"] * (config["unroll"] == "columns"),
            "tile_bytes": 4 * staged(workload, config),
            "staged_share": here.window / (here.rows * here.columns),
            "filled": here.filled,
        }


def piece(workload: DepthwiseConv2dWorkload, config: Config) -> Piece:
    """Return a task's piece of each phase."""
    return Piece(*_plane(workload), config["rows"], config["columns"], *axes(workload))


def staged(workload: DepthwiseConv2dWorkload, config: Config) -> int:
    """Return the floats that a task stages.

    They are the sums' gradients. If channels are first, the sums and the results of each phase of
    columns are staged, too.
    """
    here = piece(workload, config)
    if channels_are_last(workload):
        return int(workload.multiplier * here.window * config["lanes"])
    return (workload.multiplier + 1 + min(workload.stride, workload.W)) * here.window


def first_outputs(workload: DepthwiseConv2dWorkload) -> tuple[int, int]:
    """Return the row and column of the output at which a phase's first element meets tap 0."""
    return tuple(axis.before // axis.stride for axis in axes(workload))  # type: ignore[return-value]


def _phases(workload: DepthwiseConv2dWorkload) -> int:
    return min(workload.stride, workload.H) * min(workload.stride, workload.W)


def _plane(workload: DepthwiseConv2dWorkload) -> tuple[int, int]:
    """Return the rows and columns of a phase.

    The first and the last of them may lie beyond the plane.
    """
    pairs = zip((workload.H, workload.W), axes(workload), strict=True)
    height, width = (
        (extent - 1 + axis.before) // axis.stride - axis.before // axis.stride + 1
        for extent, axis in pairs
    )
    return height, width
