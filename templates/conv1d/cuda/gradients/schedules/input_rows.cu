// The input's gradient of channels apart. A thread has V neighbouring samples of a row. If V is more than 1, it reads
// the output's gradients that these samples meet once, as vectors, and multiplies them by the activation's derivative.
// Otherwise it goes through all taps, only some of which meet an output. LAST says that channels are last, and
// neighbouring threads have neighbouring channels.
constexpr bool FLIP = @FLIP@, LAST = @LAST@;
constexpr int B = @B@, C = @C@, M = @M@, F = @F@, L = @L@, N = @N@, STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int V = @VECTOR@, THREADS = @THREADS@, SEVERAL = F / C, WORDS = element_words(V);
constexpr int ROW_VECTORS = (M + V - 1) / V;
constexpr int FIRST = LEFT - (N - 1);                   // the first output that a sample meets, less its place
constexpr int BEFORE = (FIRST % V + V) % V;             // outputs of the first vector that no sample meets
constexpr int READ = (BEFORE + V + N - 2) / V + 1;      // vectors that are read
static_assert(V == 1 || (!LAST && STRIDE == 1 && DILATION == 1 && M % V == 0 && L % V == 0), "whole vectors");

__device__ __forceinline__ float rows_tap(const char* w, int f, int t) {
  return element_load(w, (long long)f * N + (FLIP ? N - 1 - t : t));
}
__device__ __forceinline__ float rows_gradient(const char* g, const char* z, long long at) {
  const float v = element_load(g, at);
  return HAS_DERIVATIVE ? v * derivative_activation(element_load(z, at)) : v;
}

// The index of an output.
#if @LAST@
#define ROWS_AT(b, f, i) (((long long)b * L + i) * F + f)
#else
#define ROWS_AT(b, f, i) (((long long)b * F + f) * L + i)
#endif

// Returns the gradient of one sample from one filter.
__device__ __forceinline__ float rows_plain(const char* g, const char* w, const char* z, int b, int f, int m) {
  float sum = 0.0f;
#pragma unroll 1
  for (int t = 0; t < N; ++t) {
    const int place = m + LEFT - t * DILATION;
    if (place >= 0 && place % STRIDE == 0 && place / STRIDE < L)
      sum = fmaf(rows_gradient(g, z, ROWS_AT(b, f, place / STRIDE)), rows_tap(w, f, t), sum);
  }
  return sum;
}

__device__ __forceinline__ void conv1d_input_rows(const void* __restrict__ g_any, const void* __restrict__ w_any, @GIVEN@
                                                  void* __restrict__ y_any) {
  const char *const g = (const char*)g_any, *const w = (const char*)w_any, *const z = (const char*)@SUMS@;
  char* const y = (char*)y_any;
  const long long index = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (index >= (long long)B * C * ROW_VECTORS) return;
#if @LAST@
  const int c = (int)(index % C), row = (int)(index / C), b = row / M, m = row % M;
#else
  const int m = (int)(index % ROW_VECTORS) * V, row = (int)(index / ROW_VECTORS), b = row / C, c = row % C;
#endif
  const bool aligned = (((size_t)g | (size_t)z | (size_t)y) & (V * SIZE - 1)) == 0;
  float sum[V] = {};
#pragma unroll 1
  for (int f = c * SEVERAL; f < (c + 1) * SEVERAL; ++f) {
    if constexpr (V == 1) {
      sum[0] += rows_plain(g, w, z, b, f, m);
    } else if (!aligned) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] += rows_plain(g, w, z, b, f, m + v);
    } else {
      float met[READ * V];
#pragma unroll
      for (int k = 0; k < READ; ++k) {
        const int i = m + FIRST - BEFORE + k * V;
        const bool inside = i >= 0 && i < L;
        const long long at = (((long long)b * F + f) * L + i) * SIZE;
        word packed[WORDS], before[WORDS];
        element_fetch<V * SIZE>(packed, g + at, inside);
        if (HAS_DERIVATIVE) element_fetch<V * SIZE>(before, z + at, inside);
#pragma unroll
        for (int v = 0; v < V; ++v)
          if (k * V + v >= BEFORE && k * V + v < BEFORE + V + N - 1) {
            met[k * V + v] = element_at(packed, v);
            if (HAS_DERIVATIVE) met[k * V + v] *= derivative_activation(element_at(before, v));
          }
      }
#pragma unroll
      for (int t = 0; t < N; ++t) {
        const float tap = rows_tap(w, f, t);
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = fmaf(met[BEFORE + v + N - 1 - t], tap, sum[v]);
      }
    }
  }
#if @LAST@
  char* const to = y + index * SIZE;
#else
  char* const to = y + ((long long)row * M + m) * SIZE;
#endif
  if (V == 1 || aligned) {
    element_store<V>(to, sum);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) element_store<1>(to + v * SIZE, sum + v);
  }
}
