"""The bars of the page of limits: limits that measured times should keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.limits.shapes import FULL, VALID

Figure = Literal["µs", "× empty kernel", "× floor", "× as fast"]


@dataclass(frozen=True)
class Bar:
    """A limit on a figure of some shapes.

    The ``figure`` of every shape whose name matches the pattern ``shapes`` must be at most or at
    least ``limit``. With ``mean``, the geometric mean over these shapes must be. "× as fast"
    compares with the fastest peer whose name matches the pattern ``over``. ``says`` is the bar's
    text.
    """

    says: str
    shapes: str
    figure: Figure
    limit: float
    at: Literal["most", "least"] = "most"
    mean: bool = False
    over: str = "*"


LAYOUTS = "pytorch N*"


def _fast(says: str, shapes: str, times: float, *, over: str = LAYOUTS, mean: bool = False) -> Bar:
    """Return a bar: shapes must be at least ``times`` times as fast as the peers ``over``."""
    return Bar(says, shapes, "× as fast", times, "least", mean, over)


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
    ("conv1d long 64×768×1024", 170),
    ("conv1d long 64×768×8192", 1700),
)

_LONG_KERNELS: tuple[tuple[str, float], ...] = (
    ("conv1d full 4096×4096", 6),
    ("conv1d valid 1000000×255", 6),
    ("conv1d valid 1000000×4095", 11),
    ("conv1d valid 1000000×8191", 16),
    ("conv1d valid 1000000×16383", 24),
    ("conv1d valid 1000000×65535", 35),
)


def _channels_last(dtype: str) -> list[Bar]:
    kind = f"depthwise NHWC {dtype} B=32"
    return [
        _fast(
            f"{kind}: 3 times the faster of PyTorch's layouts, geometric mean",
            f"{kind} *",
            3,
            mean=True,
        ),
        _fast(f"{kind}: none slower than the faster of PyTorch's layouts", f"{kind} *", 1),
        Bar(f"{kind}, k ≤ 5: within 1.35 of the floor", f"{kind} * k[35]", "× floor", 1.35),
    ]


BARS: dict[str, list[Bar]] = {
    "cuda": [
        Bar("conv1d: faster than every peer", "conv1d [fsv]*", "× as fast", 1, "least"),
        Bar("conv1d full 16384×32: at most 1.4 µs", FULL.name, "µs", 1.4),
        Bar(
            "conv1d full 16384×32: at most 2.2 times the empty kernel",
            FULL.name,
            "× empty kernel",
            2.2,
        ),
        Bar("conv1d valid 1000000×2047 at 1e-5: at most 7 µs", VALID.name, "µs", 7),
        Bar(
            "conv1d valid 1000000×2047 at 1e-3: at most 6 µs",
            "conv1d valid 1000000×2047 at 1e-3",
            "µs",
            6,
        ),
        Bar(
            "conv1d valid 1000000×2047, direct alone: at most 78 µs",
            "direct alone, valid 1000000×2047",
            "µs",
            78,
        ),
        Bar("conv1d valid 1500000×127: at most 7 µs", "conv1d valid 1500000×127", "µs", 7),
        Bar("conv1d same 1500000×2047: at most 10 µs", "conv1d same 1500000×2047", "µs", 10),
        *(Bar(f"{name}: at most {most} µs", name, "µs", most) for name, most in _LONG_KERNELS),
        _fast(
            "depthwise at B=32: 3 times the faster of PyTorch's layouts, geometric mean",
            "depthwise B=32 *",
            3,
            mean=True,
        ),
        _fast(
            "depthwise at B=32: none slower than the faster of PyTorch's layouts",
            "depthwise B=32 *",
            1,
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
        _fast(
            "depthwise at B=1: 1.8 times the faster of PyTorch's layouts, geometric mean",
            "depthwise B=1 *",
            1.8,
            mean=True,
        ),
        _fast(
            "depthwise at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise B=1 *",
            1,
        ),
        _fast(
            "depthwise with stride 2 at B=32: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=32 *",
            1,
        ),
        _fast(
            "depthwise with stride 2 at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=1 *",
            1,
        ),
        *_channels_last("float16"),
        *_channels_last("bfloat16"),
        Bar(
            "depthwise NHWC bfloat16 B=32 96×56² k7: at most 13 µs",
            "depthwise NHWC bfloat16 B=32 96×56² k7",
            "µs",
            13,
        ),
        _fast(
            "depthwise NHWC bfloat16 B=1: twice the faster of PyTorch's layouts, geometric mean",
            "depthwise NHWC bfloat16 B=1 *",
            2,
            mean=True,
        ),
        _fast(
            "depthwise NHWC bfloat16 with stride 2 at B=32: none slower than PyTorch",
            "depthwise NHWC bfloat16 s2 B=32 *",
            1,
        ),
        *(Bar(f"{name}: at most {most} µs", name, "µs", most) for name, most in _OF_MODELS_MOST),
        _fast(
            "conv1d long 8×768×32768: 3 times PyTorch's transforms",
            "conv1d long 8×768×32768",
            3,
            over="pytorch fft",
        ),
    ],
    "cpu": [
        _fast("conv1d full 16384×32: 6 times np.convolve", FULL.name, 6, over="numpy.convolve"),
        _fast(
            "conv1d valid 1000000×2047: faster than SciPy's oaconvolve",
            VALID.name,
            1,
            over="scipy.oaconvolve",
        ),
        _fast(
            "depthwise at B=1: faster than the faster of PyTorch's layouts, geometric mean",
            "depthwise B=1 *",
            1,
            mean=True,
        ),
        _fast(
            "depthwise with stride 2 at B=1: none slower than the faster of PyTorch's layouts",
            "depthwise s2 B=1 *",
            1,
        ),
        _fast(
            "depthwise, channels last, with bias and ReLU6: twice the faster of PyTorch's layouts, "
            "geometric mean",
            "depthwise NHWC ReLU6 *",
            2,
            mean=True,
        ),
        _fast(
            "depthwise, channels last, with bias and ReLU6: none slower than PyTorch",
            "depthwise NHWC ReLU6 *",
            1,
        ),
        _fast(
            "conv1d causal 1×768×1024: 3 times the faster of PyTorch's layouts",
            "conv1d channels 1×768×1024 *",
            3,
        ),
        _fast(
            "conv1d 64 signals: 3 times SciPy's oaconvolve",
            "conv1d banks 64 signals *",
            3,
            over="scipy.oaconvolve",
        ),
    ],
}
