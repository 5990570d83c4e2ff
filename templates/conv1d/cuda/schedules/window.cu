// Channels apart with few taps. A thread sums R neighbouring outputs of a row in each of STEPS steps, and reads the row
// in vectors of V elements. In a step, the outputs of a warp are neighbours if LANES (window_lanes.cu), else those of
// all threads of a row (window_reads.cu).
constexpr bool FLIP = @FLIP@, LANES = @LANES@;
constexpr int F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@;
constexpr int STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int R = @OUTPUTS@, STEPS = @STEPS@, THREADS = @THREADS@;
constexpr int V = @VECTOR@, VO = @VO@, VW = @VW@;  // elements of a vector of the input, the output and the weights
constexpr int WORDS = element_words(V);
constexpr int TOGETHER = LANES ? 32 : 1;  // threads whose steps are neighbours
constexpr int GROUPS = (L + TOGETHER * R * STEPS - 1) / (TOGETHER * R * STEPS) * TOGETHER;  // threads of a row
constexpr int NEXT = (LANES ? TOGETHER : GROUPS) * R;  // outputs from a step to the next
constexpr long long ROWS = @ROWS@;
static_assert(M % V == 0 && R * STRIDE % V == 0 && L % VO == 0 && R % VO == 0 && N % VW == 0, "whole vectors");

__device__ __forceinline__ float window_weight(const word (&w)[N / VW][element_words(VW)], int t) {
  const int place = FLIP ? N - 1 - t : t;
  return element_at(w[place / VW], place % VW);
}

// Finishes and stores R outputs from output i on.
__device__ __forceinline__ void window_leave(const float (&sum)[R], const char* residual, char* y, int i) {
#pragma unroll
  for (int o = 0; o < R; o += VO) {
    if (L % (TOGETHER * R * STEPS) != 0)
      if (i + o >= L) return;
    epilogue_store<VO>(y + (long long)(i + o) * SIZE, sum + o, residual + (long long)(i + o) * SIZE);
  }
}

// Computes one output after the other, for tensors that do not start at a vector's boundary.
__device__ __forceinline__ void window_plain(const char* row, const char* weights, const char* bias,
                                             const char* residual, char* y, int first) {
#pragma unroll 1
  for (int each = 0; each < R * STEPS; ++each) {
    const int i = first + each / R * NEXT + each % R;
    if (i >= L) continue;
    float sum = epilogue_bias(bias, 0);
#pragma unroll 1
    for (int t = 0; t < N; ++t) {
      const int at = i * STRIDE + t * DILATION - LEFT;
      if (at >= 0 && at < M) sum = fmaf(element_load(row, at), element_load(weights, FLIP ? N - 1 - t : t), sum);
    }
    epilogue_store<1>(y + (long long)i * SIZE, &sum, residual + (long long)i * SIZE);
  }
}

__device__ __forceinline__ void window_begin(float (&sum)[R], float offset) {
#pragma unroll
  for (int r = 0; r < R; ++r) sum[r] = offset;
}

// Computes all steps of a thread, from output `first` on. The bias is read after samples and weights, which do not wait
// for it.
__device__ __forceinline__ void window_sums(const char* row, const char* weights, const char* bias,
                                            const char* residual, char* y, int first);

__device__ __forceinline__ void conv1d_window(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                              void* __restrict__ y) {
  const long long mine = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (ROWS * GROUPS % THREADS != 0 && mine >= ROWS * GROUPS) return;
  const int number = (int)(mine / GROUPS), filter = number % F, place = (int)(mine % GROUPS);
  const int first = (place / TOGETHER * (TOGETHER * (LANES ? STEPS : 1)) + place % TOGETHER) * R;
  const char* const row = (const char*)x + (long long)(number / SEVERAL) * M * SIZE;
  const char* const weights = (const char*)w + (long long)filter * N * SIZE;
  const char* const residual_of = (const char*)@RESIDUAL@;
  const long long out = (long long)number * L * SIZE;
  const char* const bias_of = (const char*)@BIAS@ + (HAS_BIAS ? filter * SIZE : 0);
  const char* const residuals = residual_of + (HAS_RESIDUAL ? out : 0);
  const size_t outside = (size_t)y | (size_t)residual_of;
  if (((size_t)x & (V * SIZE - 1)) != 0 || (outside & (VO * SIZE - 1)) != 0 || ((size_t)w & (VW * SIZE - 1)) != 0) {
    window_plain(row, weights, bias_of, residuals, (char*)y + out, first);
    return;
  }
  window_sums(row, weights, bias_of, residuals, (char*)y + out, first);
}
