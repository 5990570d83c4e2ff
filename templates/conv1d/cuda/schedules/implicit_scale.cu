// Scales for float32 that is split into halves of float16, whose range is small: the powers of two that bring the
// largest sample that a block stages, and the largest weight of its filters, near the top of that range. All chunks
// have the same scales, because their products are summed. If weights are streamed, their scale is lowered if a larger
// one comes.
constexpr bool SCALED = IS_FLOAT && !@IS_BF16@;
constexpr int STAGED_TAPS = (TAP_CHUNKS - 1) * WT + (ALONG_TAPS ? 16 * INNER : WT);  // taps with the zeros beyond N

constexpr long long REACHED = (SPAN + SLACK - 1LL) * STRIDE + (STAGED_TAPS - 1LL) * DILATION + 1;
constexpr int WINDOW = REACHED < M ? (int)REACHED : M;

// Two powers of two. One register holds the bits of their exponents.
struct Scales {
  word exponents;
  __device__ __forceinline__ float x() const { return SCALED ? __uint_as_float((exponents & 0xff) << 23) : 1.0f; }
  __device__ __forceinline__ float w() const { return SCALED ? __uint_as_float(exponents >> 8 << 23) : 1.0f; }
  __device__ __forceinline__ float undone(float sum) const {  // one after the other, as their product may underflow
    return sum * __uint_as_float((254 - (exponents & 0xff)) << 23) * __uint_as_float((254 - (exponents >> 8)) << 23);
  }
};

// Returns the largest magnitude, as bits, in the thread's share of `count` neighbours: 16 bytes at a time, and the few
// elements before and behind these.
__device__ __forceinline__ word implicit_largest(const word* from, int count) {
  const int before = min(count, (int)(-(size_t)from / 4 % 4)), quads = (count - before) / 4;
  word largest = 0;
#pragma unroll 8
  for (int k = threadIdx.x; k < quads; k += THREADS) {
    const uint4 v = ((const uint4*)(from + before))[k];
    largest = max(largest, max(max(v.x & 0x7fffffff, v.y & 0x7fffffff), max(v.z & 0x7fffffff, v.w & 0x7fffffff)));
  }
  const int end = threadIdx.x + ((int)threadIdx.x < before ? 0 : 4 * quads);
  return end < count ? max(largest, from[end] & 0x7fffffff) : largest;
}

// Returns the largest magnitude in the thread's share of the samples that a block's positions meet.
__device__ __forceinline__ word implicit_largest_sample(const word* x, int b, int first) {
  const int begin = WINDOW < M ? (first - SLACK) * STRIDE - LEFT : 0;
  if (C == 1 || CHANNELS_LAST) {
    const int from = max(begin, 0);
    return implicit_largest(x + implicit_place(b, 0, from, C, M), (min(begin + WINDOW, M) - from) * C);
  }
  word largest = 0;
#pragma unroll 8
  for (int k = threadIdx.x; k < C * WINDOW; k += THREADS) {
    const int c = k / WINDOW, sample = begin + k % WINDOW;
    if ((word)sample < (word)M) largest = max(largest, x[implicit_place(b, c, sample, C, M)] & 0x7fffffff);
  }
  return largest;
}

// Returns the largest magnitude in the thread's share of the weights from a block's first filter to its last.
__device__ __forceinline__ word implicit_largest_weight(const word* w, int first_warp) {
  const int begin = implicit_filter(first_warp / SPACING * SPACING, 0);
  const int end = min(F, implicit_filter((first_warp + WARPS_F - 1) / SPACING * SPACING + SPACING - 1, OWN - 1) + 1);
  return implicit_largest(w + (long long)begin * (C * N), (end - begin) * (C * N));
}

// Returns a block's scales, from the largest magnitudes of its threads' shares.
__device__ __forceinline__ Scales implicit_scales(word largest_x, word largest_w, word* slots) {
  if (threadIdx.x < 2) slots[threadIdx.x] = 0;
  largest_x = halves_warp_max(largest_x), largest_w = halves_warp_max(largest_w);
  __syncthreads();
  if (threadIdx.x % 32 == 0) atomicMax(slots, largest_x), atomicMax(slots + 1, largest_w);
  __syncthreads();
  const Scales scales = {(word)(halves_exponent(slots[0]) + 127 | (halves_exponent(slots[1]) + 127) << 8)};
  __syncthreads();  // before staging overwrites the slots
  return scales;
}
