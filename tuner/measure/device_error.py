"""Computing the error of an output on the GPU.

Copying 38 million elements to the host and comparing them there takes longer than timing a
candidate.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np

from templates.ceil_div import ceil_div
from tuner.build.cuda_compile import cubin
from tuner.device import cuda_facts
from tuner.device.cuda import checked

THREADS = 256
BLOCKS = 1024
"""Most blocks of the kernel: the largest GPUs run no more at a time."""

SOURCE = """
// In the instructions' own words: with fast math the compiler's conversions take subnormal numbers
// for zeros.
__device__ double exact(double y) { return y; }

__device__ double exact(float y) {
  double value;
  asm("cvt.f64.f32 %0, %1;" : "=d"(value) : "f"(y));
  return value;
}

__device__ double exact(unsigned short y) {
  double value;
  asm("cvt.f64.f16 %0, %1;" : "=d"(value) : "h"(y));
  return value;
}

struct bfloat16 { unsigned short bits; };

__device__ double exact(bfloat16 y) {
  return exact(__uint_as_float((unsigned int)y.bits << 16));
}

// Differences are compared by the bits of their absolute values, which are ordered as the values
// are, with infinity above all numbers and NaN above infinity.
extern "C" __global__ void __launch_bounds__(@THREADS@)
compare(const @Y@* __restrict__ y, const @REFERENCE@* __restrict__ reference, long long size,
        long long known, unsigned long long* largest) {
  const long long step = (long long)gridDim.x * blockDim.x;
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long ahead = step % known;
  long long place = first % known;
  unsigned long long found = 0;
  for (long long i = first; i < size; i += step) {
    const unsigned long long bits =
        __double_as_longlong(exact(y[i]) - exact(reference[place])) & 0x7fffffffffffffffull;
    found = bits > found ? bits : found;
    place += ahead;
    if (place >= known) place -= known;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, found, lanes);
    found = other > found ? other : found;
  }
  if (threadIdx.x % 32 == 0) atomicMax(largest, found);
}
""".replace("@THREADS@", str(THREADS))
TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "unsigned short",
    "bfloat16": "bfloat16",
}
"""CUDA's type of a tensor's elements, by the tensor's dtype."""


def source(y: str, reference: str) -> str:
    """Return CUDA source that compares an output of dtype ``y`` with a reference of dtype
    ``reference``."""
    return SOURCE.replace("@Y@", TYPES[y]).replace("@REFERENCE@", TYPES[reference])


class LargestDifference:
    """Computes max|y - ref| of two of TVM's tensors on one GPU, in float64.

    y has a workload's dtype, ref is float64 or float32. The result is NaN or infinity if y contains
    such a value. A reference that is shorter than y is repeated to its length.
    """

    def __init__(self, device: Any) -> None:
        import tvm

        self._device = device
        self._largest = tvm.runtime.empty((1,), "float64", device)

    def __call__(self, y: Any, reference: Any) -> float:
        from cuda.bindings import driver

        # wait for the kernel that writes y; this also makes the CUDA context current in this thread
        self._device.sync()
        self._largest.copyfrom(np.zeros(1))
        kernel = _kernel(str(y.dtype), str(reference.dtype))
        size, known = math.prod(y.shape), math.prod(reference.shape)
        values = y.data_ptr(), reference.data_ptr(), size, known, self._largest.data_ptr()
        types = ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_longlong] * 2, ctypes.c_void_p
        blocks = min(BLOCKS, ceil_div(size, THREADS))
        default_stream = 0  # TVM copies on it, so the copies below and above are in order
        checked(
            driver.cuLaunchKernel(
                *(kernel, blocks, 1, 1), *(THREADS, 1, 1), 0, default_stream, (values, types), 0
            )
        )
        return float(self._largest.numpy()[0])


@cache
def _kernel(y: str, reference: str) -> Any:
    """Compile and load the kernel for these dtypes."""
    from cuda.bindings import driver

    binary = cubin(source(y, reference), cuda_facts.device().arch)
    module = checked(driver.cuModuleLoadData(binary))
    return checked(driver.cuModuleGetFunction(module, b"compare"))
