// The output as a matrix product: O[m, a] = y[64 a + 63 - m] = sum over j of W[m, j] X[j, a]. W[m, j] = u[j + m - 63]
// is a Toeplitz matrix of 64 rows, the m64 of a warpgroup's matrix instruction. X[j, a] = x[64 a + j] is a Hankel
// matrix: a row of 64 samples is the row before, moved by one row, so shared memory holds x once, in rows of 128 bytes
// with the 128-byte swizzle. A core matrix of W is 8 rows of 8 taps, in which each row is the one before, moved by one
// tap: core (g, k) is C[g + k], so cores overlap as well.
//
// For the accuracy of float32, x and u are split into a high and a low half, and three products of halves are summed in
// float32.
constexpr int COLUMNS = @COLUMNS@, GROUPS = @GROUPS@, PARTS = @TAP_GROUPS@, PRODUCTS = @PRODUCTS@;
constexpr int M = @M@, N = @N@, L = @L@, LEFT = @LEFT@, CHUNK = @TAPS_PER_CHUNK@, STEPS_PER_SUM = @STEPS_PER_SUM@;
constexpr bool FLIP = @FLIP@, HALF_IO = @HALF_IO@, SCALED = @SCALED@;
constexpr int THREADS = 128 * GROUPS * PARTS, TILE = 64 * COLUMNS * GROUPS;
constexpr int VECTOR = HALF_IO ? 8 : 4;                // elements of 16 bytes
constexpr int PAD = (VECTOR - LEFT % VECTOR) % VECTOR; // zero taps in front, so that loads of x are aligned
constexpr int SHARE = ((CHUNK + 63 + 15) / 16 + PARTS - 1) / PARTS;  // a warpgroup's steps of 16 along j
constexpr int STEPS = SHARE * PARTS;
constexpr int X_ROWS = COLUMNS * GROUPS + (STEPS + 3) / 4 - 1;  // rows of 64 samples
constexpr int CORES = 2 * STEPS + 7;
constexpr int LINE = 16 * STEPS + 64;                  // taps with zeros around, as halves
constexpr int HALVES = PRODUCTS == 3 ? 2 : 1;
constexpr int X_BYTES = (128 * X_ROWS + 1023) / 1024 * 1024;  // the swizzle repeats every 1024 bytes
constexpr int W_BYTES = 128 * CORES, LINE_BYTES = 2 * LINE + 32;
constexpr int STAGED = HALVES * (X_BYTES + W_BYTES + LINE_BYTES) + 16;
constexpr int REDUCED = (PARTS - 1) * GROUPS * 64 * COLUMNS * 4;
static_assert(1024 + (STAGED > REDUCED ? STAGED : REDUCED) <= 4 * @WORDS@, "the template's estimate of shared memory");

typedef unsigned long long descriptor;

__device__ __forceinline__ float conv1d_load(const void* from, int place) {
  if (HALF_IO) return halves_widen(((const unsigned short*)from)[place]);
  return ((const float*)from)[place];
}

// Computes sum = W X, or adds that to sum if `add` is not 0, for 16 values of j.
__device__ __forceinline__ void conv1d_multiply(float (&sum)[COLUMNS / 2], descriptor w, descriptor x, int add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %@ADD@, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n@COLUMNS@k16.f32.@TYPE@.@TYPE@ {@REGISTERS@}, %@W@, %@X@, add, 1, 1, 0, 0; }"
      : @SUMS@
      : "l"(w), "l"(x), "r"(add));
}

__device__ __forceinline__ void conv1d_warpgroup(const void* __restrict__ x, const void* __restrict__ w, float bias,
                                                 const char* residual, void* __restrict__ y, word* unaligned) {
  char* const shared = (char*)(((size_t)unaligned + 1023) & ~(size_t)1023);
  char* const x_high = shared;
  char* const w_high = shared + HALVES * X_BYTES;
  char* const line_high = w_high + HALVES * W_BYTES;
  word* const slots = (word*)(line_high + HALVES * LINE_BYTES);
  const int thread = threadIdx.x, lane = thread % 32;
  const int group = thread / 128 % GROUPS, part = thread / 128 / GROUPS;
  const int first = conv1d_block() * TILE;

  float total[COLUMNS / 2];
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) total[i] = 0.0f;

#pragma unroll 1
  for (int start = 0; start < N + PAD; start += CHUNK) {
    // Stage: first the loads of x, eight elements at a time, which are 16 bytes of halves.
    constexpr int OCTETS = 8 * X_ROWS, OWN = (OCTETS + THREADS - 1) / THREADS;
    constexpr int TAPS = LINE / 2, OWN_TAPS = (TAPS + THREADS - 1) / THREADS;
    const int origin = first + start - LEFT - PAD;
    const bool aligned = ((size_t)x & 15) == 0;
    float vx[OWN][8], vw[OWN_TAPS][2];
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      const int octet = i * THREADS + thread, source = origin + 8 * octet;
      if (aligned && octet < OCTETS && source >= 0 && source + 8 <= M) {
        if (HALF_IO) {
          const uint4 v = *(const uint4*)((const unsigned short*)x + source);
          const word words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
          for (int e = 0; e < 8; ++e) vx[i][e] = halves_widen((unsigned short)(words[e / 2] >> (e % 2 * 16)));
        } else {
          const float4 a = ((const float4*)((const float*)x + source))[0];
          const float4 b = ((const float4*)((const float*)x + source))[1];
          vx[i][0] = a.x, vx[i][1] = a.y, vx[i][2] = a.z, vx[i][3] = a.w;
          vx[i][4] = b.x, vx[i][5] = b.y, vx[i][6] = b.z, vx[i][7] = b.w;
        }
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          vx[i][e] = octet < OCTETS && source + e >= 0 && source + e < M ? conv1d_load(x, source + e) : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < OWN_TAPS; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int place = 2 * (i * THREADS + thread) + e - 64, tap = start + place - PAD;
        const bool inside = place >= 0 && place < CHUNK && tap >= 0 && tap < N;
        vw[i][e] = inside ? conv1d_load(w, FLIP ? N - 1 - tap : tap) : 0.0f;
      }
    float undo_x = 1.0f, undo_w = 1.0f;
    if (SCALED) {
      if (thread < 2) slots[thread] = 0;
      float largest_x = 0.0f, largest_w = 0.0f;
#pragma unroll
      for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int e = 0; e < 8; ++e) largest_x = fmaxf(largest_x, fabsf(vx[i][e]));
#pragma unroll
      for (int i = 0; i < OWN_TAPS; ++i) largest_w = fmaxf(largest_w, fmaxf(fabsf(vw[i][0]), fabsf(vw[i][1])));
      const word bits_x = __reduce_max_sync(0xffffffffu, __float_as_uint(largest_x));
      const word bits_w = __reduce_max_sync(0xffffffffu, __float_as_uint(largest_w));
      __syncthreads();
      if (lane == 0) atomicMax(slots, bits_x), atomicMax(slots + 1, bits_w);
      __syncthreads();
      const int ex = halves_exponent(slots[0]), ew = halves_exponent(slots[1]);
      const float scale_x = halves_power(ex), scale_w = halves_power(ew);
      undo_x = halves_power(-ex), undo_w = halves_power(-ew);  // one after the other, as their product may underflow
#pragma unroll
      for (int i = 0; i < OWN; ++i)
#pragma unroll
        for (int e = 0; e < 8; ++e) vx[i][e] *= scale_x;
#pragma unroll
      for (int i = 0; i < OWN_TAPS; ++i) vw[i][0] *= scale_w, vw[i][1] *= scale_w;
    }
#pragma unroll
    for (int i = 0; i < OWN_TAPS; ++i) {
      const int pair = i * THREADS + thread;
      word high, low;
      halves_split(vw[i][0], vw[i][1], high, low);
      if (pair < TAPS) {
        ((word*)line_high)[pair] = high;
        if (PRODUCTS == 3) ((word*)(line_high + LINE_BYTES))[pair] = low;
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int item = thread; item < HALVES * 8 * CORES; item += THREADS) {
      const int half = item / (8 * CORES), row = item % (8 * CORES);
      const int begin = 8 * (row / 8) + row % 8 + 1;  // place of the row's eight taps in the line
      const word* const from = (const word*)(line_high + half * LINE_BYTES) + begin / 2;
      const word v[5] = {from[0], from[1], from[2], from[3], from[4]};
      const int shift = begin % 2 * 16;
      uint4 taps;
      taps.x = __funnelshift_r(v[0], v[1], shift), taps.y = __funnelshift_r(v[1], v[2], shift);
      taps.z = __funnelshift_r(v[2], v[3], shift), taps.w = __funnelshift_r(v[3], v[4], shift);
      ((uint4*)(w_high + half * W_BYTES))[row] = taps;
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      const int octet = i * THREADS + thread;
      if (octet < OCTETS) {
        uint4 high, low;
        halves_split(vx[i][0], vx[i][1], high.x, low.x);
        halves_split(vx[i][2], vx[i][3], high.y, low.y);
        halves_split(vx[i][4], vx[i][5], high.z, low.z);
        halves_split(vx[i][6], vx[i][7], high.w, low.w);
        const int place = octet ^ (octet / 8 % 8);
        ((uint4*)x_high)[place] = high;
        if (PRODUCTS == 3) ((uint4*)(x_high + X_BYTES))[place] = low;
      }
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();

    // Descriptors: addresses and strides in units of 16 bytes. Both strides of W are 128 bytes. Eight rows of X are
    // 1024 bytes.
    const descriptor w_first = ((word)__cvta_generic_to_shared(w_high) >> 4) | (8ull << 16) | (8ull << 32);
    const descriptor x_first = (((word)__cvta_generic_to_shared(x_high) >> 4) + 8 * COLUMNS * group) | (1ull << 16) |
                               (64ull << 32) | (1ull << 62);
    auto add_steps = [&](int begin, int count) {
      float sum[COLUMNS / 2];
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 8
      for (int own = 0; own < count; ++own) {
        const int step = begin + own;
        const descriptor w_step = w_first + 16 * step;
        const descriptor x_step = x_first + 8 * (step / 4) + 2 * (step % 4);
        conv1d_multiply(sum, w_step, x_step, own > 0);
        if (PRODUCTS == 3) {
          conv1d_multiply(sum, w_step + W_BYTES / 16, x_step, 1);
          conv1d_multiply(sum, w_step, x_step + X_BYTES / 16, 1);
        }
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      // The tensor cores truncate as they add. They only add up short sums, which are added to the total with rounding.
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i)
        total[i] = SCALED ? fmaf(sum[i] * undo_x, undo_w, total[i]) : total[i] + sum[i];
    };
    constexpr int WHOLE = SHARE / STEPS_PER_SUM * STEPS_PER_SUM;
#pragma unroll 1
    for (int begin = 0; begin < WHOLE; begin += STEPS_PER_SUM) add_steps(part * SHARE + begin, STEPS_PER_SUM);
    if (WHOLE < SHARE) add_steps(part * SHARE + WHOLE, SHARE - WHOLE);
    if (CHUNK < N + PAD || PARTS > 1) __syncthreads();
  }

  if (PARTS > 1) {
    float* const parts = (float*)shared + (part - 1) * GROUPS * 64 * COLUMNS + group * 64 * COLUMNS + thread % 128;
    if (part > 0) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i) parts[128 * i] = total[i];
    }
    __syncthreads();
    if (part > 0) return;
#pragma unroll
    for (int other = 1; other < PARTS; ++other)
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i) total[i] += parts[other * GROUPS * 64 * COLUMNS + 128 * i];
  }
  const int row = thread % 128 / 32 * 16 + lane / 4;
  const int place = first + 64 * (COLUMNS * group + lane % 4 * 2) + 63 - row;
  auto place_of = [&](int i) { return place + 512 * (i / 4) + 64 * (i % 2) - 8 * (i / 2 % 2); };
  if (HAS_EPILOGUE)
    epilogue_finish_runs<1, COLUMNS / 2>(
        total, bias, residual, [&](int i) -> epilogue_run { return {place_of(i), L - place_of(i)}; });
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) {
    const int to = place_of(i);
    if (to < L) {
      if (HALF_IO)
        ((unsigned short*)y)[to] = halves_narrow(total[i]);
      else
        ((float*)y)[to] = total[i];
    }
  }
}
