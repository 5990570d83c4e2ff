// What is done to sums before they are stored. A NaN stays one.
constexpr bool HAS_BIAS = @HAS_BIAS@, HAS_RESIDUAL = @HAS_RESIDUAL@;

__device__ __forceinline__ float epilogue_none(float v) { return v; }
__device__ __forceinline__ float epilogue_relu(float v) { return v < 0.0f ? 0.0f : v; }
__device__ __forceinline__ float epilogue_relu6(float v) { return v > 6.0f ? 6.0f : epilogue_relu(v); }
__device__ __forceinline__ float epilogue_silu(float v) {
#if @IS_COARSE@ && __CUDA_ARCH__ >= 750
  const float half = 0.5f * v;  // v / (1 + exp(-v)) = half + half * tanh(half), one instruction, right to 2^-11
  float turned;
  asm("tanh.approx.f32 %0, %1;" : "=f"(turned) : "f"(half));
  return fmaf(half, turned, half);
#else
  return v * __fdividef(1.0f, 1.0f + __expf(-v));
#endif
}
__device__ __forceinline__ float epilogue_gelu(float v) { return 0.5f * v * erfcf(-0.70710678f * v); }
__device__ __forceinline__ float epilogue_hardswish(float v) { return v * epilogue_relu6(v + 3.0f) * (1.0f / 6.0f); }

__device__ __forceinline__ float epilogue_activation(float v) { return epilogue_@ACTIVATION@(v); }
