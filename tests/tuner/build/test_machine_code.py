"""Machine code shows whether a kernel uses memory before it waits for the launch before it. Code
that does is compiled again."""

import pytest

from tuner.build.cuda_compile import OPTIONS, compile_with, cubin
from tuner.build.machine_code import kernels, opcodes, uses_memory_before_wait

ARCHS = ["sm_90", "sm_100", "sm_120"]
WAIT = 'asm volatile("griddepcontrol.wait;" ::: "memory");'
LOAD = "v += *(volatile float*)x;"
COPY = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(0), "l"(x) : "memory");'
IN_A_CASE = "if (threadIdx.x > 7) { __nanosleep(20);"
PATHS = [
    (WAIT + LOAD, False),
    (LOAD + WAIT, True),
    (COPY + WAIT, True),
    (f"v = atomicAdd(x, 2.0f); {WAIT}", True),
    (f"atomicAdd(x, 2.0f); {WAIT}", True),
    (f"v = atomicMax((int*)x, 7); {WAIT}", True),
    (f"atomicMax((int*)x, 7); {WAIT}", True),
    (f"v = atomicCAS((int*)x, 1, 2); {WAIT}", True),
    (f"v = atomicExch((int*)((size_t)x ^ (size_t)n), 5); {WAIT}", True),
    (f"*(volatile float*)((size_t)x ^ (size_t)n) = 5; {WAIT}", True),
    (f"{IN_A_CASE} {WAIT} }} {LOAD}", True),
    (f"{IN_A_CASE} {WAIT} }} else {{ {WAIT} {LOAD} }}", False),
    (f"{IN_A_CASE} {LOAD} }} {WAIT}", True),
    (f"{IN_A_CASE} {LOAD} *y = v; return; }} {WAIT}", True),
    (f"for (int i = 0; i < *(volatile int*)n; ++i) v += i; {WAIT}", True),
    (f"v = count(n, 3 * blockIdx.x); {WAIT} {LOAD}", False),
    (f"v = count(n, 3 * blockIdx.x) + sum(n, blockIdx.x); {WAIT} {LOAD}", True),
    (f"v = either[blockIdx.x % 2](n, blockIdx.x); {WAIT} {LOAD}", True),  # sum uses memory
    (LOAD, False),  # without a wait the launch does not begin early
]
FUNCTIONS = """
__device__ __noinline__ int count(float* p, int n) {
  int bits = 0;
  for (int i = 0; i < n; ++i) bits += (size_t)p * i >> 7 & 3;
  return bits;
}
__device__ __noinline__ float sum(float* p, int n) {
  float v = 0;
  for (int i = 0; i < n; ++i) v += p[i];
  return v;
}
__constant__ float (*either[2])(float*, int) = {sum, [](float* p, int n) { return n * 2.0f; }};
"""


def kernel(body: str) -> str:
    head = 'extern "C" __global__ void main_kernel(float* x, float* n, float* y)'
    return f"{FUNCTIONS} {head} {{ float v = 0;\n{body}\ny[threadIdx.x] = v; }}"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("body", "does"), PATHS)
def test_memory_use_before_the_wait_is_found_on_every_path(
    body: str, does: bool, arch: str
) -> None:
    code, _ = compile_with(kernel(body), arch, OPTIONS)
    assert uses_memory_before_wait(code) is does


@pytest.mark.parametrize("arch", ARCHS)
def test_code_that_uses_memory_before_the_wait_is_compiled_again(arch: str) -> None:
    first = f"#ifdef NOTHING_IS_CONSTANT\n {WAIT} {LOAD}\n#else\n {LOAD} {WAIT}\n#endif"
    assert not uses_memory_before_wait(cubin(kernel(first), arch))


def test_code_that_always_uses_memory_before_the_wait_is_refused() -> None:
    with pytest.raises(RuntimeError, match="before it waits for the launch before"):
        cubin(kernel(LOAD + WAIT), "sm_90")


def test_code_for_older_devices_contains_no_wait() -> None:
    text = kernel("v = x[0];")
    assert all(0x82E not in opcodes(code) for code in kernels(cubin(text, "sm_75")))
