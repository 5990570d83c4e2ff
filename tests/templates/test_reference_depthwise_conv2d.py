"""The float64 reference of depthwise_conv2d equals the definition, by either method and in blocks
of any size."""

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.depthwise_conv2d import sums_exact as room
from templates.depthwise_conv2d.reference import reference
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.shapes import basic, windows

TAKES = {"direct": 63 * 63, "transformed": 0}
"""For each method, the value of DIRECT_TAPS with which every kernel takes it."""


@st.composite
def tiny(draw: st.DrawFn) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload(
        B=draw(st.integers(1, 2)),
        C=draw(st.integers(1, 3)),
        H=draw(st.integers(1, 6)),
        W=draw(st.integers(1, 6)),
        **draw(basic([1, 3, 5, 9]) | windows(most=5)),
    )


def drawn(workload: DepthwiseConv2dWorkload, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(each.shape, dtype=np.float32) for each in workload.inputs)
    return x, w


def naive(workload: DepthwiseConv2dWorkload, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the outputs by the definition, one after the other."""
    (KH, KW), s, d = workload.kernel, workload.stride, workload.dilation
    top, left, bottom, right = workload.pads
    channels_last = workload.layout == "NHWC"
    planes = np.moveaxis(x, 3, 1) if channels_last else x
    padded = np.pad(planes.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    shape = (workload.B, workload.out_channels, workload.out_height, workload.out_width)
    result = np.empty(shape)
    for b, c, i, j in np.ndindex(*shape):
        rows, columns = (slice(at, at + n * d, d) for at, n in ((i * s, KH), (j * s, KW)))
        window = padded[b, c // workload.multiplier, rows, columns]
        result[b, c, i, j] = (window * w[c, 0].astype(np.float64)).sum()
    return np.moveaxis(result, 1, 3) if channels_last else result


def assert_exact(workload: DepthwiseConv2dWorkload, seed: int = 0) -> None:
    x, w = drawn(workload, seed)
    result, exact = reference(workload, x, w), naive(workload, x, w)
    assert result.dtype == np.float64
    assert result.shape == exact.shape
    # a transform's rounding errors grow with these norms; a single sum may cancel to less
    assert np.abs(result - exact).max() <= 1e-15 * np.linalg.norm(x) * np.linalg.norm(w)


@pytest.mark.parametrize("way", TAKES)
@given(tiny(), st.integers(0, 2**32))
def test_reference_equals_the_definition(
    way: str, workload: DepthwiseConv2dWorkload, seed: int
) -> None:
    with patch.object(room, "DIRECT_TAPS", TAKES[way]):
        assert_exact(workload, seed)


@pytest.mark.parametrize("way", TAKES)
@given(tiny(), st.integers(1, 40), st.integers(1, 80))
def test_reference_does_not_depend_on_the_size_of_tiles_and_blocks(
    way: str, workload: DepthwiseConv2dWorkload, tile: int, block: int
) -> None:
    with (
        patch.object(room, "DIRECT_TAPS", TAKES[way]),
        patch.object(room, "TILE", tile),
        patch.object(room, "BLOCK", block),
    ):
        assert_exact(workload)


@pytest.mark.parametrize(
    ("H", "W", "K", "stride"), [(70, 81, 9, 1), (70, 81, 15, 2), (130, 64, 63, 1), (1, 999, 63, 2)]
)
def test_direct_and_transformed_references_agree_on_large_kernels(
    H: int, W: int, K: int, stride: int
) -> None:
    workload = DepthwiseConv2dWorkload(B=2, C=2, H=H, W=W, K=K, stride=stride)
    x, w = drawn(workload)
    results = []
    for taps in TAKES.values():
        with patch.object(room, "DIRECT_TAPS", taps), patch.object(room, "TILE", 4096):
            results.append(reference(workload, x, w))
    direct, transformed = results
    assert np.abs(direct - transformed).max() <= 1e-14 * np.abs(direct).max()


def test_reference_needs_only_blocks_of_memory_beside_its_result() -> None:
    workload = DepthwiseConv2dWorkload(B=8, C=4, H=512, W=512, K=9)
    x, w = drawn(workload)
    tracemalloc.start()
    try:
        result = reference(workload, x, w)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < result.nbytes + 16 * 8 * room.BLOCK
    assert peak < 3 * result.nbytes
