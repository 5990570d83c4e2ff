// Signals with a kernel for each output channel: a thread sums R neighbouring outputs of a row, STEPS times, from what
// it reads of that row in vectors of V elements. All loads of a step are asked for before the step before is computed.
// With WINDOW a thread holds what its outputs reach, each element once; without, tap after tap, if that is far apart.
constexpr bool FLIP = @FLIP@, WINDOW = @WINDOW@;
constexpr int F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@;
constexpr int STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int R = @R@, STEPS = @STEPS@, THREADS = @THREADS@;
constexpr int V = @V@, VO = @VO@, VW = @VW@;  // elements of a vector of the input, the output and the weights
constexpr int GROUPS = (L + R * STEPS - 1) / (R * STEPS);  // threads of a row
constexpr long long ROWS = @ROWS@;
static_assert(M % V == 0 && R * STRIDE % V == 0 && L % VO == 0 && R % VO == 0 && N % VW == 0, "whole vectors");

// Elements from a vector's begin to the first output's first tap, and to the last that taps [t, t + taps) reach.
constexpr int window_phase(int t) { return ((t * DILATION - LEFT) % V + V) % V; }
constexpr int window_vectors(int t, int taps) {
  return (window_phase(t) + (R - 1) * STRIDE + (taps - 1) * DILATION) / V + 1;
}
constexpr int TAPS = WINDOW ? N : 1;  // that share what is read
constexpr int VECTORS = WINDOW ? window_vectors(0, N) : R * STRIDE / V + 2, WORDS = element_words(V);

// Whether a vector has an element that is used.
constexpr bool window_meets(int vector, int t) {
  if (STRIDE <= V && (TAPS == 1 || DILATION <= (R - 1) * STRIDE + 1)) return true;
  const int begin = vector * V - window_phase(t);
  for (int k = 0; k < TAPS; ++k) {
    const int from = begin - k * DILATION, r = from <= 0 ? 0 : (from + STRIDE - 1) / STRIDE;
    if (r < R && r * STRIDE < from + V) return true;
  }
  return false;
}

// What outputs from i on need for taps from t on.
template <int T>
__device__ __forceinline__ void window_fetch(word (&v)[VECTORS][WORDS], const char* row, int i) {
  const int start = i * STRIDE + T * DILATION - LEFT - window_phase(T);
#pragma unroll
  for (int e = 0; e < window_vectors(T, TAPS); ++e)
    if (window_meets(e, T)) {
      const int at = start + e * V;
      element_fetch<V * SIZE>(v[e], row + (long long)at * SIZE, at >= 0 && at < M);
    }
}

__device__ __forceinline__ float window_weight(const word (&w)[N / VW][element_words(VW)], int t) {
  const int place = FLIP ? N - 1 - t : t;
  return element_at(w[place / VW], place % VW);
}

template <int T>
__device__ __forceinline__ void window_add(float (&sum)[R], const word (&v)[VECTORS][WORDS],
                                           const word (&w)[N / VW][element_words(VW)]) {
#pragma unroll
  for (int k = 0; k < TAPS; ++k)
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int e = window_phase(T) + r * STRIDE + k * DILATION;
      sum[r] = fmaf(element_at(v[e / V], e % V), window_weight(w, T + k), sum[r]);
    }
}

// Tap after tap.
template <int T>
__device__ __forceinline__ void window_taps(float (&sum)[R], const char* row, int i,
                                            const word (&w)[N / VW][element_words(VW)]) {
  if constexpr (T < N) {
    word v[VECTORS][WORDS];
    window_fetch<T>(v, row, i);
    window_taps<T + 1>(sum, row, i, w);
    window_add<T>(sum, v, w);
  }
}

__device__ __forceinline__ void window_leave(float (&sum)[R], float offset, const char* residual, char* y, int i) {
#pragma unroll
  for (int o = 0; o < R; o += VO) {
    if (L % R != 0 || L % (R * STEPS) != 0)
      if (i + o >= L) return;
    epilogue_finish<VO>(sum + o, offset, residual + (long long)(i + o) * SIZE);
    element_store<VO>(y + (long long)(i + o) * SIZE, sum + o);
  }
}

// One output after the other, for tensors that start at no vector's boundary.
__device__ __forceinline__ void window_plain(const char* row, const char* weights, float offset, const char* residual,
                                             char* y, int first) {
#pragma unroll 1
  for (int each = 0; each < R * STEPS; ++each) {
    const int i = first + each / R * (GROUPS * R) + each % R;
    if (i >= L) continue;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < N; ++t) {
      const int at = i * STRIDE + t * DILATION - LEFT;
      if (at >= 0 && at < M) sum = fmaf(element_load(row, at), element_load(weights, FLIP ? N - 1 - t : t), sum);
    }
    epilogue_finish<1>(&sum, offset, residual + (long long)i * SIZE);
    element_store<1>(y + (long long)i * SIZE, &sum);
  }
}

__device__ __forceinline__ void conv1d_window(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                              void* __restrict__ y) {
  const long long mine = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (ROWS * GROUPS % THREADS != 0 && mine >= ROWS * GROUPS) return;
  const int number = (int)(mine / GROUPS), filter = number % F, first = (int)(mine % GROUPS) * R;
  const char* const row = (const char*)x + (long long)(number / SEVERAL) * M * SIZE;
  const char* const weights = (const char*)w + (long long)filter * N * SIZE;
  const char* const residual_of = (const char*)@RESIDUAL@;
  const long long out = (long long)number * L * SIZE;
  const float offset = epilogue_bias(@BIAS@, filter);
  const char* const residuals = residual_of + (HAS_RESIDUAL ? out : 0);
  const size_t outside = (size_t)y | (size_t)residual_of;
  if (((size_t)x & (V * SIZE - 1)) != 0 || (outside & (VO * SIZE - 1)) != 0 || ((size_t)w & (VW * SIZE - 1)) != 0) {
    window_plain(row, weights, offset, residuals, (char*)y + out, first);
    return;
  }
  word taps[N / VW][element_words(VW)];
  word v[WINDOW ? 2 : 1][VECTORS][WORDS];
  if (WINDOW) window_fetch<0>(v[0], row, first);
#pragma unroll
  for (int t = 0; t < N / VW; ++t) element_fetch<VW * SIZE>(taps[t], weights + t * VW * SIZE, true);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const int i = first + step * (GROUPS * R);
    float sum[R] = {};
    if (WINDOW) {
      if (step + 1 < STEPS) window_fetch<0>(v[(step + 1) % 2], row, i + GROUPS * R);
      window_add<0>(sum, v[step % 2], taps);
    } else {
      window_taps<0>(sum, row, i, taps);
    }
    window_leave(sum, offset, residuals, (char*)y + out, i);
  }
}
