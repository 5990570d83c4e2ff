// Signals of a channel, which share a kernel: y[b, o] = sum over j of x[b, j] u[j - o + LEFT]. This is a product of 64
// signals by samples with a Toeplitz matrix of samples by COLUMNS outputs. The matrix instructions of whole warpgroups
// read both operands from shared memory. Samples come in chunks of 64 with the 128-byte swizzle, through STAGES buffers
// in turn. Taps are core matrices of 8 outputs by 8 samples, in which each row is the row before, moved by one tap.
//
// Outputs are counted backwards, so that the next core is both 8 outputs and 8 samples further on. All products thereby
// share one line of cores. Chunks that meet no tap are left out: half of the chunks if the kernel is causal and as long
// as the signals. No product is under a condition, because ptxas would then let each product wait for the one before.
constexpr bool FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, F = @F@, SEVERAL = @SEVERAL@, M = @M@, L = @L@, N = @N@, LEFT = @LEFT@;
constexpr int GROUPS = @GROUPS@, THREADS = 128 * GROUPS, STAGES = @STAGES@, AHEAD = STAGES - 2;
constexpr int SPAN = COLUMNS * GROUPS, SPANS = (L + SPAN - 1) / SPAN, SIGNAL_GROUPS = (B + 63) / 64;
constexpr int CHUNK_BYTES = 64 * 128, BEHIND = COLUMNS / 8 - 1;  // the last output's core, counted backwards
constexpr int BASE = (LEFT + SPAN + 70) / 8, CORES = @CORES@;    // core k begins with tap 8 (k - BASE) - 7 + LEFT
constexpr int LINE = 8 * CORES + 16;                               // taps with zeros around
constexpr int CORES_AT = STAGES * CHUNK_BYTES, LINE_AT = CORES_AT + 128 * CORES;
static_assert(1024 + LINE_AT + 2 * LINE <= 4 * @WORDS@, "the template's estimate of shared memory");

__device__ __forceinline__ void conv1d_signals_toeplitz(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                        void* __restrict__ y, word* unaligned) {
  const word shared = ((word)__cvta_generic_to_shared(unaligned) + 1023) & ~1023u;
  char* const memory = (char*)unaligned + (shared - (word)__cvta_generic_to_shared(unaligned));
  const int thread = threadIdx.x, group = thread / 128, lane = thread % 32, quarter = lane % 4;
  // Blocks with the last outputs of a channel come first, because those of a causal kernel take the longest.
  const int span = SPANS - 1 - blockIdx.x % SPANS, f = blockIdx.x / SPANS % F, signal = blockIdx.x / SPANS / F * 64;
  const int begin = span * SPAN, end = min(begin + SPAN, L);  // range of the outputs
  const int first = max(begin - LEFT, 0) / 64, samples = min(M, end - LEFT + N - 1);
  const int chunks = (samples - 64 * first + 63) / 64;

  // Eight lanes copy a chunk's samples of a signal. A thread copies the same eight samples of every ROWS-th signal.
  constexpr int ROWS = THREADS / 8;
  const int own_row = thread / 8, octet = thread % 8, own_place = 128 * own_row + 16 * (octet ^ own_row % 8);
  const char* const own_samples =
      (const char*)x + (((long long)(signal + own_row) * C + f / SEVERAL) * M + 64 * first + 8 * octet) * SIZE;
  const bool copied = M % 8 == 0 && (size_t)x % 16 == 0;
  auto load = [&](int chunk) {
    if (chunk < chunks) {
      const int in_row = min(max(M - 64 * (first + chunk) - 8 * octet, 0), 8);
#pragma unroll
      for (int row = 0; row < 64; row += ROWS) {
        if (64 % ROWS > 0 && row + own_row >= 64) continue;
        const int to = chunk % STAGES * CHUNK_BYTES + 128 * row + own_place;
        const int left = signal + row + own_row < B ? in_row : 0;
        const char* const from = own_samples + ((long long)row * C * M + 64 * chunk) * SIZE;
        if (copied) {
          copy_begin(shared + to, left ? from : (const char*)x, SIZE * left);
        } else {
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            word v[1];
            element_fetch<SIZE>(v, from + e * SIZE, e < left);
            ((unsigned short*)(memory + to))[e] = (unsigned short)v[0];
          }
        }
      }
    }
    copy_commit();
  };
#pragma unroll 1
  for (int chunk = 0; chunk < AHEAD; ++chunk) load(chunk);

  // The range of cores that the block's samples meet.
  const int nearest = max(BASE + first * 8 - (begin + SPAN) / 8 + 1, 0);
  const int furthest = min(BASE + (first + chunks) * 8 - begin / 8, CORES);
  unsigned short* const line = (unsigned short*)(memory + LINE_AT);
#pragma unroll 8
  for (int i = 8 * nearest + thread; i < 8 * furthest + 16; i += THREADS) {
    const int tap = i - 8 * BASE - 7 + LEFT;
    word v[1];
    element_fetch<SIZE>(v, (const char*)w + ((long long)f * N + (FLIP ? N - 1 - tap : tap)) * SIZE, (unsigned)tap < N);
    line[i] = (unsigned short)v[0];
  }
  __syncthreads();
#pragma unroll 4
  for (int row = 8 * nearest + thread; row < 8 * furthest; row += THREADS) {
    const word* const from = (const word*)line + row / 2;  // the word with the first of its eight taps, in either half
    const word v[5] = {from[0], from[1], from[2], from[3], from[4]};
    const int shift = row % 2 * 16;
    ((uint4*)(memory + CORES_AT))[row] =
        make_uint4(__funnelshift_r(v[0], v[1], shift), __funnelshift_r(v[1], v[2], shift),
                   __funnelshift_r(v[2], v[3], shift), __funnelshift_r(v[3], v[4], shift));
  }

  // Descriptors: addresses and strides in units of 16 bytes. Groups of eight signals are 1024 bytes apart, cores 128
  // bytes both ways.
  const int place = begin + group * COLUMNS;
  const descriptor samples_at = (shared >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
  const descriptor taps_at = ((shared + CORES_AT) >> 4) | (8ull << 16) | (8ull << 32);
  const int core = BASE - place / 8 - BEHIND;  // of sample 0, even if it meets no tap
  float sum[SUMS];
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sum[i] = 0.0f;
  matrix_begin();
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    copy_wait<AHEAD - 1>();
    publish();
    __syncthreads();  // all threads have copied this chunk, and multiplied the last but one
    load(chunk + AHEAD);
    const descriptor samples_in = samples_at + CHUNK_BYTES / 16 * (chunk % STAGES);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      matrix_multiply(sum, samples_in + 2 * i, taps_at + 8 * (core + 8 * (first + chunk) + 2 * i));
    matrix_commit();
    matrix_wait<1>(sum);
  }
  matrix_wait<0>(sum);
  const float offset = epilogue_bias(@BIAS@, f);
  const char* const residual_of = (const char*)@RESIDUAL@;
  const bool is_vector = L % 8 == 0 && ((size_t)y | (size_t)residual_of) % 16 == 0;

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = signal + thread % 128 / 32 * 16 + 8 * half + lane / 4;
    const long long out = ((long long)row * F + f) * L;
#pragma unroll
    for (int four = 0; four < COLUMNS / 8; four += 4) {
      // Four blocks of eight outputs each. This lane has the pair at 6 - 2 quarter of each block.
      word packed[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = place + COLUMNS - 8 * (four + i + 1) + 6 - 2 * quarter;
        float pair[2] = {sum[4 * (four + i) + 2 * half + 1], sum[4 * (four + i) + 2 * half]};
        if (HAS_RESIDUAL) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            word added[1];
            element_fetch<SIZE>(added, residual_of + (out + at + e) * SIZE, row < B && at + e < L);
            pair[e] += element_at(added, 0);
          }
        }
        if (HAS_BIAS) pair[0] += offset, pair[1] += offset;
        packed[i] = element_pack(epilogue_activation(pair[0]), epilogue_activation(pair[1]));
      }
      transpose_of_four(packed, quarter);  // lane q now has block four + q, its last pair first
      const int to = place + COLUMNS - 8 * (four + quarter + 1);
      const word v[4] = {packed[3], packed[2], packed[1], packed[0]};
      char* const into = (char*)y + (out + to) * SIZE;
      if (row < B && to < L) {
        if (is_vector) {
          element_put<16>(into, v);
        } else {
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const word element = v[e / 2] >> 16 * (e % 2);
            if (to + e < L) element_put<SIZE>(into + e * SIZE, &element);
          }
        }
      }
    }
  }
}
