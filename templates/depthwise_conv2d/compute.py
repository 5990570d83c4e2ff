"""Depthwise 2-D convolution as a padded TE computation."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue import finished
from templates.kernels.parameters import placeholders


def padded(workload: DepthwiseConv2dWorkload, tile_rows: int, tile_columns: int) -> Any:
    """The unscheduled program, a TIR function. Batch and channel are one axis of planes,
    n = b*C + c; output rows and columns are padded to multiples of the tile, so that guards stand
    only where data is staged in and written out. Taps that only ever meet padding are left out.

    Stages: ``xp[n, h, w]`` padded input, ``wp[n, ky, kx]`` the plane's near weights,
    ``acc[n, i, j]`` the sums, ``y`` the cut to (B, C, Ho, Wo), with the epilogue. All but ``y`` are
    float32, whatever the workload's dtype.
    """
    B, C, H, W, s = workload.B, workload.C, workload.H, workload.W, workload.stride
    middle, planes = workload.K // 2, B * C
    taps_h, taps_w = workload.near
    top, left = taps_h // 2, taps_w // 2
    rows = ceil_div(workload.out_height, tile_rows) * tile_rows
    columns = ceil_div(workload.out_width, tile_columns) * tile_columns
    height, width = (rows - 1) * s + taps_h, (columns - 1) * s + taps_w
    x, w, *added = placeholders(workload)

    def staged(n: Any, h: Any, v: Any) -> Any:
        inside = [
            condition
            for condition, can_fail in (
                (h >= top, top > 0),
                (h < H + top, height > H + top),
                (v >= left, left > 0),
                (v < W + left, width > W + left),
            )
            if can_fail
        ]
        value = x[n // C, n % C, h - top, v - left].astype("float32")
        if not inside:
            return value
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0.0, "float32"))

    xp = te.compute((planes, height, width), staged, name="xp")
    wp = te.compute(
        (planes, taps_h, taps_w),
        lambda n, ky, kx: w[n % C, 0, ky + (middle - top), kx + (middle - left)].astype("float32"),
        name="wp",
    )
    ky, kx = te.reduce_axis((0, taps_h), name="ky"), te.reduce_axis((0, taps_w), name="kx")
    acc = te.compute(
        (planes, rows, columns),
        lambda n, i, j: te.sum(xp[n, i * s + ky, j * s + kx] * wp[n, ky, kx], axis=[ky, kx]),
        name="acc",
    )
    y = te.compute(
        workload.output.shape,
        lambda b, c, i, j: finished(workload, acc[b * C + c, i, j], added, c, [b, c, i, j]),
        name="y",
    )
    return te.create_prim_func([x, w, *added, y])
