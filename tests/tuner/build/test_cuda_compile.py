"""CUDA source is compiled to machine code by NVRTC, which needs no GPU."""

import pytest

from tuner.build.cuda_compile import cubin

KERNEL = 'extern "C" __global__ void main_kernel(float* y) { y[threadIdx.x] = blockIdx.x; }'


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_nvrtc_compiles_cuda_source_to_an_elf_file(arch: str) -> None:
    binary = cubin(KERNEL, arch)
    assert binary[:4] == b"\x7fELF"
    assert b"main_kernel" in binary


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_float16_needs_no_headers_of_the_host(arch: str) -> None:
    source = """
#include <cuda_fp16.h>
extern "C" __global__ void main_kernel(half* y, const half* x) {
  static_assert(sizeof(half) == 2 && alignof(half) == 2, "");
  half2 pair = *(half2*)(x + 2 * threadIdx.x);
  y[threadIdx.x] = half(float(pair.x) * 3.0f + (float)(pair.y));
}
"""
    assert cubin(source, arch)[:4] == b"\x7fELF"


def test_compile_error_contains_the_compilers_message() -> None:
    with pytest.raises(RuntimeError, match='identifier "nonsense" is undefined'):
        cubin(KERNEL.replace("blockIdx.x", "nonsense"), "sm_90")


def test_more_shared_memory_than_a_block_can_have_is_an_error() -> None:
    greedy = KERNEL.replace("{ ", "{ __shared__ float s[20000]; s[threadIdx.x] = y[0]; ", 1)
    with pytest.raises(RuntimeError, match="too much shared data"):
        cubin(greedy.replace("blockIdx.x", "s[31 - threadIdx.x]"), "sm_75")
