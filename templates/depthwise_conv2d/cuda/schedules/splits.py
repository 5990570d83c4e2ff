"""Schedule of AutoTVM's splits on CUDA: each knob of the space is one schedule primitive."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.parameters import placeholders
from templates.spaces.grid import Grid


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    """Return the seed's program: a stage ``padded``, and ``y``, the sums over the taps.

    Taps that meet only padding are left out.
    """
    B, C, H, W = workload.B, workload.C, workload.H, workload.W
    s, middle, dtype = workload.stride, workload.kernel[0] // 2, workload.dtype
    taps_h, taps_w = workload.used_kernel
    top, left = taps_h // 2, taps_w // 2
    x, w = placeholders(workload)
    padded = te.compute(
        (B, C, H + 2 * top, W + 2 * left),
        lambda b, c, h, v: tirx.if_then_else(
            tirx.all(h >= top, h < H + top, v >= left, v < W + left),
            x[b, c, h - top, v - left],
            tirx.const(0.0, dtype),
        ),
        name="padded",
    )
    ky, kx = te.reduce_axis((0, taps_h), name="ky"), te.reduce_axis((0, taps_w), name="kx")
    y = te.compute(
        workload.output.shape,
        lambda b, c, i, j: te.sum(
            padded[b, c, i * s + ky, j * s + kx]
            * w[c, 0, ky + (middle - top), kx + (middle - left)],
            axis=[ky, kx],
        ),
        name="y",
    )
    return te.create_prim_func([x, w, y])


def schedule(sch: Schedule, config: dict[str, Any], kind: str = "cuda") -> None:
    grid = Grid(sch, kind)
    padded, y = sch.get_sblock("padded"), sch.get_sblock("y")
    written = sch.cache_write(y, 0, "local") if config["sums"] == "registers" else None

    b, c, i, j, ky, kx = sch.get_loops(y)
    i_outer, i_thread = sch.split(i, config["row_split"], preserve_unit_iters=True)
    j_outer, j_thread = sch.split(j, config["column_split"], preserve_unit_iters=True)
    ky_outer, ky_inner = sch.split(ky, config["tap_row_split"], preserve_unit_iters=True)
    kx_outer, kx_inner = sch.split(kx, config["tap_column_split"], preserve_unit_iters=True)
    taps = [(ky_outer, ky_inner), (kx_outer, kx_inner)]
    if config["taps"] == "columns first":
        taps.reverse()
    outer, inner = zip(*taps, strict=True)
    sch.reorder(b, c, i_outer, j_outer, i_thread, j_thread, *outer, *inner)
    block = sch.fuse(b, c, i_outer, j_outer, preserve_unit_iters=True)
    grid.blocks(block)
    grid.threads(j_thread, i_thread)
    if written is not None:
        sch.reverse_compute_at(written, j_thread, preserve_unit_loops=True)

    if config["staging"] == "shared":
        sch.set_scope(padded, 0, grid.shared)
        for stage in (padded, sch.cache_read(y, 1, grid.shared)):
            sch.compute_at(stage, block, preserve_unit_loops=True)
            *_, row, column = sch.get_loops(stage)
            _, row = sch.split(row, [None, config["row_split"][1]], preserve_unit_iters=True)
            _, column = sch.split(
                column, [None, config["column_split"][1]], preserve_unit_iters=True
            )
            grid.threads(column, row)
    else:
        sch.compute_inline(padded)
    if config["unrolled_steps"]:
        sch.annotate(outer[0], "pragma_auto_unroll_max_step", config["unrolled_steps"])
        sch.annotate(outer[0], "pragma_unroll_explicit", 1)
    sch.decompose_reduction(y, outer[0])
