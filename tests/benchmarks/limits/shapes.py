"""The shapes that are tuned for the page of limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LAYERS: tuple[tuple[int, int, int], ...] = (
    # channels, height and width, kernel: MobileNetV2
    (32, 112, 3),
    (96, 112, 3),
    (144, 56, 3),
    (192, 28, 3),
    (384, 14, 3),
    (960, 7, 3),
    # EfficientNet-B0
    (240, 28, 5),
    (672, 14, 5),
    (1152, 7, 5),
    # ConvNeXt-T
    (96, 56, 7),
    (192, 28, 7),
    (384, 14, 7),
    (768, 7, 7),
    # RepLKNet
    (128, 56, 31),
    (256, 28, 29),
    (512, 14, 27),
    (1024, 7, 13),
)
STRIDE_2: tuple[tuple[int, int, int], ...] = (
    # channels, height and width of the input, kernel: MobileNetV2, and MobileNetV3's first
    (96, 112, 3),
    (144, 56, 3),
    (192, 28, 3),
    (576, 14, 3),
    (64, 112, 3),
    # EfficientNet-B0, and MobileNetV3's
    (240, 28, 3),
    (72, 56, 5),
    (672, 14, 5),
)
ON_A_CPU = (*LAYERS[:6], *LAYERS[9:13])


@dataclass(frozen=True)
class Shape:
    """A shape that is tuned: a workload's operator and fields, with a name and a group of the page.

    With ``only``, just the templates of these names are searched.
    """

    name: str
    group: str
    operator: str
    fields: dict[str, Any]
    only: tuple[str, ...] | None = None


def _conv1d(text: str, only: tuple[str, ...] | None = None, **fields: Any) -> Shape:
    return Shape(text, "conv1d", "conv1d", fields, only)


def _layers(
    batch: int, layers: tuple[tuple[int, int, int], ...], kind: str = "", **fields: Any
) -> list[Shape]:
    """Return depthwise shapes of some layers. ``kind`` names their common ``fields``, for example
    "NHWC float16". It becomes part of their names and group."""
    return [
        Shape(
            f"depthwise{kind and ' '}{kind} B={batch} {channels}×{size}² k{kernel}",
            f"depthwise{kind and '_'}{kind.replace(' ', '_')}_b{batch}",
            "depthwise_conv2d",
            {"B": batch, "C": channels, "H": size, "W": size, "K": kernel, **fields},
        )
        for channels, size, kernel in layers
    ]


def _signals(text: str, group: str, **fields: Any) -> Shape:
    """Return a shape of conv1d that correlates, as PyTorch's does."""
    return Shape(
        f"{group.replace('_', ' ')} {text}", group, "conv1d", {"kind": "correlate"} | fields
    )


def _causal(layout: str = "") -> list[Shape]:
    """Return causal shapes with one kernel for each channel, as state-space models, text to speech
    and conformers have them."""
    group = f"conv1d_channels{layout and '_'}{layout}"
    fields: dict[str, Any] = {"mode": "causal"} | ({"layout": layout} if layout else {})
    mamba = fields | {"N": 4, "dtype": "bfloat16", "bias": True, "activation": "silu"}
    return [
        _signals("1×12288×16384 k4 SiLU", group, C=12288, M=16384, **mamba),
        _signals("1×2048×8192 k4 SiLU", group, C=2048, M=8192, **mamba),
        _signals("16×768×1024 k5", group, B=16, C=768, M=1024, N=5, dtype="float16", **fields),
    ]


def _gated(text: str, **fields: Any) -> Shape:
    """Return a shape of LFM2's blocks."""
    form = {"N": 3, "mode": "causal", "layout": "NWC", "gated": True, "dtype": "bfloat16"}
    return _signals(text, "conv1d_gated", **form, **fields)


def _dense(text: str, C: int, M: int, N: int, dilation: int = 1, dtype: str = "float16") -> Shape:
    fields = {"C": C, "M": M, "N": N, "dilation": dilation, "groups": 1, "dtype": dtype}
    return _signals(text, "conv1d_dense", mode="same", **fields)


def _bank(text: str, **fields: Any) -> Shape:
    return _signals(text, "conv1d_banks", **fields)


def _last(dtype: str) -> dict[str, Any]:
    return {"layout": "NHWC", "dtype": dtype}


_HALF: dict[str, Any] = {"mode": "same", "dtype": "float16"}
_OF_MODELS = [
    *_causal(),
    _signals("16×8192×8192 k5", "conv1d_channels", B=16, C=8192, M=8192, N=5, **_HALF),
    _signals("64×768×202 k31", "conv1d_channels", B=64, C=768, M=202, N=31, **_HALF),
    _signals("4×512×8000 k3 d32", "conv1d_channels", B=4, C=512, M=8000, N=3, dilation=32, **_HALF),
    _signals("16×512×500 k31", "conv1d_channels", B=16, C=512, M=500, N=31, **_HALF),
    *_causal("NWC"),
    _gated("8×1024×2048 k3", B=8, C=1024, M=2048),
    _gated("1×1024×4096 k3", C=1024, M=4096),
    _dense("64→64 48000 k3", 64, 48_000, 3),
    _dense("32→32 240000 k11", 32, 240_000, 11),
    _dense("256→256 6400 k11 d5", 256, 6_400, 11, 5),
    _dense("192→192 44100 k7 d9", 192, 44_100, 7, 9),
    *(
        _dense(f"{C}→{C} {M} k{N} float32", C, M, N, dtype="float32")
        for C, M, N in ((256, 6_400, 7), (512, 3_000, 3), (1024, 1_500, 5))
    ),
    _bank(
        "8×1→512 160000 k10 s5", B=8, F=512, M=160_000, N=10, stride=5, **_HALF | {"mode": "valid"}
    ),
    _bank("1→64 480000 k512 float16", F=64, M=480_000, N=512, **_HALF),
    _bank("1→64 480000 k512", F=64, M=480_000, N=512, mode="same"),
    _bank("1→64 48000 k2048", F=64, M=48_000, N=2048, mode="valid"),
    _bank("64 signals 48000 k512", B=64, M=48_000, N=512, mode="valid"),
    _bank("16×1→257 160000 k400 s160", B=16, F=257, M=160_000, N=400, stride=160, mode="valid"),
]
_INFERENCE: dict[str, Any] = {"layout": "NHWC", "bias": True, "activation": "relu6"}
_ON_A_CPU = [
    _signals(
        "1×768×1024 k4 SiLU",
        "conv1d_channels",
        **{"C": 768, "M": 1024, "N": 4, "mode": "causal", "activation": "silu"},
    ),
    _bank("64 signals 48000 k512", B=64, M=48_000, N=512, mode="valid"),
]
_AS_LONG: dict[str, Any] = {"C": 768, "mode": "causal", "dtype": "float16"}
_AS_LONG_AS_THE_SIGNAL = [
    _signals(f"{B}×768×{M}", "conv1d_long", B=B, M=M, N=M, **_AS_LONG)
    for B, M in ((64, 1024), (64, 8192), (8, 32768))
]
FULL = _conv1d("conv1d full 16384×32", M=16384, N=32)
_LONG: dict[str, Any] = {"M": 1_000_000, "N": 2047, "mode": "valid", "kind": "correlate"}
VALID = _conv1d("conv1d valid 1000000×2047", **_LONG)
_LONGER = [
    _conv1d("conv1d full 4096×4096", M=4096, N=4096),
    *(
        _conv1d(f"conv1d valid 1000000×{taps}", **_LONG | {"N": taps})
        for taps in (255, 4095, 8191, 16383, 65535)
    ),
]

SHAPES: dict[str, list[Shape]] = {
    "cuda": [
        FULL,
        VALID,
        _conv1d("conv1d valid 1000000×2047 at 1e-3", max_error=1e-3, **_LONG),
        _conv1d("conv1d valid 1500000×127", M=1_500_000, N=127, mode="valid", kind="correlate"),
        _conv1d("conv1d same 1500000×2047", M=1_500_000, N=2047, mode="same", kind="correlate"),
        _conv1d("direct alone, valid 1000000×2047", ("direct",), **_LONG),
        *_LONGER,
        *_layers(32, LAYERS),
        *_layers(1, LAYERS),
        *_layers(32, STRIDE_2, "s2", stride=2),
        *_layers(1, STRIDE_2, "s2", stride=2),
        *_layers(32, LAYERS, "NHWC float16", **_last("float16")),
        *_layers(32, LAYERS, "NHWC bfloat16", **_last("bfloat16")),
        *_layers(1, LAYERS, "NHWC bfloat16", **_last("bfloat16")),
        *_layers(32, STRIDE_2, "NHWC bfloat16 s2", stride=2, **_last("bfloat16")),
        *_OF_MODELS,
        *_AS_LONG_AS_THE_SIGNAL,
    ],
    "cpu": [
        FULL,
        VALID,
        *_layers(1, ON_A_CPU),
        *_layers(1, STRIDE_2, "s2", stride=2),
        *_layers(1, ON_A_CPU, "NHWC ReLU6", **_INFERENCE),
        *_layers(1, STRIDE_2[:4], "NHWC ReLU6 s2", stride=2, **_INFERENCE),
        *_ON_A_CPU,
    ],
}

FLOOR: dict[str, tuple[float, float]] = {"NVIDIA H200": (60e12, 4.3e12)}
"""By device, the float32 operations and bytes a second from which floors follow. Large products and
copies that were measured on the device come near these rates. For other devices, the best's own
roofline counts."""
