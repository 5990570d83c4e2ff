"""The CUDA template for one kernel for each channel: the elements that lanes share, the outputs
that a grid covers, and its results, emulated on a CPU."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.schedules import window
from templates.conv1d.cuda.window import CudaWindow, blocks
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from tests.templates import emulated
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4

SIGNALS = {"B": 2, "C": 24, "M": 1024, "N": 4, "mode": "causal", "dtype": "float16"}


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(SIGNALS | fields)


@pytest.mark.parametrize(
    ("fields", "shared"),
    [
        ({}, True),
        ({"N": 9}, True),
        ({"N": 10}, False),
        ({"N": 17, "mode": "same"}, True),
        ({"N": 18, "mode": "same"}, False),
        ({"N": 3, "dilation": 4}, True),
        ({"N": 3, "dilation": 5}, False),
        ({"dtype": "float32", "N": 5}, True),
        ({"dtype": "float32", "N": 6}, False),
        ({"stride": 2}, False),
        ({"mode": None, "padding": [0, 0]}, True),
        ({"mode": None, "padding": [5, 0]}, False),
        ({"M": 1023}, False),
        ({"M": 40}, False),
    ],
    ids=str,
)
def test_lanes_share_inputs_only_if_outputs_reach_one_vector_on_either_side(
    fields: dict[str, Any], shared: bool
) -> None:
    """The space has the way to read "lanes" if a lane's outputs reach at most one vector before and
    one behind its own, at stride 1, with rows of whole vectors that are not too short."""
    signals = workload(**fields)
    space = CudaWindow().space(signals, H200)
    assert any(config["reads"] == "lanes" for config in space) is shared


LENGTHS = st.fixed_dictionaries(
    {
        "B": st.integers(1, 5),
        "M": st.integers(1, 9000),
        "N": st.integers(2, 9),
        "mode": st.sampled_from(["full", "same", "valid", "causal"]),
    }
)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LENGTHS, place=st.floats(0, 1, exclude_max=True))
def test_a_grid_covers_all_outputs(fields: dict[str, Any], place: float) -> None:
    if fields["mode"] == "valid" and fields["M"] < fields["N"]:
        return
    signals, template = workload(**fields), CudaWindow()
    space = template.space(signals, H200)
    config = space[int(place * len(space))]
    together = 32 if config["reads"] == "lanes" else 1
    threads = blocks(signals, config) * config["threads"]
    outputs = config["outputs"] * config["steps"]
    of_row = -(-signals.length // (together * outputs)) * together
    assert of_row * outputs >= signals.length
    assert signals.rows * of_row <= threads < signals.rows * of_row + config["threads"]
    assert config["threads"] % together == 0


@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.parametrize("reads", ["window", "lanes", "taps"])
@pytest.mark.parametrize("added", [{}, {"bias": True}, {"bias": True, "residual": True}], ids=str)
def test_every_way_to_read_is_right(reads: str, apart: int, added: dict[str, Any]) -> None:
    """Each way to read is right on inputs at a vector's boundary and one element behind it."""
    few = {"C": 3, "F": 6, "M": 504, "dtype": "float32", "kind": "convolve"}
    signals = workload(**few | added | ({"dilation": 9} if reads == "taps" else {}))
    config = CudaWindow().default(signals, H200) | {"outputs": 4, "vector": 4, "steps": 2}
    config["reads"] = reads
    assert config in CudaWindow().space(signals, H200)
    own = render(
        window.substitutions(signals, config), window.SOURCE, window.source_of_sums(config)
    )
    launch = Launch("conv1d_window", blocks(signals, config), config["threads"], 0)
    text = f"constexpr bool HAS_BIAS = {int(signals.bias)};\n{own}"
    assert emulated.error(signals, text, [launch], apart=apart) < 1e-6


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("fields", [{}, {"N": 9, "mode": "same", "residual": True}], ids=str)
def test_lanes_exchange_elements_by_shuffles_without_a_stack(
    limits: Any, fields: dict[str, Any]
) -> None:
    template, signals = CudaWindow(), workload(bias=True, activation="silu", **fields)
    lanes = {"outputs": 8, "vector": 8, "steps": 4, "reads": "lanes"}
    config = template.default(signals, limits) | lanes
    assert config in template.space(signals, limits)
    text = source(template, signals, config, limits)
    assert "__shfl_sync" in text
    registers, stack = registers_and_stack(cubin(text, limits.arch))
    assert (registers <= 128, stack) == (True, 0)
