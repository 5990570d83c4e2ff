// What becomes of an output's gradient at the sum before the activation; it follows derivative.cu.
constexpr bool HALVED = @HALVED@;

// silu's derivative at v is (1 + h + (1 - h * h) * v / 2) / 2 with h = tanh(v / 2). So taps and bias are halved, which
// changes no digit of theirs: they sum up to v / 2, and what they meet to be the input's gradient may be twice as large.
constexpr float SCALE = HALVED ? 0.5f : 1.0f;

__device__ __forceinline__ float backward_tanh(float v) {
#if @IS_COARSE@ && __CUDA_ARCH__ >= 750
  asm("tanh.approx.f32 %0, %0;" : "+f"(v));  // right to 2^-11
  return v;
#else
  return fmaf(2.0f, __fdividef(1.0f, 1.0f + __expf(-2.0f * v)), -1.0f);
#endif
}

// The gradient of a sum, divided by SCALE, of that of the output and of the sum, times SCALE.
__device__ __forceinline__ float backward_derived(float gradient, float sum) {
  if (!HALVED) return gradient * derivative_activation(sum);
  const float h = backward_tanh(sum);
  return fmaf(gradient, fmaf(sum, fmaf(-h, h, 1.0f), h), gradient);
}
