// Convolution of a signal with gates, channels last. A row of the input has C gates of the signal, C gates of the
// output and C samples. A thread computes R rows of outputs of N neighbouring channels; neighbouring threads have
// neighbouring channels. If M is no whole number of strips of R rows, the last one overlaps the one before it, and some
// outputs are stored twice.
//
// In a strip (IS_STRIP), a thread has all taps in registers and reads each row of input once. Else it goes through the
// taps and reads the rows that each of them meets.
constexpr int C = @C@, M = @M@, TAPS = @TAPS@, LEFT = @LEFT@, DILATION = @DILATION@;
constexpr bool IS_FLIPPED = @IS_FLIPPED@, IS_STRIP = @IS_STRIP@, HAS_BIAS = @HAS_BIAS@;
constexpr int N = @CHANNELS@, R = @ROWS@, THREADS = @THREADS@;
constexpr int ACROSS = C / N, STRIPS = (M + R - 1) / R;
constexpr long long WORK = (long long)@B@ * STRIPS * ACROSS;
constexpr long long THIRD = (long long)C * SIZE, ROW = 3 * THIRD;  // bytes of a row of output, and of input
constexpr int CHUNK = 512;  // the most products in one sum; such sums are added

// Reads N neighbouring elements as floats, or zeros if `inside` is false.
template <bool IS_ALIGNED>
__device__ __forceinline__ void gated_read(float (&v)[N], const char* from, bool inside) {
  if constexpr (IS_ALIGNED) {
    word packed[element_words(N)];
    element_fetch<N * SIZE>(packed, from, inside);
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] = element_at(packed, n);
  } else {
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] = inside ? element_load(from, n) : 0.0f;
  }
}

// Reads N samples of a row, multiplied by their gates.
template <bool IS_ALIGNED>
__device__ __forceinline__ void gated_samples(float (&v)[N], const char* row, bool inside) {
  float gate[N];
  gated_read<IS_ALIGNED>(gate, row, inside);
  gated_read<IS_ALIGNED>(v, row + 2 * THIRD, inside);
#pragma unroll
  for (int n = 0; n < N; ++n) v[n] *= gate[n];
}

// Adds the bias to N sums, multiplies them by the output's gates and stores them.
template <bool IS_ALIGNED>
__device__ __forceinline__ void gated_leave(const float (&sum)[N], const float (&bias)[N], const char* row, char* to) {
  float v[N];
  gated_read<IS_ALIGNED>(v, row + THIRD, true);
#pragma unroll
  for (int n = 0; n < N; ++n) v[n] *= HAS_BIAS ? sum[n] + bias[n] : sum[n];
  if constexpr (IS_ALIGNED) {
    element_store<N>(to, v);
  } else {
#pragma unroll
    for (int n = 0; n < N; ++n) element_store<1>(to + n * SIZE, v + n);
  }
}

// Computes a strip of R rows. `row` is where the thread's channels are in the first row of input of its signal, `w` are
// their taps, `first` is the first row of output and `to` its place.
template <bool IS_ALIGNED>
__device__ __forceinline__ void gated_strip(const char* row, const char* w, const float (&bias)[N], int first,
                                            char* to) {
  float tap[IS_STRIP ? TAPS : 1][N], sum[R][N];
#pragma unroll
  for (int k = 0; k < (IS_STRIP ? TAPS : 0); ++k) {
    float v[N];
    gated_read<IS_ALIGNED>(v, w + k * N * SIZE, true);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int at = k * N + n, t = at % TAPS;
      tap[IS_FLIPPED ? TAPS - 1 - t : t][at / TAPS] = v[n];
    }
  }
#pragma unroll
  for (int e = 0; e < (IS_STRIP ? R + TAPS - 1 : 0); ++e) {
    const int i = first - LEFT + e;
    float v[N];
    gated_samples<IS_ALIGNED>(v, row + i * ROW, i >= 0 && i < M);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (e - r >= 0 && e - r < TAPS) sum[r][n] = fmaf(v[n], tap[e - r][n], e == r ? 0.0f : sum[r][n]);
    if (e >= TAPS - 1) {
      const int r = e - TAPS + 1;
      gated_leave<IS_ALIGNED>(sum[r], bias, row + (first + r) * ROW, to + r * THIRD);
    }
  }
  if constexpr (!IS_STRIP) {
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int n = 0; n < N; ++n) sum[r][n] = 0.0f;
#pragma unroll 1
    for (int from = 0; from < TAPS; from += CHUNK) {
      float part[R][N] = {};
#pragma unroll 1
      for (int t = from; t < from + CHUNK && t < TAPS; ++t) {
        const int k = IS_FLIPPED ? TAPS - 1 - t : t;
#pragma unroll
        for (int n = 0; n < N; ++n) tap[0][n] = element_load(w, (long long)n * TAPS + k);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int i = first + r - LEFT + t * DILATION;
          float v[N];
          gated_samples<IS_ALIGNED>(v, row + i * ROW, i >= 0 && i < M);
#pragma unroll
          for (int n = 0; n < N; ++n) part[r][n] = fmaf(v[n], tap[0][n], part[r][n]);
        }
      }
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int n = 0; n < N; ++n) sum[r][n] += part[r][n];
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
      gated_leave<IS_ALIGNED>(sum[r], bias, row + (first + r) * ROW, to + r * THIRD);
  }
}

__device__ __forceinline__ void conv1d_gated(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                             void* __restrict__ y) {
  const long long number = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (number >= WORK) return;
  const int channel = (int)(number % ACROSS) * N, strip = (int)(number / ACROSS % STRIPS);
  const long long signal = number / ACROSS / STRIPS;
  const int first = strip * R < M - R ? strip * R : M - R;
  float added[N] = {};
#pragma unroll
  for (int n = 0; n < (HAS_BIAS ? N : 0); ++n) added[n] = element_load((const char*)@BIAS@, channel + n);
  const char *const row = (const char*)x + signal * M * ROW + channel * SIZE,
                    *const taps = (const char*)w + (long long)channel * TAPS * SIZE;
  char* const to = (char*)y + ((signal * M + first) * C + channel) * SIZE;
  if ((((size_t)x | (size_t)w | (size_t)y) & (N * SIZE - 1)) == 0) gated_strip<true>(row, taps, added, first, to);
  else gated_strip<false>(row, taps, added, first, to);
}
