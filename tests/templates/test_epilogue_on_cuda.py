"""The epilogue's CUDA source, compiled for a CPU, with each PTX instruction replaced by C++ that
computes the same."""

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import in_numpy
from templates.epilogue import Activation
from templates.exact.epilogue import apply_epilogue
from templates.kernels.cuda_source import COARSE, EPILOGUE, epilogue, render
from tests.templates.once import once
from tuner.build import build_cache, linker

ACTIVATIONS = get_args(Activation)
HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of rounding to each dtype."""
TANH = 2.0**-11
"""The largest relative error of ``tanh.approx``, from NVIDIA's PTX ISA."""
ADDED = COARSE - HALVES["float16"]
"""The error that remains for the activation after rounding to float16, at the least ``max_error``
that admits ``tanh.approx``."""

PRELUDE = """
#define __CUDA_ARCH__ 900
#define __device__
#define __forceinline__ inline
#define __expf __builtin_expf
#define erfcf __builtin_erfcf
#define fmaf __builtin_fmaf
#define fminf __builtin_fminf
typedef unsigned int word;
typedef __SIZE_TYPE__ size_t;
constexpr bool IS_FLOAT = false, IS_BF16 = @IS_BF16@;
constexpr int SIZE = 2;
constexpr int element_words(int elements) { return (elements + 1) / 2; }
static float tanh_error;
static float approximate_tanh(float v) { return __builtin_tanhf(v) * (1.0f + tanh_error); }
static float __fdividef(float a, float b) { return a / b; }
static float __saturatef(float v) { return v > 0.0f ? v < 1.0f ? v : 1.0f : 0.0f; }
static word element_narrow(float v) {
  word bits;
  __builtin_memcpy(&bits, &v, 4);
  if (IS_BF16) return v != v ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const _Float16 half = v;
  unsigned short h;
  __builtin_memcpy(&h, &half, 2);
  return h;
}
static float element_at(const word* v, int i) {
  const unsigned short h = v[i / 2] >> 16 * (i % 2);
  const word bits = (word)h << 16;
  float wide;
  _Float16 half;
  __builtin_memcpy(&wide, &bits, 4), __builtin_memcpy(&half, &h, 2);
  return IS_BF16 ? wide : (float)half;
}
static word element_pack(float a, float b) { return element_narrow(a) | element_narrow(b) << 16; }
static float relu(float v) { return v < 0.0f ? 0.0f : v; }
static word relu_pack(float a, float b) { return element_pack(relu(a), relu(b)); }
static word at_most(word pair, word most) {
  const float a = element_at(&pair, 0), b = element_at(&pair, 1), limit = element_at(&most, 0);
  return element_pack(a > limit ? limit : a, b > limit ? limit : b);
}
template <int BYTES> void element_fetch(word*, const char*, bool);
template <int BYTES> void element_put(char*, const word*);
static float element_load(const char*, long long);
"""
INSTRUCTIONS = {
    'asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(v))': "v = relu(v)",
    'asm("min.NaN.f32 %0, %0, 0f40c00000;" : "+f"(v))': "v = v > 6.0f ? 6.0f : v",
    'asm("tanh.approx.f32 %0, %1;" : "=f"(turned) : "f"(of))': "turned = approximate_tanh(of)",
    'asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a))': "h = relu_pack(a, b)",
    'asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a))': "h = relu_pack(a, b)",
    'asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(h) : "r"(0x40c040c0u))': "h = at_most(h, 0x40c040c0u)",
    'asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(h) : "r"(0x46004600u))': "h = at_most(h, 0x46004600u)",
}
CALLS = """
extern "C" void activate(const float* v, float* y, int n, float error) {
  tanh_error = error;
  for (int i = 0; i < n; ++i) y[i] = epilogue_activation(v[i]);
}
extern "C" void pack(const float* v, word* y, int n) {
  tanh_error = 0.0f;
  for (int i = 0; i < n; ++i) y[i] = epilogue_pack(v[2 * i], v[2 * i + 1]);
}
"""


def workload(dtype: str, activation: str) -> Conv1dWorkload:
    fields = {"M": 8, "N": 1, "dtype": dtype, "activation": activation}
    return Conv1dWorkload.model_validate(fields)


def library(work: Conv1dWorkload) -> ctypes.CDLL:
    """Return the epilogue of a workload, compiled, with the functions of ``CALLS``."""
    source = EPILOGUE.read_text()
    for instruction, meaning in INSTRUCTIONS.items():
        assert source.count(instruction) == 1
        source = source.replace(instruction, meaning)
    # in a folder of its own, because the loader does not read a known name again
    with tempfile.TemporaryDirectory() as folder:
        (code := Path(folder) / "epilogue.cpp").write_text(PRELUDE + source + CALLS)
        text = render({"IS_BF16": work.dtype == "bfloat16", **epilogue(work)}, code)
        path = code.with_suffix(".so")

        def compiled() -> build_cache.Entry:
            code.write_text(text)
            options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC"]
            command = [linker.linker(), *options, str(code), "-o", str(path), *linker.LIBRARIES]
            subprocess.run(command, check=True)
            return build_cache.Entry(path.read_bytes(), "")

        path.write_bytes(once("epilogue", text, linker.identity(), make=compiled).binary)
        return ctypes.CDLL(str(path))


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def activated(compiled: ctypes.CDLL, values: NDArray[Any], error: float) -> Any:
    """Return the activation of ``values`` in float32, before rounding. ``error`` is the relative
    error that ``tanh.approx`` has on every value."""
    y = np.empty_like(values)
    compiled.activate(pointer(values), pointer(y), len(values), ctypes.c_float(error))
    return y


def packed(compiled: ctypes.CDLL, values: NDArray[Any], dtype: str) -> Any:
    """Return the activation of ``values``, rounded two by two to ``dtype``."""
    y = np.empty(len(values), in_numpy(dtype))
    compiled.pack(pointer(values), pointer(y), len(values) // 2)
    return y


def representable(dtype: str) -> NDArray[np.float32]:
    """Return all finite values of ``dtype`` of magnitude below 2^15."""
    every = np.arange(2**16, dtype=np.uint16).view(in_numpy(dtype)).astype(np.float32)
    return every[np.isfinite(every) & (np.abs(every) < 2**15)]


@pytest.mark.parametrize("error", [-TANH, 0.0, TANH])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", HALVES)
def test_error_of_an_activation_leaves_room_for_rounding(
    dtype: str, activation: str, error: float
) -> None:
    """Errors are relative to the largest output, so each magnitude of the largest sum is tried."""
    work, values = workload(dtype, activation), representable(dtype)
    y = activated(library(work), values, error)
    exact = apply_epilogue(work, values.astype(np.float64), (), axis=1)
    order = np.argsort(np.abs(values), kind="stable")
    off = np.maximum.accumulate(np.abs(y - exact)[order])
    largest = np.maximum.accumulate(np.abs(exact)[order])
    assert np.all(off <= ADDED * largest + 1e-30)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", HALVES)
def test_packed_pair_equals_its_sums_rounded_one_by_one(dtype: str, activation: str) -> None:
    """Two sums that are activated and rounded together equal the same sums, each activated in
    float32 and then rounded. This holds also for sums that overflow the dtype."""
    rng = np.random.default_rng(1)
    near = np.concatenate([[-0.0, 0.0, 6.0, 5.999, 6.001, 70000, -70000], [-1e-7, 1e-7]])
    values = np.concatenate([near, 4 * rng.standard_normal(4001)]).astype(np.float32)
    compiled = library(workload(dtype, activation))
    y = packed(compiled, values, dtype)
    alone = activated(compiled, values, 0.0)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, alone.astype(in_numpy(dtype)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", HALVES)
def test_nan_in_a_packed_pair_does_not_spread(dtype: str, activation: str) -> None:
    """If one of two packed sums is a NaN, it stays a NaN and does not spread to the other."""
    values = np.array([np.nan, 1.5, -2.5, np.nan, np.inf, np.nan], np.float32)
    y = packed(library(workload(dtype, activation)), values, dtype).astype(np.float32)
    assert np.isnan(y).tolist() == [True, False, False, True, False, True]
    assert y[4] == (6.0 if activation == "relu6" else np.inf)
