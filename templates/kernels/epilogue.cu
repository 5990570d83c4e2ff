// What is done to sums before they are stored; it follows elements.cu. A NaN stays one.
constexpr bool HAS_EPILOGUE = @HAS_EPILOGUE@, HAS_BIAS = @HAS_BIAS@, HAS_RESIDUAL = @HAS_RESIDUAL@;

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

__device__ __forceinline__ float epilogue_bias(const void* bias, int channel) {
  return HAS_BIAS ? element_load((const char*)bias, channel) : 0.0f;
}

// N neighbouring sums as they are stored. The first one's residual is at an address, from which all are read at once if
// that is `whole`: a multiple of their size, and all in the tensor. Otherwise the first `inside` are.
template <int N>
__device__ __forceinline__ void epilogue_finish(float* sum, float bias, const char* residual, bool whole = true,
                                                int inside = N) {
  word added[element_words(N)];
  if (HAS_RESIDUAL && whole) element_fetch<N * SIZE>(added, residual, true);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (HAS_BIAS) sum[i] += bias;
    if (HAS_RESIDUAL && whole) sum[i] += element_at(added, i);
    else if (HAS_RESIDUAL && i < inside) sum[i] += element_load(residual, i);
    sum[i] = epilogue_activation(sum[i]);
  }
}
