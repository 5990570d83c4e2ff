// The activation's derivative, as a function of the sums before the activation. This file follows elements.cu and has
// the formulas of epilogue.py. silu, gelu and hardswish return NaN for NaN; none, relu and relu6 return 1.
constexpr bool HAS_DERIVATIVE = @HAS_DERIVATIVE@;

__device__ __forceinline__ float derivative_none(float) { return 1.0f; }
__device__ __forceinline__ float derivative_relu(float v) { return v <= 0.0f ? 0.0f : 1.0f; }
__device__ __forceinline__ float derivative_relu6(float v) { return v <= 0.0f || v >= 6.0f ? 0.0f : 1.0f; }
__device__ __forceinline__ float derivative_silu(float v) {
#if @IS_COARSE@ && __CUDA_ARCH__ >= 750
  float turned;  // 1 / (1 + exp(-v)) = (1 + tanh(v / 2)) / 2; tanh is one instruction with a relative error of 2^-11
  asm("tanh.approx.f32 %0, %1;" : "=f"(turned) : "f"(0.5f * v));
  const float share = fmaf(0.5f, turned, 0.5f);
#else
  const float share = __fdividef(1.0f, 1.0f + __expf(-v));
#endif
  return share * fmaf(v, 1.0f - share, 1.0f);
}
__device__ __forceinline__ float derivative_gelu(float v) {
  return fmaf(v * 0.3989422804f, __expf(-0.5f * v * v), 0.5f * erfcf(-0.70710678f * v));
}
__device__ __forceinline__ float derivative_hardswish(float v) {
  return v <= -3.0f ? 0.0f : v >= 3.0f ? 1.0f : fmaf(v, 1.0f / 3.0f, 0.5f);
}

__device__ __forceinline__ float derivative_activation(float v) { return derivative_@ACTIVATION@(v); }
