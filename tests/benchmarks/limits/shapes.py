"""The shapes that are tuned for the page of limits, and the bars that their times are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    # the same, of the input: MobileNetV2, and V3's first
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
    """What is tuned; with ``only``, by the templates of those names alone."""

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
    """``kind`` names what these have in common."""
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
    """PyTorch's conv1d, which correlates."""
    return Shape(
        f"{group.replace('_', ' ')} {text}", group, "conv1d", {"kind": "correlate"} | fields
    )


def _causal(layout: str = "") -> list[Shape]:
    """One kernel for each channel, as state-space models, TTS and conformers have them."""
    group = f"conv1d_channels{layout and '_'}{layout}"
    fields: dict[str, Any] = {"mode": "causal"} | ({"layout": layout} if layout else {})
    mamba = fields | {"N": 4, "dtype": "bfloat16", "bias": True, "activation": "silu"}
    return [
        _signals("1×12288×16384 k4 SiLU", group, C=12288, M=16384, **mamba),
        _signals("1×2048×8192 k4 SiLU", group, C=2048, M=8192, **mamba),
        _signals("16×768×1024 k5", group, B=16, C=768, M=1024, N=5, dtype="float16", **fields),
    ]


def _dense(text: str, C: int, M: int, N: int, dilation: int = 1) -> Shape:
    fields = {"C": C, "M": M, "N": N, "dilation": dilation, "groups": 1, "dtype": "float16"}
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
    _dense("64→64 48000 k3", 64, 48_000, 3),
    _dense("32→32 240000 k11", 32, 240_000, 11),
    _dense("256→256 6400 k11 d5", 256, 6_400, 11, 5),
    _dense("192→192 44100 k7 d9", 192, 44_100, 7, 9),
    _bank(
        "8×1→512 160000 k10 s5", B=8, F=512, M=160_000, N=10, stride=5, **_HALF | {"mode": "valid"}
    ),
    _bank("1→64 480000 k512 float16", F=64, M=480_000, N=512, **_HALF),
    _bank("1→64 480000 k512", F=64, M=480_000, N=512, mode="same"),
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
_FULL = _conv1d("conv1d full 16384×32", M=16384, N=32)
_LONG: dict[str, Any] = {"M": 1_000_000, "N": 2047, "mode": "valid", "kind": "correlate"}
_VALID = _conv1d("conv1d valid 1000000×2047", **_LONG)

SHAPES: dict[str, list[Shape]] = {
    "cuda": [
        _FULL,
        _VALID,
        _conv1d("conv1d valid 1000000×2047 at 1e-3", max_error=1e-3, **_LONG),
        _conv1d("conv1d valid 1500000×127", M=1_500_000, N=127, mode="valid", kind="correlate"),
        _conv1d("conv1d same 1500000×2047", M=1_500_000, N=2047, mode="same", kind="correlate"),
        _conv1d("direct alone, valid 1000000×2047", ("direct",), **_LONG),
        *_layers(32, LAYERS),
        *_layers(1, LAYERS),
        *_layers(32, STRIDE_2, "s2", stride=2),
        *_layers(1, STRIDE_2, "s2", stride=2),
        *_layers(32, LAYERS, "NHWC float16", **_last("float16")),
        *_layers(32, LAYERS, "NHWC bfloat16", **_last("bfloat16")),
        *_layers(1, LAYERS, "NHWC bfloat16", **_last("bfloat16")),
        *_layers(32, STRIDE_2, "NHWC bfloat16 s2", stride=2, **_last("bfloat16")),
        *_OF_MODELS,
    ],
    "cpu": [
        _FULL,
        _VALID,
        *_layers(1, ON_A_CPU),
        *_layers(1, STRIDE_2, "s2", stride=2),
        *_layers(1, ON_A_CPU, "NHWC ReLU6", **_INFERENCE),
        *_layers(1, STRIDE_2[:4], "NHWC ReLU6 s2", stride=2, **_INFERENCE),
        *_ON_A_CPU,
    ],
}

FLOOR: dict[str, tuple[float, float]] = {"NVIDIA H200": (60e12, 4.3e12)}
"""float32 operations and bytes a second that floors are told from, where they were measured: large
products and copies come near them. Elsewhere the device's own peaks count."""

Figure = Literal["µs", "× empty kernel", "× floor", "× as fast"]


@dataclass(frozen=True)
class Bar:
    """``figure`` of every shape that ``shapes`` (patterns of names) stands for, or its geometric
    mean over them, has to be at most or at least ``limit``. "× as fast" compares with the fastest
    of the peers that ``over`` (a pattern of names) stands for."""

    says: str
    shapes: str
    figure: Figure
    limit: float
    at: Literal["most", "least"] = "most"
    mean: bool = False
    over: str = "*"


LAYOUTS = "pytorch N*"


_OF_MODELS_MOST: tuple[tuple[str, float], ...] = (
    ("conv1d channels 1×12288×16384 k4 SiLU", 205),
    ("conv1d channels 1×2048×8192 k4 SiLU", 18),
    ("conv1d channels 16×768×1024 k5", 14),
    ("conv1d channels 16×8192×8192 k5", 1080),
    ("conv1d channels 64×768×202 k31", 15),
    ("conv1d channels 4×512×8000 k3 d32", 18),
    ("conv1d channels 16×512×500 k31", 6),
    ("conv1d dense 64→64 48000 k3", 7),
    ("conv1d dense 32→32 240000 k11", 18),
    ("conv1d dense 256→256 6400 k11 d5", 26),
    ("conv1d dense 192→192 44100 k7 d9", 60),
    ("conv1d banks 8×1→512 160000 k10 s5", 90),
    ("conv1d banks 1→64 480000 k512 float16", 90),
    ("conv1d banks 1→64 480000 k512", 220),
    ("conv1d banks 64 signals 48000 k512", 35),
    ("conv1d banks 16×1→257 160000 k400 s160", 40),
)


def _channels_last(dtype: str) -> list[Bar]:
    kind = f"depthwise NHWC {dtype} B=32"
    return [
        Bar(
            f"{kind}: 3 times the faster of PyTorch's layouts, geometric mean",
            f"{kind} *",
            "× as fast",
            3,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            f"{kind}: none slower than the faster of PyTorch's layouts",
            f"{kind} *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(f"{kind}, k ≤ 5: within 1.35 of the floor", f"{kind} * k[35]", "× floor", 1.35),
    ]


BARS: dict[str, list[Bar]] = {
    "cuda": [
        Bar("conv1d: faster than every peer", "conv1d [fsv]*", "× as fast", 1, "least"),
        Bar("conv1d full 16384×32: at most 1.4 µs", _FULL.name, "µs", 1.4),
        Bar(
            "conv1d full 16384×32: at most 2.2 times the empty kernel",
            _FULL.name,
            "× empty kernel",
            2.2,
        ),
        Bar("conv1d valid 1000000×2047 at 1e-5: at most 24 µs", _VALID.name, "µs", 24),
        Bar(
            "conv1d valid 1000000×2047 at 1e-3: at most 13 µs",
            "conv1d valid 1000000×2047 at 1e-3",
            "µs",
            13,
        ),
        Bar(
            "conv1d valid 1000000×2047, direct alone: at most 78 µs",
            "direct alone, valid 1000000×2047",
            "µs",
            78,
        ),
        Bar("conv1d valid 1500000×127: at most 7 µs", "conv1d valid 1500000×127", "µs", 7),
        Bar("conv1d same 1500000×2047: at most 36 µs", "conv1d same 1500000×2047", "µs", 36),
        Bar(
            "depthwise at B=32: 3 times the faster of PyTorch's layouts, geometric mean",
            "depthwise B=32 *",
            "× as fast",
            3,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            "depthwise at B=32: none slower than the faster of PyTorch's layouts",
            "depthwise B=32 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "depthwise at B=32, k ≤ 5: within 1.35 of the floor",
            "depthwise B=32 * k[35]",
            "× floor",
            1.35,
        ),
        Bar(
            "depthwise at B=32, 128×56² k31: under its float32 floor of 411 µs",
            "depthwise B=32 128×56² k31",
            "µs",
            411,
        ),
        Bar(
            "depthwise at B=1: 1.8 times the faster of PyTorch's layouts, geometric mean",
            "depthwise B=1 *",
            "× as fast",
            1.8,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            "depthwise at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise B=1 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "depthwise with stride 2 at B=32: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=32 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "depthwise with stride 2 at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=1 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        *_channels_last("float16"),
        *_channels_last("bfloat16"),
        Bar(
            "depthwise NHWC bfloat16 B=32 96×56² k7: at most 13 µs",
            "depthwise NHWC bfloat16 B=32 96×56² k7",
            "µs",
            13,
        ),
        Bar(
            "depthwise NHWC bfloat16 B=1: twice the faster of PyTorch's layouts, geometric mean",
            "depthwise NHWC bfloat16 B=1 *",
            "× as fast",
            2,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            "depthwise NHWC bfloat16 with stride 2 at B=32: none slower than PyTorch",
            "depthwise NHWC bfloat16 s2 B=32 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        *(Bar(f"{name}: at most {most} µs", name, "µs", most) for name, most in _OF_MODELS_MOST),
    ],
    "cpu": [
        Bar(
            "conv1d full 16384×32: 6 times np.convolve",
            _FULL.name,
            "× as fast",
            6,
            "least",
            over="numpy.convolve",
        ),
        Bar(
            "conv1d valid 1000000×2047: faster than SciPy's oaconvolve",
            _VALID.name,
            "× as fast",
            1,
            "least",
            over="scipy.oaconvolve",
        ),
        Bar(
            "depthwise at B=1: faster than the faster of PyTorch's layouts, geometric mean",
            "depthwise B=1 *",
            "× as fast",
            1,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            "depthwise with stride 2 at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=1 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "depthwise, channels last, with bias and ReLU6: twice the faster of PyTorch's layouts, "
            "geometric mean",
            "depthwise NHWC ReLU6 *",
            "× as fast",
            2,
            "least",
            mean=True,
            over=LAYOUTS,
        ),
        Bar(
            "depthwise, channels last, with bias and ReLU6: none slower than PyTorch",
            "depthwise NHWC ReLU6 *",
            "× as fast",
            1,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "conv1d causal 1×768×1024: 3 times the faster of PyTorch's layouts",
            "conv1d channels 1×768×1024 *",
            "× as fast",
            3,
            "least",
            over=LAYOUTS,
        ),
        Bar(
            "conv1d 64 signals: 3 times SciPy's oaconvolve",
            "conv1d banks 64 signals *",
            "× as fast",
            3,
            "least",
            over="scipy.oaconvolve",
        ),
    ],
}
