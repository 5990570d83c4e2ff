"""Compiling CUDA source to machine code with NVRTC: the host needs no toolkit and no CUDA headers.

TVM's own ``compile_cuda`` calls NVRTC, too, but reads CUDA's and CCCL's headers each time, and both
packages would have to be installed. A kernel takes 1.0 s that way, and 0.17 s with the few
declarations below.
"""

from __future__ import annotations

from collections.abc import Sequence

from templates.limits import EARLY_LAUNCHES, capability
from tuner.build.machine_code import uses_memory_before_wait
from tuner.build.stub_driver import load_driver_or_stub
from tuner.device.cuda import checked
from tuner.library.runtime import load_runtime

OPTIONS = (
    "-default-device",
    "--use_fast_math",
    "--ptxas-options=--register-usage-level=10",
)
"""NVRTC's options, which are those of TVM. They affect a kernel's time and its errors, so they are
stored with its results."""

CAREFUL = "--define-macro=NOTHING_IS_CONSTANT"
"""A further option for code that would load memory before it waits for the launch before it. With
it, sources declare no memory constant: the compiler may load constant memory at any time."""

ARCH_SPECIFIC = {"sm_90": "sm_90a"}
"""For an arch, the one that NVRTC compiles for instead. Code for exactly one compute capability may
use all of its instructions, for example those for warpgroups."""

HEADERS = {
    "cuda/std/cstdint": """
namespace cuda { namespace std {
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
} }
""",
    "cuda/std/type_traits": """
namespace cuda { namespace std {
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class T> struct is_integral;
template <class T> struct is_signed;
template <class T> struct is_unsigned;
template <class T> struct is_floating_point;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
} }
""",
    "cuda_fp16.h": """
struct alignas(2) __half {
  unsigned short bits;
  __half() = default;
  __half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
struct alignas(4) __half2 { __half x, y; };
typedef __half half;
typedef __half2 half2;
inline float __half2float(half value) { return value; }
inline half __float2half(float value) { return value; }
inline half __float2half_rn(float value) { return value; }
inline bool __hgt(half a, half b) { return float(a) > float(b); }
inline bool __hlt(half a, half b) { return float(a) < float(b); }
""",
    "cuda_bf16.h": """
struct alignas(2) nv_bfloat16 {
  unsigned short bits;
  nv_bfloat16() = default;
  nv_bfloat16(float value) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  operator float() const { return __uint_as_float((unsigned int)bits << 16); }
};
struct alignas(4) nv_bfloat162 {
  nv_bfloat16 x, y;
  nv_bfloat162() = default;
  nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) : x(x), y(y) {}
};
inline float __bfloat162float(nv_bfloat16 value) { return value; }
inline nv_bfloat16 __float2bfloat16(float value) { return value; }
inline bool __hgt(nv_bfloat16 a, nv_bfloat16 b) { return float(a) > float(b); }
inline bool __hlt(nv_bfloat16 a, nv_bfloat16 b) { return float(a) < float(b); }
""",
}
"""The headers that TVM's kernels include, each with the declarations that the kernels use. Every
kernel includes the first two. Kernels with float16 or bfloat16 include the others, and only load,
store, convert and compare such numbers. The bfloat16 header needs sm_80; for older devices TVM
compiles bfloat16 to integer operations."""


def identity() -> str:
    """Return a text of all that machine code depends on besides its source and its arch."""
    from cuda.bindings import nvrtc

    return repr((checked(nvrtc.nvrtcVersion()), OPTIONS, CAREFUL, ARCH_SPECIFIC, HEADERS))


def install(arch: str) -> None:
    """Make TVM compile its CUDA source with :func:`cubin` for that arch, in this process.

    Raises NoLinker if the host has neither a driver nor a compiler for the stub, and
    MissingRuntime.
    """
    import tvm_ffi

    load_driver_or_stub()
    load_runtime("cuda")  # without it TVM would keep the source as it is
    tvm_ffi.register_global_func(
        "tvm_callback_cuda_compile", lambda source: cubin(source, arch), override=True
    )


def cubin(source: str, arch: str) -> bytes:
    """Return the machine code of CUDA source for an arch such as ``sm_90``.

    Raises RuntimeError with the compiler's log if the source does not compile.
    """
    return compiled(source, arch)[0]


def compiled(source: str, arch: str) -> tuple[bytes, str]:
    """Return the machine code, as :func:`cubin` does, and the compiler's log.

    The log also has the warnings and remarks of a compilation that succeeded. A kernel that waits
    for the launch before it must wait before it uses memory. If it does not, it is compiled again
    with :data:`CAREFUL`. Raises RuntimeError if that does not help.
    """
    made, log = compile_with(source, arch, OPTIONS)
    if capability(arch) < EARLY_LAUNCHES or not uses_memory_before_wait(made):
        return made, log
    made, log = compile_with(source, arch, (*OPTIONS, CAREFUL))
    if uses_memory_before_wait(made):
        raise RuntimeError("the machine code may use memory before it waits for the launch before")
    return made, log


def compile_with(source: str, arch: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Compile with these options of NVRTC. Return the machine code, unchecked, and the log."""
    from cuda.bindings import nvrtc

    names = [name.encode() for name in HEADERS]
    contents = [text.encode() for text in HEADERS.values()]
    program = checked(
        nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(names), contents, names)
    )
    try:
        target = ARCH_SPECIFIC.get(arch, arch)
        given = [option.encode() for option in (f"--gpu-architecture={target}", *options)]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        written = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))
        checked(nvrtc.nvrtcGetProgramLog(program, written))
        log = written.decode(errors="replace")
        if int(result) != 0:
            raise RuntimeError(f"NVRTC: {log}")
        binary = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
        checked(nvrtc.nvrtcGetCUBIN(program, binary))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(binary), log
