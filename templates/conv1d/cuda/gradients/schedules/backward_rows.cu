// All gradients of channels apart at stride 1, channels first. A warp goes through STEPS tiles of a row, from the last
// to the first. A lane has V neighbouring places of a tile (templates/conv1d/frame.py says what a place is). Its sums
// need samples of the lane before it, and the gradients of its samples need gradients of sums of the lane behind it.
// Lanes pass these by shuffles. Those of the tile behind are kept from the step before, and the next AHEAD tiles are
// loaded ahead.
//
// The gradients of taps and bias are summed in registers. The sums of the lanes are added up at the end. If a channel
// has several parts, a second launch adds up the sums of these. Both add in a fixed order.
constexpr bool HAS_BIAS = @HAS_BIAS@, FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, M = @M@, L = @L@, N = @N@, DILATION = @DILATION@, REACH = (N - 1) * DILATION;
constexpr int V = @VECTOR@, STEPS = @STEPS@, THREADS = @THREADS@, TILES = @TILES@, PARTS = @PARTS@, COUNT = B * PARTS;
constexpr int AHEAD = @AHEAD@, RING = AHEAD + 1;  // tiles loaded ahead, tiles in registers
constexpr int SAMPLES_AHEAD = @SAMPLES_AHEAD@, OUTPUTS_AHEAD = @OUTPUTS_AHEAD@;  // places before the first
constexpr bool WHOLE = M % V == 0 && L % V == 0 && SAMPLES_AHEAD % V == 0 && OUTPUTS_AHEAD % V == 0;
constexpr int PACKED = 4 / SIZE, WORDS = V / PACKED, HALO = (REACH + PACKED - 1) / PACKED;  // words of a lane, beside them
constexpr int EACH = N + HAS_BIAS, TOGETHER = COUNT > 64 ? 32 : 1;  // threads that add up a sum's parts
static_assert(REACH <= V && V * SIZE % 16 == 0 && COUNT == @COUNT@, "a lane's neighbours have what it takes");

// Loads V elements from place `at` of a row on, with zeros beyond the row's ends, or only zeros if they are not
// `wanted`.
template <bool ALIGNED>
__device__ __forceinline__ void backward_fetch(word (&v)[WORDS], const char* row, int at, int extent, bool wanted) {
  if constexpr (ALIGNED) {
    const bool inside = wanted && (word)at < (word)extent;
#pragma unroll
    for (int k = 0; k < V * SIZE / 16; ++k) element_fetch<16>(v + 4 * k, row + (long long)at * SIZE + 16 * k, inside);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      word one[1] = {};
      element_fetch<SIZE>(one, row + (long long)(at + i) * SIZE, wanted && (word)(at + i) < (word)extent);
      if (IS_FLOAT) v[i / PACKED] = one[0];
      else v[i / 2] = i % 2 ? v[i / 2] | one[0] << 16 : one[0];
    }
  }
}

// Computes `x`, the samples that a lane's sums need, from REACH places before its own on, and `s`, the gradients of its
// sums. The last lane's `ahead` has the samples that the first lane needs of the tile before.
__device__ __forceinline__ void backward_derive(float (&x)[REACH + V], float (&s)[V + REACH], const word (&own)[WORDS],
                                                const word (&ahead)[WORDS], const word (&g)[WORDS], const float (&w)[N],
                                                float offset) {
  const int lane = threadIdx.x % 32;
  word halo[HALO + 1];
#pragma unroll
  for (int h = 0; h < HALO; ++h) {
    const int at = WORDS - HALO + h;
    halo[h] = __shfl_sync(0xffffffffu, lane == 31 ? ahead[at] : own[at], (lane + 31) % 32);
  }
#pragma unroll
  for (int j = 0; j < REACH; ++j) x[j] = element_at(halo, HALO * PACKED - REACH + j);
#pragma unroll
  for (int e = 0; e < V; ++e) x[REACH + e] = element_at(own, e);
#pragma unroll
  for (int e = 0; e < V; ++e) {
    s[e] = element_at(g, e);
    if (HAS_DERIVATIVE) {
      float sum = offset;
#pragma unroll
      for (int t = 0; t < N; ++t) sum = fmaf(w[t], x[e + t * DILATION], sum);
      s[e] = backward_derived(s[e], sum);
    }
  }
}

// Stores V of the input's gradients, except those beyond the row.
template <bool ALIGNED>
__device__ __forceinline__ void backward_store(char* dx, const float (&y)[V], int at) {
  if constexpr (ALIGNED) {
    if ((word)at >= (word)M) return;
#pragma unroll
    for (int k = 0; k < V * SIZE / 16; ++k)
      element_store<16 / SIZE>(dx + (long long)at * SIZE + 16 * k, y + 16 / SIZE * k);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if ((word)(at + e) < (word)M) element_store<1>(dx + (long long)(at + e) * SIZE, y + e);
  }
}

template <bool ALIGNED>
__device__ __forceinline__ void backward_march(float (&sum)[EACH], const char* x, const char* g, char* dx, int part,
                                               const float (&w)[N], float offset) {
  const int lane = threadIdx.x % 32, first = part * STEPS, last = min(TILES, first + STEPS) - 1;
  const auto fetch = [&](word (&samples)[WORDS], word (&gradients)[WORDS], int tile, bool with_x, bool with_g) {
    const int place = (tile * 32 + lane) * V;
    backward_fetch<ALIGNED>(samples, x, place - SAMPLES_AHEAD, M, with_x);
    backward_fetch<ALIGNED>(gradients, g, place - OUTPUTS_AHEAD, L, with_g);
  };
  word own[RING][WORDS], gradients[RING][WORDS];
  float near[REACH + V], s[V + REACH], behind[REACH + 1] = {};  // the first lane's gradients of sums in the tile behind
  if (last + 1 < TILES) {
    fetch(own[0], gradients[0], last, true, false);
    fetch(own[1], gradients[1], last + 1, lane == 0, lane == 0);
    backward_derive(near, s, own[1], own[0], gradients[1], w, offset);
#pragma unroll
    for (int j = 0; j < REACH; ++j) behind[j] = s[j];
  }
#pragma unroll
  for (int k = 0; k < AHEAD; ++k) fetch(own[k], gradients[k], last - k, last - k >= first || lane == 31, last - k >= first);
#pragma unroll 1
  for (int group = last; group >= first; group -= RING) {
#pragma unroll
    for (int k = 0; k < RING; ++k) {
      const int tile = group - k, after = tile - AHEAD, to = (k + AHEAD) % RING;
      if (tile < first) break;
      fetch(own[to], gradients[to], after, after >= first || (after == first - 1 && lane == 31), after >= first);
      backward_derive(near, s, own[k], own[(k + 1) % RING], gradients[k], w, offset);
#pragma unroll
      for (int j = 0; j < REACH; ++j) {
        s[V + j] = __shfl_sync(0xffffffffu, lane == 0 ? behind[j] : s[j], (lane + 1) % 32);
        behind[j] = s[j];
      }
      float y[V];
#pragma unroll
      for (int e = 0; e < V; ++e) {
        y[e] = 0.0f;
#pragma unroll
        for (int t = 0; t < N; ++t) {
          y[e] = fmaf(w[t], s[e + REACH - t * DILATION], y[e]);
          sum[t] = fmaf(s[e], near[e + t * DILATION], sum[t]);
        }
        if (HAS_BIAS) sum[N] += s[e];
      }
      backward_store<ALIGNED>(dx, y, (tile * 32 + lane) * V - SAMPLES_AHEAD);
    }
  }
}

// Returns the sum over the lanes, in all of them.
__device__ __forceinline__ float backward_added(float v) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffffu, v, lanes);
  return v;
}

__device__ __forceinline__ void backward_leave(char* dw, char* db, long long n, float total) {
  const int c = (int)(n / EACH), t = (int)(n % EACH);
  if (t == N) element_store<1>(db + (long long)c * SIZE, &total);
  else element_store<1>(dw + ((long long)c * N + (FLIP ? N - 1 - t : t)) * SIZE, &total);
}

__device__ __forceinline__ void conv1d_backward_rows(const void* __restrict__ x_any, const void* __restrict__ g_any,
                                                     const void* __restrict__ w_any, @GIVEN@ void* __restrict__ dx_any,
                                                     void* __restrict__ dw @OTHERS@) {
  const long long warp = (long long)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  if (warp >= (long long)B * C * PARTS) return;
  const int row = (int)(warp / PARTS), part = (int)(warp % PARTS), b = row / C, c = row % C;
  const char *const x = (const char*)x_any + (long long)row * M * SIZE, *const biases = (const char*)@BIAS@;
  const char* const g = (const char*)g_any + (long long)row * L * SIZE;
  char* const dx = (char*)dx_any + (long long)row * M * SIZE;
  float w[N], sum[EACH] = {};
#pragma unroll
  for (int t = 0; t < N; ++t) w[t] = SCALE * element_load((const char*)w_any, (long long)c * N + (FLIP ? N - 1 - t : t));
  const float offset = @HAS_OFFSET@ ? SCALE * element_load(biases, c) : 0.0f;
  if (WHOLE && (((size_t)x_any | (size_t)g_any | (size_t)dx_any) & 15) == 0)
    backward_march<WHOLE>(sum, x, g, dx, part, w, offset);
  else
    backward_march<false>(sum, x, g, dx, part, w, offset);
#pragma unroll
  for (int t = 0; t < EACH; ++t) {
    const float total = SCALE * backward_added(sum[t]);
    if (threadIdx.x % 32 != 0) continue;
    const long long n = (long long)c * EACH + t;
    if (COUNT == 1) backward_leave((char*)dw, (char*)@DB@, n, total);
    else ((float*)@WORKSPACE@)[(b * PARTS + part) * ((long long)C * EACH) + n] = total;
  }
}

__device__ __forceinline__ void conv1d_backward_total(const void* __restrict__ x, const void* __restrict__ g,
                                                      const void* __restrict__ w, @GIVEN@ void* __restrict__ dx,
                                                      void* __restrict__ dw @OTHERS@) {
  const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x, n = thread / TOGETHER;
  if (n >= (long long)C * EACH) return;
  float total = 0.0f;
#pragma unroll 8
  for (int k = (int)(thread % TOGETHER); k < COUNT; k += TOGETHER)
    total += ((const float*)@WORKSPACE@)[k * ((long long)C * EACH) + n];
  if (TOGETHER > 1) total = backward_added(total);
  if (thread % TOGETHER == 0) backward_leave((char*)dw, (char*)@DB@, n, total);
}
