// Direct sum from global memory straight to registers: one wait for memory, no barrier. SHARES lanes of a warp compute
// the same OUTPUTS neighbouring outputs. Each of them sums over a part of the taps, then they add up their sums.
constexpr int OUTPUTS = @OUTPUTS_PER_THREAD@, SHARES = @SHARES@, THREADS = @THREADS@;
constexpr int M = @M@, N = @N@, L = @L@, LEFT = @LEFT@;
constexpr bool FLIP = @FLIP@, NEXT = @NEXT@;
constexpr int VECTOR = OUTPUTS < 4 ? OUTPUTS : 4;                                   // elements of a load
constexpr int TAPS = (N + SHARES * VECTOR - 1) / (SHARES * VECTOR) * VECTOR;        // taps of a lane
constexpr int BEFORE = (VECTOR - LEFT % VECTOR) % VECTOR;  // inputs before the first needed one, to align loads
constexpr int WINDOW = (BEFORE + OUTPUTS + TAPS - 1 + VECTOR - 1) / VECTOR * VECTOR;
constexpr int KEPT = OUTPUTS < SHARES ? 1 : OUTPUTS / SHARES;                       // outputs a lane stores
constexpr int STORED = KEPT < 4 ? KEPT : 4;                                         // elements of a store

__device__ __forceinline__ bool conv1d_aligned(const void* p, int elements) {
  return ((size_t)p & (elements * SIZE - 1)) == 0;
}

// Loads ELEMENTS neighbours, or zeros if `inside` is false. In float32 the order in which the compiler has these loads
// takes less time than that of element_fetch.
template <int ELEMENTS>
__device__ __forceinline__ void conv1d_load(float* to, const char* from, int place, bool inside) {
  word v[element_words(ELEMENTS)] = {};
  if (inside) element_read<ELEMENTS * SIZE>(v, from + (long long)place * SIZE);
#pragma unroll
  for (int e = 0; e < ELEMENTS; ++e) to[e] = element_at(v, e);
}

// Loads elements place .. place + VECTOR - 1 of `length`, with zeros for those outside. `place` is a multiple of VECTOR.
// `vectors` says that `from` is aligned, so that a vector may be loaded as a whole.
__device__ __forceinline__ void conv1d_fetch(float* to, const void* from, int place, int length, bool vectors) {
  if (vectors && length % VECTOR == 0) {  // a vector is inside or outside as a whole
    conv1d_load<VECTOR>(to, (const char*)from, place, place >= 0 && place < length);
  } else if (vectors && place >= 0 && place + VECTOR <= length) {
    conv1d_load<VECTOR>(to, (const char*)from, place, true);
  } else {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      conv1d_load<1>(to + e, (const char*)from, place + e, place + e >= 0 && place + e < length);
  }
}

// Returns whether tap t of a lane is not padding. Padding must not be multiplied, as zero times a NaN is NaN. For most
// t the compiler knows the answer.
__device__ __forceinline__ bool conv1d_is_tap(int share, int t) {
  return (SHARES - 1) * TAPS + t < N || share * TAPS + t < N;
}

__device__ __forceinline__ void conv1d_sums(float (&sum)[OUTPUTS], const void* x, const void* w, int first, int share,
                                            bool x_vectors, bool w_vectors) {
  float in[WINDOW], taps[TAPS];
#pragma unroll
  for (int i = 0; i < WINDOW; i += VECTOR) conv1d_fetch(in + i, x, first + share * TAPS - LEFT - BEFORE + i, M, x_vectors);
#pragma unroll
  for (int t = 0; t < TAPS; t += VECTOR) {
    const int tap = share * TAPS + t;
    if (FLIP) {
      float v[VECTOR];
      conv1d_fetch(v, w, N - VECTOR - tap, N, w_vectors);
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) taps[t + e] = v[VECTOR - 1 - e];
    } else {
      conv1d_fetch(taps + t, w, tap, N, w_vectors);
    }
  }
  if (NEXT) begin_next_launch();
#pragma unroll
  for (int r = 0; r < OUTPUTS; ++r) {
    float even = 0.0f, odd = 0.0f;
#pragma unroll
    for (int t = 0; t < TAPS; t += 2) {
      if (conv1d_is_tap(share, t)) even = fmaf(in[BEFORE + r + t], taps[t], even);
      if (t + 1 < TAPS && conv1d_is_tap(share, t + 1)) odd = fmaf(in[BEFORE + r + t + 1], taps[t + 1], odd);
    }
    sum[r] = even + odd;
  }
}

__device__ __forceinline__ void conv1d_registers(const void* __restrict__ x, const void* __restrict__ w, float bias,
                                                 const char* residual, void* __restrict__ y, word*) {
  const int thread = conv1d_block() * THREADS + threadIdx.x, share = thread % SHARES;
  const int first = thread / SHARES * OUTPUTS;
  float sum[OUTPUTS];
  const bool w_vectors = (N % VECTOR == 0 || !FLIP) && conv1d_aligned(w, VECTOR);
  if (conv1d_aligned(x, VECTOR))
    conv1d_sums(sum, x, w, first, share, true, w_vectors);
  else
    conv1d_sums(sum, x, w, first, share, false, false);
  // As long as a lane has more than one sum, it passes one half of its sums to another lane, and adds the sums that it
  // receives to the other half.
  int count = OUTPUTS, to = first;
#pragma unroll
  for (int bit = SHARES / 2; bit > 0; bit /= 2) {
    const bool upper = (share & bit) != 0;
    if (count > 1) {
      count /= 2;
#pragma unroll
      for (int r = 0; r < count; ++r) {
        const float kept = upper ? sum[r + count] : sum[r], passed = upper ? sum[r] : sum[r + count];
        sum[r] = kept + __shfl_xor_sync(0xffffffffu, passed, bit);
      }
      to += upper ? count : 0;
    } else {
      sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], bit);
    }
  }
  if (SHARES > OUTPUTS && share % (SHARES > OUTPUTS ? SHARES / OUTPUTS : 1) != 0) return;
  if (HAS_EPILOGUE)
    epilogue_finish_runs<STORED, KEPT / STORED>(sum, bias, residual, [&](int run) -> epilogue_run {
      return {to + run * STORED, L - to - run * STORED};
    });
  char* const out = (char*)y + (long long)to * SIZE;
  const bool vectors = STORED > 1 && conv1d_aligned(y, STORED);
#pragma unroll
  for (int r = 0; r < KEPT; r += STORED) {
    if (vectors && to + r + STORED <= L) {
      element_store<STORED>(out + r * SIZE, sum + r);
    } else {
#pragma unroll
      for (int e = 0; e < STORED; ++e)
        if (to + r + e < L) element_store<1>(out + (r + e) * SIZE, sum + r + e);
    }
  }
}
