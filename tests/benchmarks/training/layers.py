"""The layers whose gradients are measured: those of the page of limits, and a causal layer."""

from __future__ import annotations

from tests.benchmarks.limits.shapes import LAYERS, STRIDE_2, Shape

DIRECTIONS = {
    "forward": "forward",
    "backward_input": "input gradient",
    "backward_weight": "weight gradient",
}
STRIDES = {1: LAYERS, 2: STRIDE_2}
FLOAT32 = "float32 96×56² k7 weight gradient"
CAUSAL = "causal 1×12288×16384 k4 SiLU, all gradients"


def named(stride: int) -> list[str]:
    """Return the names of the layers of a stride."""
    end = "" if stride == 1 else f" s{stride}"
    return [f"{channels}×{size}² k{kernel}{end}" for channels, size, kernel in STRIDES[stride]]


def shapes() -> list[Shape]:
    """Return every layer in every direction, then a float32 layer and a causal layer.

    The layers have batches of 32, channels last, in bfloat16.
    """
    found = []
    for stride, layers in STRIDES.items():
        for name, (channels, size, kernel) in zip(named(stride), layers, strict=True):
            fields = {"B": 32, "C": channels, "H": size, "W": size, "K": kernel, "stride": stride}
            fields |= {"layout": "NHWC", "dtype": "bfloat16"}
            for direction, says in DIRECTIONS.items():
                way = fields | {"direction": direction}
                found.append(Shape(f"{name} {says}", "layers", "depthwise_conv2d", way))
    first = next(shape for shape in found if shape.name == "96×56² k7 weight gradient")
    causal = {"C": 12288, "M": 16384, "N": 4, "mode": "causal", "kind": "correlate"}
    causal |= {"bias": True, "activation": "silu", "dtype": "bfloat16", "direction": "backward"}
    return [
        *found,
        Shape(FLOAT32, "others", first.operator, first.fields | {"dtype": "float32"}),
        Shape(CAUSAL, "others", "conv1d", causal),
    ]
