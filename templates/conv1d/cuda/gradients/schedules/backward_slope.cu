// The gradient of a sum before the activation, from the gradient of the output. This follows derivative.cu.
constexpr bool HALVED = @HALVED@;

// SiLU's derivative at v is (1 + h + (1 - h * h) * v / 2) / 2 with h = tanh(v / 2). Taps and bias are therefore halved,
// which changes none of their digits: they then sum up to v / 2, and the gradients of sums that they meet for the
// input's gradient may be twice as large.
constexpr float SCALE = HALVED ? 0.5f : 1.0f;

__device__ __forceinline__ float backward_tanh(float v) {
#if @IS_COARSE@ && __CUDA_ARCH__ >= 750
  asm("tanh.approx.f32 %0, %0;" : "+f"(v));  // right to 2^-11
  return v;
#else
  return fmaf(2.0f, __fdividef(1.0f, 1.0f + __expf(-2.0f * v)), -1.0f);
#endif
}

// Returns the gradient of a sum divided by SCALE, from the output's gradient and the sum times SCALE.
__device__ __forceinline__ float backward_derived(float gradient, float sum) {
  if (!HALVED) return gradient * derivative_activation(sum);
  const float h = backward_tanh(sum);
  return fmaf(gradient, fmaf(sum, fmaf(-h, h, 1.0f), h), gradient);
}
