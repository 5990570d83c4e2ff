// What both launches of signals_fourier.cu share, and the first of them.
constexpr bool FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@;
constexpr int BLOCKS = 128, BLOCK = @BLOCK@;         // of a signal, and samples of one
constexpr int CHUNKS = BLOCK / 8, EACH = 8 / CHUNKS;  // of a block, and signals in 128 bytes
constexpr int SIGNALS = 4 * EACH;                     // that a block of threads transforms at a time
constexpr int SCALED = 8;                             // 2^8 = 2 BLOCKS, by which transforms there and back grow
constexpr long long PREFIXES_AT = (long long)F * BLOCKS * 4 * BLOCK, EXPONENTS_AT = PREFIXES_AT + F * BLOCKS * BLOCK;
constexpr long long TABLE_AT = EXPONENTS_AT + (F + 3) / 4 * 4;
static_assert(TABLE_AT + BLOCKS / 16 * 512 * 4 + 2 * 512 == @WORKSPACE@, "its size");

// The least power of two above a number, and a power of two; within the range of float32.
__device__ __forceinline__ int fourier_exponent(float v) { return min((int)(__float_as_uint(v) >> 23) - 126, 126); }
__device__ __forceinline__ float fourier_power(int exponent) {
  return __uint_as_float(min(max(exponent + 127, 1), 254) << 23);
}

// cos + sin, or cos - sin, of (4 k + 1) (2 i + 1) / (8 BLOCKS) turns.
template <bool IS_SUM>
__device__ __forceinline__ float fourier_table(int k, int i) {
  float sine, cosine;
  const int turned = (4 * k + 1) * (2 * i + 1) + (IS_SUM ? -BLOCKS : BLOCKS) + 8 * BLOCKS;
  sincospif(turned % (8 * BLOCKS) * (1.0f / (4 * BLOCKS)), &sine, &cosine);
  return 1.41421356f * cosine;
}

__device__ __forceinline__ float lanes_sum(float v, int lanes) {
  const word got = __shfl_xor_sync(0xffffffffu, __float_as_uint(v), lanes);
  return v + __uint_as_float(got);
}
__device__ __forceinline__ float lanes_largest(float v, int lanes) {
  const word got = __shfl_xor_sync(0xffffffffu, __float_as_uint(v), lanes);
  return max(v, __uint_as_float(got));
}

// The table of the transform there as the threads of four warpgroups have it: rows of P for the first two, of Q for the
// others; behind it the sums of a thread's two rows.
__device__ __forceinline__ void fourier_write_table(word* table) {
  const int thread = threadIdx.x, row = thread / 32 % 8 * 16 + thread % 32 / 4;
  float sums[2] = {0.0f, 0.0f};
#pragma unroll 1
  for (int step = 0; step < BLOCKS / 16; ++step)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int k = row + r % 2 * 8, i = 16 * step + r / 2 * 8 + thread % 4 * 2;
      const word pair = thread < 256 ? half_pack(fourier_table<true>(k, i), fourier_table<true>(k, i + 1))
                                     : half_pack(fourier_table<false>(k, i), fourier_table<false>(k, i + 1));
      table[(step * 512 + thread) * 4 + r] = pair;
      sums[r % 2] += half_widen(pair) + half_widen(pair >> 16);
    }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    ((float*)table)[BLOCKS / 16 * 512 * 4 + 2 * thread + r] = lanes_sum(lanes_sum(sums[r], 1), 2);
}

// The spectra of a channel's taps, a block a channel: v[m] is the tap that meets the sample m before an output, and
// T_k[n] = sum over d of v[BLOCK d + n] z_k^d, z_k = exp(-2 pi i (4 k + 1) / (4 BLOCKS)), in two steps: d = 16 d1 + d0.
// T_k[n - BLOCK] = z_k T_k[n]. They are stored as the pairs (T_k[n], T_k[n - 1]) that a matrix of T_k[row - column] has,
// real parts
// first, so that a thread reads every fourth of even or of odd n in 16 bytes; scaled by a power of two to at most 1.
constexpr int TURN = 4 * BLOCKS;  // roots of unity
constexpr int PER_THREAD = BLOCKS * BLOCK / 512;

// Those that no output needs would leave their rounding errors only.
__device__ __forceinline__ float fourier_tap(const char* taps, int m) {
  return m < min(N, L) ? element_load(taps, FLIP ? m : N - 1 - m) : 0.0f;
}

__device__ __forceinline__ void conv1d_tap_spectra(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                   void* __restrict__ y, void* __restrict__ workspace, word* shared) {
  float2* const root = (float2*)shared;
  float2* const partial = root + TURN;  // [k % 8][d0][n]
  float* const beside = (float*)(partial + 8 * 16 * BLOCK);
  const int thread = threadIdx.x, f = blockIdx.x;
  const char* const taps = (const char*)w + (long long)f * N * SIZE;
  if (f == 0) fourier_write_table((word*)workspace + TABLE_AT);
  {
    float sine, cosine;
    sincospif(thread * (2.0f / TURN), &sine, &cosine);
    root[thread] = make_float2(cosine, -sine);
  }
  // Sums of all taps up to one, 512 threads by PER_THREAD.
  float upto[PER_THREAD];
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) upto[i] = fourier_tap(taps, thread * PER_THREAD + i) + (i ? upto[i - 1] : 0.0f);
  beside[thread] = upto[PER_THREAD - 1];
  __syncthreads();
  if (thread < 16) {
    float sum = 0.0f;
    for (int i = 0; i < 32; ++i) sum += beside[32 * thread + i];
    beside[512 + thread] = sum;
  }
#pragma unroll 1
  for (int item = thread; item < 16 * BLOCK; item += 512) {
    const int d0 = item / BLOCK, n = item % BLOCK;
    float v[8];
#pragma unroll
    for (int d1 = 0; d1 < 8; ++d1) v[d1] = fourier_tap(taps, BLOCK * (16 * d1 + d0) + n);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int d1 = 0; d1 < 8; ++d1) {
        const float2 z = root[(4 * k + 1) * 16 * d1 % TURN];
        sum = make_float2(fmaf(v[d1], z.x, sum.x), fmaf(v[d1], z.y, sum.y));
      }
      partial[k * 16 * BLOCK + item] = sum;
    }
  }
  __syncthreads();
  float before = 0.0f;
  for (int i = 0; i < thread / 32; ++i) before += beside[512 + i];
  for (int i = thread / 32 * 32; i < thread; ++i) before += beside[i];
  float* const prefix = (float*)workspace + PREFIXES_AT + (long long)f * (BLOCKS * BLOCK) + thread * PER_THREAD;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i += 4)
    ((float4*)prefix)[i / 4] = make_float4(before + upto[i], before + upto[i + 1], before + upto[i + 2], before + upto[i + 3]);

  const int n = thread % BLOCK;
  float2 t[PER_THREAD];
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const int k = thread / BLOCK + 512 / BLOCK * i;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int d0 = 0; d0 < 16; ++d0) {
      const float2 z = root[(4 * k + 1) * d0 % TURN], u = partial[(k % 8 * 16 + d0) * BLOCK + n];
      sum.x = fmaf(u.x, z.x, fmaf(-u.y, z.y, sum.x));
      sum.y = fmaf(u.x, z.y, fmaf(u.y, z.x, sum.y));
    }
    t[i] = sum;
    largest = max(largest, max(max(sum.x, -sum.x), max(sum.y, -sum.y)));
  }
#pragma unroll
  for (int far = 1; far < 32; far *= 2) largest = lanes_largest(largest, far);
  __syncthreads();  // all partial sums are read
  if (thread % 32 == 0) beside[thread / 32] = largest;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 16; ++i) largest = max(largest, beside[i]);
  const int exponent = fourier_exponent(2.0f * largest);  // of twice, as negative n are turned
  const float scale = fourier_power(-exponent);
  if (thread == 0) ((float*)workspace)[EXPONENTS_AT + f] = (float)exponent;

  unsigned short* const half = (unsigned short*)partial;  // [k][part][n + BLOCK]
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) {
    const int k = thread / BLOCK + 512 / BLOCK * i;
    const float2 z = root[4 * k + 1], v = make_float2(t[i].x * scale, t[i].y * scale);
    const word there = half_pack(v.x, v.y);
    const word turned = half_pack(v.x * z.x - v.y * z.y, v.x * z.y + v.y * z.x);
    unsigned short* const row = half + k * 4 * BLOCK + n;
    row[BLOCK] = (unsigned short)there;
    row[3 * BLOCK] = (unsigned short)(there >> 16);
    row[0] = (unsigned short)turned;
    row[2 * BLOCK] = (unsigned short)(turned >> 16);
  }
  __syncthreads();
  word* const out = (word*)workspace + (long long)f * BLOCKS * 4 * BLOCK;
#pragma unroll 4
  for (int item = thread; item < BLOCKS * 4 * BLOCK; item += 512) {
    const int place = item / 32 % (BLOCK / 16) * 16 + item % 4 * 4 + item / 4 % 4, row = item / (2 * BLOCK);
    const int is_odd = item / 16 % 2;
    const int n = min(2 * (place - BLOCK / 2 + 1) + is_odd, BLOCK - 1);
    const unsigned short* const from = half + row * 2 * BLOCK + BLOCK + n;
    out[item] = from[0] | (word)from[-1] << 16;
  }
}
