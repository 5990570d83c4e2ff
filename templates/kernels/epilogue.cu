// The epilogue: bias, residual and activation of the sums, before they are stored. This file follows elements.cu. Every
// activation returns NaN for NaN.
constexpr bool HAS_EPILOGUE = @HAS_EPILOGUE@, HAS_BIAS = @HAS_BIAS@, HAS_RESIDUAL = @HAS_RESIDUAL@;

__device__ __forceinline__ float epilogue_none(float v) { return v; }
__device__ __forceinline__ float epilogue_relu(float v) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(v));
  return v;
#else
  return v < 0.0f ? 0.0f : v;
#endif
}
__device__ __forceinline__ float epilogue_relu6(float v) {
  v = epilogue_relu(v);
#if __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %0, 0f40c00000;" : "+f"(v));
  return v;
#else
  return v > 6.0f ? 6.0f : v;
#endif
}
// Returns half + half * tanh(of). tanh is one instruction with a relative error of 2^-11.
__device__ __forceinline__ float epilogue_turned(float half, float of) {
  float turned;
  asm("tanh.approx.f32 %0, %1;" : "=f"(turned) : "f"(of));
  return fmaf(half, turned, half);
}
// The activation takes sums times EPILOGUE_SCALE. A kernel may scale a bias once instead, and fuse its sum with the scale.
#if @IS_SILU@ && @IS_COARSE@ && __CUDA_ARCH__ >= 750
constexpr float EPILOGUE_SCALE = 0.5f;
__device__ __forceinline__ float epilogue_silu(float half) { return epilogue_turned(half, half); }
#else
constexpr float EPILOGUE_SCALE = 1.0f;
__device__ __forceinline__ float epilogue_silu(float v) { return v * __fdividef(1.0f, 1.0f + __expf(-v)); }
#endif
__device__ __forceinline__ float epilogue_gelu(float v) {
#if @IS_COARSE@ && __CUDA_ARCH__ >= 750
  // erf(v / sqrt(2)) as tanh of a fitted polynomial. It is exact to 2.6e-5; v is cut off at 4, from where tanh is 1.
  const float square = fminf(v * v, 16.0f);
  return epilogue_turned(0.5f * v, v * fmaf(fmaf(-3.5181794e-4f, square, 3.7007506e-2f), square, 0.79750583f));
#else
  return 0.5f * v * erfcf(-0.70710678f * v);
#endif
}
__device__ __forceinline__ float epilogue_hardswish(float v) { return v * __saturatef(fmaf(v, 1.0f / 6.0f, 0.5f)); }

__device__ __forceinline__ float epilogue_activation(float v) { return epilogue_@ACTIVATION@(EPILOGUE_SCALE * v); }

// Applies the activation to two neighbouring sums, which are scaled, and packs the results into a word, `a` in its low
// half. Rounding is monotonic, so relu may be part of the conversion, and relu6 may cut off the rounded values.
__device__ __forceinline__ word epilogue_pack_scaled(float a, float b) {
#if @IS_RELU@ && __CUDA_ARCH__ >= 800
  word h;
  if constexpr (IS_BF16) asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
  else asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(b), "f"(a));
#if @IS_RELU6@
  if constexpr (IS_BF16) asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(h) : "r"(0x40c040c0u));
  else asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(h) : "r"(0x46004600u));
#endif
  return h;
#else
  return element_pack(epilogue_@ACTIVATION@(a), epilogue_@ACTIVATION@(b));
#endif
}

__device__ __forceinline__ word epilogue_pack(float a, float b) {
  return epilogue_pack_scaled(EPILOGUE_SCALE * a, EPILOGUE_SCALE * b);
}

__device__ __forceinline__ float epilogue_bias(const void* bias, int channel) {
  return HAS_BIAS ? element_load((const char*)bias, channel) : 0.0f;
}

// Turns N neighbouring sums into the values to store. `residual` must be aligned to N * SIZE bytes.
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

// Finishes and stores N neighbouring sums to which the bias is added already. `to` and `residual` must be aligned to
// N * SIZE bytes.
template <int N>
__device__ __forceinline__ void epilogue_store(char* to, const float* sum, const char* residual) {
  word added[element_words(N)], packed[element_words(N)];
  if (HAS_RESIDUAL) element_fetch<N * SIZE>(added, residual, true);
  const auto whole = [&](int i) { return i >= N ? 0.0f : HAS_RESIDUAL ? sum[i] + element_at(added, i) : sum[i]; };
#pragma unroll
  for (int i = 0; i < element_words(N); ++i) {
    if constexpr (IS_FLOAT) packed[i] = __float_as_uint(epilogue_activation(whole(i)));
    else packed[i] = epilogue_pack(whole(2 * i), whole(2 * i + 1));
  }
  element_put<N * SIZE>(to, packed);
}

// A run of neighbouring elements of a tensor: the index of the first one, and how many of them are in the tensor.
struct epilogue_run {
  long long at;
  int inside;
};

// Turns RUNS runs of N sums into the values to store; place(run) returns where a run lies in the output. Residuals are
// read as vectors if they are aligned, and without a branch, so that all loads are in flight together.
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
