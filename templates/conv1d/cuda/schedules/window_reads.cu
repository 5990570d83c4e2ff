// With reads "window" and "taps", a thread reads all samples that its outputs reach. If WINDOW, it holds each of them
// once, and reads those of the next step before it computes this one. Otherwise it reads the samples of one tap after
// the other, because dilation puts them far apart.
constexpr bool WINDOW = @WINDOW@;

// Elements from a vector's begin to the sample that tap t meets at the first output, and vectors that taps [t, t +
// taps) reach.
constexpr int window_phase(int t) { return ((t * DILATION - LEFT) % V + V) % V; }
constexpr int window_vectors(int t, int taps) {
  return (window_phase(t) + (R - 1) * STRIDE + (taps - 1) * DILATION) / V + 1;
}
constexpr int TAPS = WINDOW ? N : 1;  // taps that share the vectors that are read
constexpr int VECTORS = WINDOW ? window_vectors(0, N) : R * STRIDE / V + 2;

// Returns whether a vector has an element that an output uses.
constexpr bool window_meets(int vector, int t) {
  if (STRIDE <= V && (TAPS == 1 || DILATION <= (R - 1) * STRIDE + 1)) return true;
  const int begin = vector * V - window_phase(t);
  for (int k = 0; k < TAPS; ++k) {
    const int from = begin - k * DILATION, r = from <= 0 ? 0 : (from + STRIDE - 1) / STRIDE;
    if (r < R && r * STRIDE < from + V) return true;
  }
  return false;
}

// Loads the vectors that outputs from i on need for taps from T on.
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

// Adds the products of taps from T on. All loads come before the first product.
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

__device__ __forceinline__ void window_sums(const char* row, const char* weights, const char* bias,
                                            const char* residual, char* y, int first) {
  word taps[N / VW][element_words(VW)];
  word v[WINDOW ? 2 : 1][VECTORS][WORDS];
  if (WINDOW) window_fetch<0>(v[0], row, first);
#pragma unroll
  for (int t = 0; t < N / VW; ++t) element_fetch<VW * SIZE>(taps[t], weights + t * VW * SIZE, true);
  const float offset = epilogue_bias(bias, 0);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const int i = first + step * NEXT;
    float sum[R];
    window_begin(sum, offset);
    if (WINDOW) {
      if (step + 1 < STEPS) window_fetch<0>(v[(step + 1) % 2], row, i + NEXT);
      window_add<0>(sum, v[step % 2], taps);
    } else {
      window_taps<0>(sum, row, i, taps);
    }
    window_leave(sum, residual, y, i);
  }
}
