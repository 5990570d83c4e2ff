// All gradients of channels apart at stride 1, channels last. A thread has V neighbouring channels and goes through
// PLACES places of a signal (templates/conv1d/frame.py says what a place is), in turns of TURN places. The places of a
// turn are read during the turn before.
//
// Registers hold the samples and the gradients of sums that the taps reach behind a place. From the samples, the sum at
// the place is computed again. From the gradients of sums, the gradient of a sample is computed as soon as the last of
// them is known. For this, a thread reads REACH samples before its places, and computes the sums at REACH places behind
// them.
//
// A thread sums the gradients of taps and bias over its own places. If a channel has several parts, a second launch
// adds up their sums, in a fixed order.
constexpr bool HAS_BIAS = @HAS_BIAS@, FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, M = @M@, L = @L@, N = @N@, DILATION = @DILATION@, REACH = (N - 1) * DILATION;
constexpr int RING = REACH + 1;  // places whose samples and gradients of sums are held, place e at e % RING
constexpr int V = @CHANNELS@, TURN = @TURN@, PLACES = @PLACES@, EXTENT = @EXTENT@, THREADS = @THREADS@, PARTS = @PARTS@;
constexpr int COUNT = B * PARTS, VECTORS = C / V, WORDS = element_words(V), EACH = N + HAS_BIAS, SLICES = THREADS / 32;
constexpr int SAMPLES_AHEAD = @SAMPLES_AHEAD@, OUTPUTS_AHEAD = @OUTPUTS_AHEAD@;  // places before the first
constexpr long long ROW = (long long)C * SIZE;
static_assert(C % V == 0 && TURN % RING == 0 && PLACES % TURN == 0, "whole vectors, and rings that begin with each turn");

struct backward_channels {
  float x[RING][V], s[RING][V], w[N][V], offset[V], sum[EACH][V];
};

// Loads V channels, or zeros if they are not `inside`.
template <bool ALIGNED>
__device__ __forceinline__ void backward_fetch(word (&v)[WORDS], const char* from, bool inside) {
  if constexpr (ALIGNED) {
    element_fetch<V * SIZE>(v, from, inside);
  } else {
#pragma unroll
    for (int n = 0; n < V; ++n) {
      word one[1] = {};
      element_fetch<SIZE>(one, from + n * SIZE, inside);
      if (IS_FLOAT) v[n] = one[0];
      else v[n / 2] = n % 2 ? v[n / 2] | one[0] << 16 : one[0];
    }
  }
}

// Computes place k of a turn, and `dx`, the gradients of the samples REACH places before it, which become known there.
// The gradients of weight and bias include the place if it is the thread's OWN.
template <bool OWN>
__device__ __forceinline__ void backward_place(backward_channels& a, const word (&x)[WORDS], const word (&g)[WORDS], int k,
                                               float (&dx)[V]) {
  const int now = k % RING;
#pragma unroll
  for (int n = 0; n < V; ++n) {
    a.x[now][n] = element_at(x, n);
    float s = element_at(g, n);
    if (HAS_DERIVATIVE) {
      float sum = a.offset[n];
#pragma unroll
      for (int t = 0; t < N; ++t) sum = fmaf(a.w[t][n], a.x[(now + 1 + t * DILATION) % RING][n], sum);
      s = backward_derived(s, sum);
    }
    a.s[now][n] = s;
    dx[n] = 0.0f;
#pragma unroll
    for (int t = 0; t < N; ++t) {
      dx[n] = fmaf(a.w[t][n], a.s[(now + RING - t * DILATION) % RING][n], dx[n]);
      if (OWN) a.sum[t][n] = fmaf(s, a.x[(now + 1 + t * DILATION) % RING][n], a.sum[t][n]);
    }
    if (OWN && HAS_BIAS) a.sum[N][n] += s;
  }
}

template <bool ALIGNED>
__device__ __forceinline__ void backward_put(char* to, const float (&v)[V], bool inside) {
  if (!inside) return;
  if constexpr (ALIGNED) {
    element_store<V>(to, v);
  } else {
#pragma unroll
    for (int n = 0; n < V; ++n) element_store<1>(to + n * SIZE, v + n);
  }
}

// Goes through a signal from place `start` on. `x`, `g` and `dx` are the signal's first sample, first output gradient
// and first sample's gradient.
template <bool ALIGNED>
__device__ __forceinline__ void backward_march(backward_channels& a, const char* x, const char* g, char* dx, int start) {
  const int turns = (min(PLACES, EXTENT - start) + TURN - 1) / TURN, end = start + turns * TURN;
  int sample = start - SAMPLES_AHEAD, output = start - OUTPUTS_AHEAD;
  const int samples = max(0, min(M, end + REACH - SAMPLES_AHEAD)), outputs = max(0, min(L, end + REACH - OUTPUTS_AHEAD));
  const int first = max(0, sample), own = max(0, min(M, end - SAMPLES_AHEAD) - first);  // samples whose gradients are stored
  x += sample * ROW, g += output * ROW, dx += (sample - REACH) * ROW;
  word xs[TURN][WORDS], gs[TURN][WORDS];
  const auto fetch = [&](int k, int ahead) {
    const long long to = (k + ahead) * ROW;
    backward_fetch<ALIGNED>(xs[k], x + to, (word)(sample + k + ahead) < (word)samples);
    backward_fetch<ALIGNED>(gs[k], g + to, (word)(output + k + ahead) < (word)outputs);
  };
  const auto leave = [&](int k, const float (&v)[V]) {
    backward_put<ALIGNED>(dx + k * ROW, v, (word)(sample + k - REACH - first) < (word)own);
  };
#pragma unroll
  for (int k = 0; k < REACH; ++k) {
    word before[WORDS];
    backward_fetch<ALIGNED>(before, x + (k - REACH) * ROW, (word)(sample + k - REACH) < (word)M);
#pragma unroll
    for (int n = 0; n < V; ++n) a.x[k + 1][n] = element_at(before, n);
  }
#pragma unroll
  for (int k = 0; k < TURN; ++k) fetch(k, 0);
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (int k = 0; k < TURN; ++k) {
      float y[V];
      backward_place<true>(a, xs[k], gs[k], k, y);
      fetch(k, TURN);
      leave(k, y);
    }
    sample += TURN, output += TURN, x += TURN * ROW, g += TURN * ROW, dx += TURN * ROW;
  }
#pragma unroll
  for (int k = 0; k < REACH; ++k) {
    float y[V];
    backward_place<false>(a, xs[k], gs[k], k, y);
    leave(k, y);
  }
}

__device__ __forceinline__ void backward_leave(char* dw, char* db, int c, int t, float total) {
  if (t == N) element_store<1>(db + (long long)c * SIZE, &total);
  else element_store<1>(dw + ((long long)c * N + (FLIP ? N - 1 - t : t)) * SIZE, &total);
}

__device__ __forceinline__ void conv1d_backward_channels(const void* __restrict__ x_any, const void* __restrict__ g_any,
                                                         const void* __restrict__ w_any, @GIVEN@
                                                         void* __restrict__ dx_any, void* __restrict__ dw @OTHERS@) {
  const long long thread = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (thread >= (long long)VECTORS * COUNT) return;
  const int c = (int)(thread % VECTORS) * V, part = (int)(thread / VECTORS), b = part / PARTS;
  const char *const x = (const char*)x_any + ((long long)b * M * C + c) * SIZE, *const biases = (const char*)@BIAS@;
  const char* const g = (const char*)g_any + ((long long)b * L * C + c) * SIZE;
  char* const dx = (char*)dx_any + ((long long)b * M * C + c) * SIZE;
  backward_channels a = {};
#pragma unroll
  for (int n = 0; n < V; ++n) {
#pragma unroll
    for (int t = 0; t < N; ++t)
      a.w[t][n] = SCALE * element_load((const char*)w_any, (long long)(c + n) * N + (FLIP ? N - 1 - t : t));
    if (@HAS_OFFSET@) a.offset[n] = SCALE * element_load(biases, c + n);
  }
  if (V == 1 || (((size_t)x_any | (size_t)g_any | (size_t)dx_any) & (V * SIZE - 1)) == 0)
    backward_march<true>(a, x, g, dx, part % PARTS * PLACES);
  else
    backward_march<V == 1>(a, x, g, dx, part % PARTS * PLACES);
#pragma unroll
  for (int t = 0; t < EACH; ++t)
#pragma unroll
    for (int n = 0; n < V; ++n) {
      const float total = SCALE * a.sum[t][n];
      if (COUNT == 1) backward_leave((char*)dw, (char*)@DB@, c + n, t, total);
      else ((float*)@WORKSPACE@)[((long long)part * EACH + t) * C + c + n] = total;
    }
}

// Adds up the parts. A block has 32 channels of one tap, or of the bias, and a warp a slice of the parts.
__device__ __forceinline__ void conv1d_backward_total(const void* __restrict__ x, const void* __restrict__ g,
                                                      const void* __restrict__ w, @GIVEN@ void* __restrict__ dx,
                                                      void* __restrict__ dw @OTHERS@, word* shared) {
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, t = blockIdx.x % EACH, c = blockIdx.x / EACH * 32 + lane;
  float* const all = (float*)shared;
  float total = 0.0f;
  if (c < C)
#pragma unroll 8
    for (int k = slice; k < COUNT; k += SLICES) total += ((const float*)@WORKSPACE@)[((long long)k * EACH + t) * C + c];
  all[threadIdx.x] = total;
  __syncthreads();
  if (slice > 0 || c >= C) return;
#pragma unroll
  for (int k = 1; k < SLICES; ++k) total += all[k * 32 + lane];
  backward_leave((char*)dw, (char*)@DB@, c, t, total);
}
