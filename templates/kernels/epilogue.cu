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

// What is stored for N neighbouring sums, whose residual lies at a multiple of their size.
template <int N>
__device__ __forceinline__ void epilogue_finish(float* sum, float bias, const char* residual) {
  word added[element_words(N)];
  if (HAS_RESIDUAL) element_fetch<N * SIZE>(added, residual, true);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (HAS_BIAS) sum[i] += bias;
    if (HAS_RESIDUAL) sum[i] += element_at(added, i);
    sum[i] = epilogue_activation(sum[i]);
  }
}

// Neighbours in a tensor: the first one's element, and how many of them the tensor has.
struct epilogue_run {
  long long at;
  int inside;
};

// The same for RUNS times N sums in registers, of which N are neighbours, at place(run). Residuals are read as vectors
// where they can be, and without a branch, so that all of them are on their way together.
template <int N, int RUNS, typename Place>
__device__ __forceinline__ void epilogue_finish_runs(float* sum, float bias, const char* residual, Place place) {
#pragma unroll
  for (int r = 0; r < (HAS_RESIDUAL ? RUNS : 0); ++r) {
    const epilogue_run run = place(r);
    const char* const from = residual + run.at * SIZE;
    const bool whole = ((size_t)from & (N * SIZE - 1)) == 0 && run.inside >= N;
    word vector[element_words(N)];
    element_fetch<N * SIZE>(vector, from, whole);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      word one[1] = {};
      if (N > 1) element_fetch<SIZE>(one, from + i * SIZE, !whole && i < run.inside);
      sum[N * r + i] += element_at(vector, i) + element_at(one, 0);
    }
  }
#pragma unroll
  for (int i = 0; i < N * RUNS; ++i) sum[i] = epilogue_activation(HAS_BIAS ? sum[i] + bias : sum[i]);
}
