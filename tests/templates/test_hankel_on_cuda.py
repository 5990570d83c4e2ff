"""The tensor-core template for one kernel for each channel: the workloads that it serves, its
vectors, and its registers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.hankel import CudaHankel, parts, segments, vectors
from templates.conv1d.workload import Conv1dWorkload
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

LAYER = {"B": 4, "C": 24, "M": 202, "N": 31, "mode": "same", "dtype": "float16"}


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"F": 72, "N": 96, "bias": True, "activation": "gelu"}, True),
        ({"M": 7, "kind": "correlate", "mode": "causal"}, True),
        ({"C": 1, "layout": "NWC"}, True),
        ({"dtype": "float32"}, False),
        ({"groups": 1}, False),
        ({"N": 97}, False),
        ({"N": 1}, False),
        ({"stride": 2}, False),
        ({"dilation": 2}, False),
        ({"layout": "NWC"}, False),
        ({"B": 1, "C": 1}, False),
    ],
    ids=str,
)
def test_hankel_serves_a_short_kernel_of_each_channel(fields: dict[str, Any], served: bool) -> None:
    assert CudaHankel().applies(workload(**fields), H200) is served


def test_bfloat16_needs_newer_tensor_cores() -> None:
    layer = workload(dtype="bfloat16")
    assert [CudaHankel().applies(layer, limits) for limits in (T4, H200)] == [False, True]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (8, 8)),  # 202 samples are no whole vectors, but 24 rows of them are
        ({"C": 3, "F": 12}, (2, 8)),
        ({"C": 3, "M": 201}, (1, 1)),
        ({"C": 4, "M": 201, "mode": "full"}, (4, 4)),
    ],
    ids=str,
)
def test_vectors_divide_all_rows_of_a_signal_together(
    fields: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert vectors(workload(**fields), {"vector": 8, "width": 32}) == expected


@settings(max_examples=200, derandomize=True, deadline=None, database=None)
@given(
    C=st.integers(1, 40),
    several=st.integers(1, 3),
    M=st.integers(1, 300),
    N=st.integers(2, 96),
    before=st.integers(0, 99),
    vector=st.sampled_from([1, 2, 4, 8]),
    width=st.sampled_from([16, 32]),
)
def test_hankel_segments_and_parts_cover_every_channel(
    C: int, several: int, M: int, N: int, before: int, vector: int, width: int
) -> None:
    fields = {"mode": None, "padding": (before, N), "B": 2, "C": C, "F": several * C}
    layer, config = workload(M=M, N=N, **fields), {"vector": vector, "width": width}
    read, written = vectors(layer, config)
    reach = 4 * max(read, 4) * parts(layer, config)
    for b in range(2):
        for f in range(several * C):  # the same formulas as in hankel.cu
            c = f // several
            shift = f * layer.length % written
            pad = (c * M - shift - before) % read
            assert ((b * several * C + f) * layer.length - shift) % written == 0
            assert ((b * C + c) * M - shift - before - pad) % read == 0
            assert segments(layer, config) * width >= layer.length + shift
            assert reach >= width - 1 + N + pad


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize(
    "knobs",
    [
        {"width": 32, "vector": 8, "stages": 2},
        {"width": 32, "vector": 4, "stages": 1},
        {"width": 16, "vector": 4, "stages": 2},
        {"width": 16, "vector": 2, "stages": 1, "resident": 8},
    ],
    ids=str,
)
def test_hankel_keeps_everything_in_registers(knobs: dict[str, Any], limits: Any) -> None:
    template, layer = CudaHankel(), workload(B=64, C=768)
    config = template.default(layer, limits) | knobs
    assert config in template.space(layer, limits)
    registers, stack = taken(template, layer, config, limits)
    assert (registers <= 128, stack) == (True, 0)
