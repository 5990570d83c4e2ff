"""The emulation of tensor copies finds a wait that is missing, too weak or of the wrong parity.

A small kernel and the template that uses such copies are right as they are, and wrong after each
change of their text.
"""

from typing import Any

import numpy as np
import pytest

from templates.depthwise_conv2d.cuda.channels_toeplitz import CudaChannelsToeplitz
from templates.depthwise_conv2d.cuda.schedules import channels_toeplitz as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import Launch, render
from templates.kernels.launches.early_launch import WAIT
from templates.kernels.tensor_map import TensorMap
from tests.templates import emulated
from tests.templates.devices import H200
from tests.templates.test_channels_toeplitz_on_cuda import PRODUCTS, TENSOR

LAYER = {"B": 1, "C": 16, "H": 8, "W": 8, "K": 3, "layout": "NHWC", "dtype": "float16"}
ROWS = """
static void rows(tensor_map x, tensor_map y, const void*, const void*, void*, word* shared) {
  const int thread = threadIdx.x;
  char* const barriers = (char*)shared;
  word *const inputs = shared + 64, *const outputs = inputs + 2 * 64;
  const auto fetch = [&](int row) {
    tensor_expect(barriers + row % 2 * 8, 256);
    tensor_fetch(inputs + row % 2 * 64, x, 0, 0, row, 0, barriers + row % 2 * 8);
  };
  const auto leave = [&](int row) { tensor_leave(outputs + row % 3 * 64, y, 0, 0, row, 0); };
  if (thread == 0) tensor_barrier(barriers), tensor_barrier(barriers + 8), fetch(0);
  __syncthreads();  // after barriers are made
  for (int row = 0; row < 8; ++row) {
    tensor_await(barriers + row % 2 * 8, row / 2 % 2);
    __syncthreads();  // before results leave
    if (thread == 0) {
      if (row < 7) fetch(row + 1);
      if (row > 0) leave(row - 1);
      tensor_await_reads<1>();
    }
    outputs[row % 3 * 64 + thread] = inputs[row % 2 * 64 + thread];
  }
  __syncthreads();
  if (thread == 0) leave(7), tensor_await_reads<0>();
}
"""
"""Copies an image row by row."""


def copies_all(source: str) -> bool:
    layer, box = DepthwiseConv2dWorkload.model_validate(LAYER), (1, 1, 8, 16)
    given = [np.arange(n, dtype="f2") for n in (8 * 8 * 16, 16 * 9)]
    given = [each.reshape(a.shape) for each, a in zip(given, layer.inputs, strict=True)]
    launch = Launch("rows", 1, 64, 6 * 64, tuple(TensorMap(name, box) for name in "xy"))
    text = TENSOR[0].read_text() + source
    return np.array_equal(emulated.run(layer, text, [launch], given, 0), given[0])


def changed(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1
    return source.replace(old, new)


def test_kernel_that_awaits_its_tensor_copies_is_right() -> None:
    assert copies_all(ROWS)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("tensor_await_reads<1>();", "", "before a copy had read it"),
        ("tensor_await_reads<1>", "tensor_await_reads<2>", "before a copy had read it"),
        (", tensor_await_reads<0>()", "", "ended before its copies"),
        ("row / 2 % 2);", "1 - row / 2 % 2);", "expects bytes anew"),
        ("row / 2 % 2);", "row / 4 % 2);", "expects bytes anew"),
        ("row / 2 % 2);", "row == 7 ? 0 : row / 2 % 2);", "ended before its copies"),
        ("(row < 7) fetch", "(row < 6) fetch", "copies that no thread starts"),
        ("* 8, 256", "* 8, 128", "other bytes"),
        ("* 8, 256", "* 8, 512", "other bytes"),
        ("__syncthreads();  // after", "//", "has not been made"),
        ("__syncthreads();  // before", "//", "copies that no thread starts"),
        ("leave(row - 1);", "leave(row);", "before a copy had read it"),
    ],
)
def test_kernel_with_a_missing_or_wrong_wait_fails(old: str, new: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        copies_all(changed(ROWS, old, new))


def test_input_read_before_its_copy_arrives_is_wrong() -> None:
    early = "const word early = inputs[row % 2 * 64 + thread];\n    tensor_await"
    source = changed(ROWS, "tensor_await(", f"{early}(")
    assert not copies_all(changed(source, "= inputs[row % 2 * 64 + thread];\n  }", "= early;\n  }"))


RING: dict[str, Any] = {"tile_rows": 1, "stages": 3, "rows": 14, "piece": 0}
HELD = {"tile_rows": 2, "rows": 14, "piece": 1}
READS, MORE = "tensor_await_reads<OUTPUTS - 2>", "tensor_await_reads<OUTPUTS - 1>"


def toeplitz(residual: bool, knobs: dict[str, Any], old: str = "", new: str = "") -> bool:
    """Return whether the template is right if ``new`` replaces ``old`` in its source."""
    fields = LAYER | {"H": 14, "W": 14, "residual": residual}
    layer, template = DepthwiseConv2dWorkload.model_validate(fields), CudaChannelsToeplitz()
    asked = (knobs | {"copies": "tensor"}).items()
    config = next(c for c in template.space(layer, H200) if asked <= c.items())
    text = render(program.numbers(layer, config), WAIT, PRODUCTS, program.SOURCE, *TENSOR)
    text = f"constexpr bool HAS_BIAS = 0;\n{changed(text, old, new) if old else text}"
    launch = program.launch(layer, config)
    return emulated.error(layer, text, [launch]) <= layer.max_error


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("knobs", [RING, HELD], ids=["ring", "held"])
def test_channels_toeplitz_awaits_its_tensor_copies(residual: bool, knobs: dict[str, Any]) -> None:
    assert toeplitz(residual, knobs)


@pytest.mark.parametrize(
    ("residual", "knobs", "old", "new"),
    [
        (False, RING, f"if (!HAS_RESIDUAL) {READS}();", ""),
        (False, RING, f"if (!HAS_RESIDUAL) {READS}", MORE),
        (True, RING, "if (HAS_RESIDUAL) tensor_await_reads<0>();", ""),
        (True, RING, "if (HAS_RESIDUAL) tensor_await_reads<0>", "tensor_await_reads<1>"),
        (False, HELD, f"threadIdx.x == 0) {READS}();", "false) {}"),
        (False, HELD, f"threadIdx.x == 0) {READS}", f"threadIdx.x == 0) {MORE}"),
        (False, RING, "tensor_await_writes();", ";"),
    ],
)
def test_emulation_finds_output_copies_that_are_not_awaited(
    residual: bool, knobs: dict[str, Any], old: str, new: str
) -> None:
    with pytest.raises(AssertionError, match=r"before a copy had read it|ended before its copies"):
        toeplitz(residual, knobs, old, new)


@pytest.mark.parametrize(
    ("residual", "knobs", "old", "new"),
    [
        (False, RING, "int parity = 1;", "int parity = 0;"),
        (False, RING, "if (stage == 0) parity ^= 1;", ""),
        (False, RING, "(barriers + 8 * INPUTS, 0)", "(barriers + 8 * INPUTS, 1)"),
        (False, HELD, "(barriers + 8 * piece, 0)", "(barriers + 8 * piece, 1)"),
        (True, HELD, "(INPUTS + 1 + piece), 0)", "(INPUTS + 1 + piece), 1)"),
        (True, RING, "INPUT_PIECE + (also ? OUTPUT_PIECE : 0)", "INPUT_PIECE"),
        (False, RING, "turn + STAGES - 1, before)", "turn + STAGES - 1, stage)"),
    ],
)
def test_emulation_finds_input_copies_with_a_wrong_wait(
    residual: bool, knobs: dict[str, Any], old: str, new: str
) -> None:
    with pytest.raises(AssertionError, match=r"bytes|copies"):
        toeplitz(residual, knobs, old, new)
