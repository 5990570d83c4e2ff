// What both launches of signals_fourier.cu share, and the first launch.
constexpr bool FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@;
constexpr int BLOCKS = 128, BLOCK = @BLOCK@;         // blocks of a signal, and samples of a block
constexpr int CHUNKS = BLOCK / 8, EACH = 8 / CHUNKS;  // chunks of a block, and signals in 128 bytes
constexpr int SIGNALS = 4 * EACH;                     // signals that a block of threads transforms at a time
constexpr int SCALED = 8;  // 2^8 = 2 BLOCKS, by which a forward and an inverse transform multiply
constexpr long long PREFIXES_AT = (long long)F * BLOCKS * 4 * BLOCK, EXPONENTS_AT = PREFIXES_AT + F * BLOCKS * BLOCK;
constexpr long long TABLE_AT = EXPONENTS_AT + (F + 3) / 4 * 4;
static_assert(TABLE_AT + BLOCKS / 16 * 512 * 4 + 2 * 512 == @WORKSPACE@, "its size");

// Return the exponent of the least power of two above a number, and a power of two, both within the range of float32.
__device__ __forceinline__ int fourier_exponent(float v) { return min((int)(__float_as_uint(v) >> 23) - 126, 126); }
__device__ __forceinline__ float fourier_power(int exponent) {
  return __uint_as_float(min(max(exponent + 127, 1), 254) << 23);
}

// Returns cos + sin if IS_SUM, else cos - sin, of (4 k + 1) (2 i + 1) / (8 BLOCKS) turns.
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

__device__ __forceinline__ float lanes_given(float v, int lane) {
  return __uint_as_float(__shfl_sync(0xffffffffu, __float_as_uint(v), lane));
}

// Writes the table of the forward transform in the order in which the threads of four warpgroups have it: rows of P for
// the first two warpgroups, rows of Q for the others. Behind it are the sums of each thread's two rows.
__device__ __forceinline__ void fourier_write_table(word* table) {
#pragma unroll 1
  for (int thread = threadIdx.x; thread < 512; thread += @TAPS_THREADS@) {
    const int row = thread / 32 % 8 * 16 + thread % 32 / 4;
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
}

// The spectra of a channel's taps, which a block computes. v[m] is the tap that meets the sample m before an output,
// and T_k[n] = sum over d of v[BLOCK d + n] z_k^d with z_k = exp(-2 pi i (4 k + 1) / (4 BLOCKS)). This is computed in
// two steps, with d = 16 d1 + d0 and k = 8 k1 + k0. For negative n, T_k[n - BLOCK] = z_k T_k[n].
//
// They are stored as the pairs (T_k[n], T_k[n - 1]) that a matrix of T_k[row - column] has, real parts first, so that a
// thread reads every fourth pair of even or of odd n in 16 bytes. A power of two scales them to at most 1.
constexpr int TAPS_THREADS = @TAPS_THREADS@, TAPS_WARPS = TAPS_THREADS / 32, PER_THREAD = BLOCKS * BLOCK / TAPS_THREADS;

__device__ __forceinline__ float2 fourier_root(int k) {  // returns z_k
  float2 z;
  sincospif((4 * k + 1) * (-1.0f / (2 * BLOCKS)), &z.y, &z.x);
  return z;
}

// Returns tap m, or 0 if no output needs it: it would leave nothing but rounding errors.
__device__ __forceinline__ float fourier_tap(const char* taps, int m) {
  return m < min(N, L) ? element_load(taps, FLIP ? m : N - 1 - m) : 0.0f;
}

__device__ __forceinline__ void conv1d_tap_spectra(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                   void* __restrict__ y, void* __restrict__ workspace, word* shared) {
  float2* const values = (float2*)shared;  // [k0][d0][n], then [k0][k1][n]
  float* const beside = (float*)(values + BLOCKS * BLOCK);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, f = blockIdx.x;
  const char* const taps = (const char*)w + (long long)f * N * SIZE;
  if (f == 0) fourier_write_table((word*)workspace + TABLE_AT);
#pragma unroll 1
  for (int item = thread; item < 16 * BLOCK; item += TAPS_THREADS) {
    float2 v[8];
#pragma unroll
    for (int d1 = 0; d1 < 8; ++d1) v[d1] = make_float2(fourier_tap(taps, BLOCK * 16 * d1 + item), 0.0f);
    fft_dft<-1>(v, fft_fixed<-1, 32>());
#pragma unroll
    for (int k0 = 0; k0 < 8; ++k0) values[k0 * 16 * BLOCK + item] = v[k0];
  }
  // Compute for each tap the sum of all taps up to it.
  float upto[PER_THREAD];
#pragma unroll
  for (int i = 0; i < PER_THREAD; ++i) upto[i] = fourier_tap(taps, thread * PER_THREAD + i) + (i ? upto[i - 1] : 0.0f);
  float before = upto[PER_THREAD - 1];
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const float more = lanes_given(before, max(lane - far, 0));
    if (lane >= far) before += more;
  }
  if (lane == 31) beside[warp] = before;
  before = lanes_given(before, max(lane - 1, 0));
  if (lane == 0) before = 0.0f;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TAPS_WARPS; ++i) before += i < warp ? beside[i] : 0.0f;
  float* const prefix = (float*)workspace + PREFIXES_AT + (long long)f * (BLOCKS * BLOCK) + thread * PER_THREAD;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i += 4)
    ((float4*)prefix)[i / 4] = make_float4(before + upto[i], before + upto[i + 1], before + upto[i + 2], before + upto[i + 3]);

  float largest = 0.0f;
#pragma unroll 1
  for (int item = thread; item < 8 * BLOCK; item += TAPS_THREADS) {
    const int k0 = item / BLOCK;
    float2 *const of = values + k0 * 16 * BLOCK + item % BLOCK, t[16];
#pragma unroll
    for (int d0 = 0; d0 < 16; ++d0) t[d0] = of[d0 * BLOCK];
    fft_dft<-1>(t, fft_own<false>{fourier_root(k0)});
#pragma unroll
    for (int k1 = 0; k1 < 16; ++k1) {
      of[k1 * BLOCK] = t[k1];
      largest = max(largest, max(max(t[k1].x, -t[k1].x), max(t[k1].y, -t[k1].y)));
    }
  }
#pragma unroll
  for (int far = 1; far < 32; far *= 2) largest = lanes_largest(largest, far);
  if (lane == 0) beside[TAPS_WARPS + warp] = largest;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TAPS_WARPS; ++i) largest = max(largest, beside[TAPS_WARPS + i]);
  const int exponent = fourier_exponent(2.0f * largest);  // twice, as negative n are multiplied by z_k
  const float scale = fourier_power(-exponent);
  if (thread == 0) ((float*)workspace)[EXPONENTS_AT + f] = (float)exponent;

  // A warp converts a row in place to halves, [part][n + BLOCK], and stores pairs of these.
  uint4* const out = (uint4*)workspace + (long long)f * BLOCKS * BLOCK;
#pragma unroll 1
  for (int k = warp; k < BLOCKS; k += TAPS_WARPS) {
    constexpr int OF_LANE = (BLOCK + 31) / 32;
    float2* const row = values + (k % 8 * 16 + k / 8) * BLOCK;
    unsigned short* const half = (unsigned short*)row;
    const float2 z = fourier_root(k);
    word of_n[OF_LANE], of_negative[OF_LANE];
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
      const float2 t = row[min(lane + 32 * i, BLOCK - 1)], v = make_float2(t.x * scale, t.y * scale);
      const float2 turned = fft_times(v, z);
      of_n[i] = half_pack(v.x, v.y), of_negative[i] = half_pack(turned.x, turned.y);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OF_LANE; ++i) {
      unsigned short* const to = half + lane + 32 * i;
      if (lane + 32 * i < BLOCK) {
        to[0] = (unsigned short)of_negative[i], to[BLOCK] = (unsigned short)of_n[i];
        to[2 * BLOCK] = (unsigned short)(of_negative[i] >> 16), to[3 * BLOCK] = (unsigned short)(of_n[i] >> 16);
      }
    }
    __syncwarp();
#pragma unroll
    for (int item = lane; item < BLOCK; item += 32) {
      const int of = item / 8 % (BLOCK / 16) * 16 + item % 4, is_odd = item / 4 % 2;
      const unsigned short* const from = half + item / (BLOCK / 2) * 2 * BLOCK + BLOCK;
      word pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = min(2 * (of + 4 * i - BLOCK / 2 + 1) + is_odd, BLOCK - 1);
        pairs[i] = from[n] | (word)from[n - 1] << 16;
      }
      out[k * BLOCK + item] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
}
