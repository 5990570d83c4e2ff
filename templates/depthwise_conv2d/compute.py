"""TE computations of depthwise 2-D convolution."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.parameters import placeholders


def padded(workload: DepthwiseConv2dWorkload, tile_rows: int, tile_columns: int) -> Any:
    """Return the unscheduled program on padded planes, a TIR function.

    Batch and output channel are one axis of planes, n = b*channels + c. Output rows and columns are
    padded to multiples of the tile, so that only loading the input and writing the output need
    guards. Taps that meet only padding are left out.

    Stages, all but ``y`` in float32, whatever the workload's dtype:

    - ``xp[n, h, w]``: the padded input
    - ``wp[n, ky, kx]``: the plane's weights at the used taps
    - ``acc[n, i, j]``: the sums
    - ``y``: the output, cut to its shape, with the epilogue
    """
    H, W, s, channels = workload.H, workload.W, workload.stride, workload.out_channels
    down, across = workload.used_taps
    planes, d = workload.B * channels, workload.dilation
    rows = ceil_div(workload.out_height, tile_rows) * tile_rows
    columns = ceil_div(workload.out_width, tile_columns) * tile_columns
    height, width = (rows - 1) * s + down.span, (columns - 1) * s + across.span
    top, left = down.before, across.before
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
        channel = n % channels // workload.multiplier
        at = workload.place(n // channels, channel, h - top, v - left)
        value = x[at].astype("float32")
        if not inside:
            return value
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0.0, "float32"))

    xp = te.compute((planes, height, width), staged, name="xp")
    wp = te.compute(
        (planes, down.count, across.count),
        lambda n, ky, kx: w[
            n % channels, 0, *workload.tap(ky + down.first, kx + across.first)
        ].astype("float32"),
        name="wp",
    )
    ky = te.reduce_axis((0, down.count), name="ky")
    kx = te.reduce_axis((0, across.count), name="kx")
    acc = te.compute(
        (planes, rows, columns),
        lambda n, i, j: te.sum(
            xp[n, i * s + ky * d, j * s + kx * d] * wp[n, ky, kx], axis=[ky, kx]
        ),
        name="acc",
    )

    def stored(*at: Any) -> Any:
        b, c, i, j = workload.axes(at)
        return apply_epilogue(workload, acc[b * channels + c, i, j], added, c, at)

    y = te.compute(workload.output.shape, stored, name="y")
    return te.create_prim_func([x, w, *added, y])


def guarded(workload: DepthwiseConv2dWorkload, one_stage: bool) -> Any:
    """Return the unscheduled program in which every tap checks whether it meets padding.

    It is a TIR function. The sums are float32 and in the output's layout. If ``one_stage``, they
    are the output ``y`` itself, else a separate stage ``sums``.
    """
    H, W, s, d = workload.H, workload.W, workload.stride, workload.dilation
    (height, width), (top, left, _, _) = workload.kernel, workload.pads
    x, w, *added = placeholders(workload)
    ky, kx = te.reduce_axis((0, height), name="ky"), te.reduce_axis((0, width), name="kx")

    def product(*at: Any) -> Any:
        b, c, i, j = workload.axes(at)
        row, column = i * s + ky * d, j * s + kx * d
        source = workload.place(b, c // workload.multiplier, row - top, column - left)
        sample = tirx.if_then_else(
            tirx.all(row >= top, row < H + top, column >= left, column < W + left),
            x[source].astype("float32"),
            tirx.const(0.0, "float32"),
        )
        return te.sum(sample * w[c, 0, *workload.tap(ky, kx)].astype("float32"), axis=[ky, kx])

    sums = te.compute(workload.output.shape, product, name="y" if one_stage else "sums")
    if one_stage:
        return te.create_prim_func([x, w, sums])
    y = te.compute(
        workload.output.shape,
        lambda *at: apply_epilogue(workload, sums[at], added, workload.axes(at)[1], at),
        name="y",
    )
    return te.create_prim_func([x, w, *added, y])
