// The weight's gradient of channels apart. A block has an output channel and a tile of TILE taps, whose sums each
// thread keeps in registers. It goes through every PARTS-th step of the channel's rows. A thread has V neighbouring
// outputs of a step, and reads BATCH steps before it uses them. The block adds up the sums of its threads. If there are
// several parts, a second launch adds up the sums of these. Both add in a fixed order.
constexpr bool HAS_BIAS = @HAS_BIAS@, FLIP = @FLIP@, LAST = @LAST@;  // LAST: channels are last
constexpr int B = @B@, C = @C@, M = @M@, F = @F@, L = @L@, N = @N@, STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int TILE = @TAPS@, TILES = (N + TILE - 1) / TILE, V = @VECTOR@, BATCH = @BATCH@, THREADS = @THREADS@, PARTS = @PARTS@;
constexpr int ROW_STEPS = (L + THREADS * V - 1) / (THREADS * V), STEPS = B * ROW_STEPS;
constexpr int SUMS = TILE + HAS_BIAS, WORDS = element_words(V);
constexpr int REACH = (V - 1) * STRIDE + (TILE - 1) * DILATION + 1;  // samples that a thread's outputs meet
constexpr int X_SIZE = LAST ? C * SIZE : SIZE;  // bytes from a sample to the next
static_assert(V == 1 || (!LAST && STRIDE == 1 && DILATION == 1 && M % V == 0 && L % V == 0 && TILE == N), "whole vectors");
constexpr int BEFORE = (V - LEFT % V) % V;             // samples of the first vector that no output meets
constexpr int VECTORS = (BEFORE + REACH + V - 1) / V;  // vectors of samples
constexpr bool WINDOW = V > 1;                         // else the sample of each tap is read by itself
constexpr int READ = WINDOW ? VECTORS : TILE;
static_assert(SUMS * (THREADS + 32) == @WORDS@, "the template's estimate of shared memory");

struct rows_step {
  word x[READ][WORDS], g[WORDS], z[HAS_DERIVATIVE ? WORDS : 1];
};

template <bool ALIGNED>
__device__ __forceinline__ void rows_fetch(word (&v)[WORDS], const char* from, bool inside) {
  if constexpr (ALIGNED) {
    element_fetch<V * SIZE>(v, from, inside);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      word one[1];
      element_fetch<SIZE>(one, from + i * SIZE, inside);
      if (IS_FLOAT) v[i] = one[0];
      else v[i / 2] = i % 2 ? v[i / 2] | one[0] << 16 : one[0];
    }
  }
}

template <bool ALIGNED>
__device__ __forceinline__ void rows_sum(float (&sum)[SUMS], const char* x, const char* g, const char* z, int f, int part,
                                         int first) {
  auto fetch = [&](rows_step& now, int step) {
    const int b = step / ROW_STEPS, i = (step % ROW_STEPS * THREADS + (int)threadIdx.x) * V;
    const bool any = step < STEPS && i < L;
#if @LAST@
    const char* const row = x + ((long long)b * M * C + f / (F / C)) * SIZE;
    const long long at = (((long long)b * L + i) * F + f) * SIZE;
#else
    const char* const row = x + ((long long)b * C + f / (F / C)) * M * SIZE;
    const long long at = (((long long)b * F + f) * L + i) * SIZE;
#endif
#pragma unroll
    for (int k = 0; k < READ; ++k) {
      const int sample = WINDOW ? i - LEFT - BEFORE + k * V : i * STRIDE + (first + k) * DILATION - LEFT;
      rows_fetch<ALIGNED>(now.x[k], row + (long long)sample * X_SIZE, any && (word)sample < (word)M);
    }
    rows_fetch<ALIGNED>(now.g, g + at, any);
    if constexpr (HAS_DERIVATIVE) rows_fetch<ALIGNED>(now.z, z + at, any);
  };
#pragma unroll 1
  for (int step = part; step < STEPS; step += BATCH * PARTS) {
    rows_step now[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; ++k) fetch(now[k], step + k * PARTS);
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        float gradient = element_at(now[k].g, v);
        if constexpr (HAS_DERIVATIVE) gradient *= derivative_activation(element_at(now[k].z, v));
#pragma unroll
        for (int t = 0; t < TILE; ++t) {
          const int e = WINDOW ? BEFORE + v + t : t;
          sum[t] = fmaf(element_at(now[k].x[WINDOW ? e / V : e], WINDOW ? e % V : 0), gradient, sum[t]);
        }
        if (HAS_BIAS) sum[TILE] += gradient;
      }
  }
}

// Returns the index of the sum of tap t, or if t is N, of the bias, which is behind all taps.
__device__ __forceinline__ long long rows_place(int f, int t) {
  return t == N ? (long long)F * N + f : (long long)f * N + (FLIP ? N - 1 - t : t);
}

__device__ __forceinline__ void conv1d_weight_rows(const void* __restrict__ x_any, const void* __restrict__ g_any, @GIVEN@
                                                   void* __restrict__ y, @WORKSPACE@ word* shared) {
  const char *const x = (const char*)x_any, *const g = (const char*)g_any, *const z = (const char*)@SUMS@;
  const int thread = threadIdx.x, block = blockIdx.x, f = block % F, tile = block / F % TILES, part = block / F / TILES;
  float sum[SUMS] = {};
  if ((((size_t)x | (size_t)g | (size_t)z) & (V * SIZE - 1)) == 0) rows_sum<true>(sum, x, g, z, f, part, tile * TILE);
  else rows_sum<false>(sum, x, g, z, f, part, tile * TILE);

  float *const all = (float*)shared, *const few = all + SUMS * THREADS;
#pragma unroll
  for (int t = 0; t < SUMS; ++t) all[t * THREADS + thread] = sum[t];
  __syncthreads();
  for (int i = thread; i < SUMS * 32; i += THREADS) {
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < THREADS / 32; ++k) total += all[i / 32 * THREADS + k * 32 + i % 32];
    few[i] = total;
  }
  __syncthreads();
  for (int t = thread; t < SUMS; t += THREADS) {
    float total = 0.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k) total += few[t * 32 + k];
    const int tap = t == TILE ? N : tile * TILE + t;
    if (t == TILE ? tile > 0 : tap >= N) continue;
    if (PARTS == 1) element_store<1>((char*)y + rows_place(f, tap) * SIZE, &total);
    else ((float*)@PARTS_OF@)[((long long)part * F + f) * (N + HAS_BIAS) + tap] = total;
  }
}

// Adds up the parts. A thread has one of the sums.
__device__ __forceinline__ void conv1d_weight_total(const void* __restrict__ x, const void* __restrict__ g, @GIVEN@
                                                    void* __restrict__ y, @WORKSPACE@ word* shared) {
  constexpr int EACH = N + HAS_BIAS;
  const long long n = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (n >= (long long)F * EACH) return;
  float total = 0.0f;
#pragma unroll 8
  for (int part = 0; part < PARTS; ++part) total += ((const float*)@PARTS_OF@)[part * ((long long)F * EACH) + n];
  element_store<1>((char*)y + rows_place((int)(n / EACH), (int)(n % EACH)) * SIZE, &total);
}
