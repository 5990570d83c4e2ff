// Weights in registers. They come by way of shared memory, in which they have the order of global memory.
constexpr int AHEAD = @AHEAD@, ROWS = (R - 1) * STRIDE + (TAPS_H - 1) * DILATION + 1;
constexpr int WEIGHT_WORDS = element_words(N * KERNEL), WEIGHT_BYTES = N * KERNEL * SIZE;
constexpr int VECTOR = WEIGHT_BYTES % 16 == 0 ? 16 : WEIGHT_BYTES & -WEIGHT_BYTES;  // bytes that a thread reads at once
constexpr int STAGED = CHANNELS * KERNEL * SIZE, PIECE = STAGED % 4 == 0 ? 4 : 2;  // bytes of a block, and of a copy
static_assert((STAGED + 3) / 4 == @WORDS@, "the template's estimate of shared memory");

constexpr bool channels_above_or_below(int row) { return STRIPS == 1 && (row < TOP || row - TOP >= H); }

// Loads all weights of N channels, which follow one another in shared memory.
__device__ __forceinline__ void channels_weights(word (&v)[WEIGHT_WORDS], const char* from) {
  if constexpr (VECTOR == 2) {
#pragma unroll
    for (int i = 0; i < N * KERNEL; ++i) {
      const word h = ((const unsigned short*)from)[i];
      v[i / 2] = i % 2 ? v[i / 2] | h << 16 : h;
    }
  } else {
#pragma unroll
    for (int i = 0; i < WEIGHT_WORDS; i += VECTOR / 4) {
      if constexpr (VECTOR == 16) {
        const uint4 four = ((const uint4*)from)[i / 4];
        v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
      } else if constexpr (VECTOR == 8) {
        const uint2 two = ((const uint2*)from)[i / 2];
        v[i] = two.x, v[i + 1] = two.y;
      } else {
        v[i] = ((const word*)from)[i];
      }
    }
  }
}

// Adds a row of taps to the sums of V outputs of a row.
__device__ __forceinline__ void channels_row(float (&sum)[V][N], const word (&x)[COLUMNS][WORDS],
                                             const word (&weights)[WEIGHT_WORDS], int ky) {
#pragma unroll
  for (int kx = 0; kx < TAPS_W; ++kx)
#pragma unroll
    for (int c = 0; c < V; ++c) {
      const int e = c * STRIDE + kx * DILATION;
      if (!channels_outside(e))
#pragma unroll
        for (int n = 0; n < N; ++n)
          sum[c][n] = fmaf(element_at(x[e], n), element_at(weights, n * KERNEL + channels_tap(ky, kx)), sum[c][n]);
    }
}

__device__ __forceinline__ void depthwise_channels(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                   void* __restrict__ y, word* shared) {
  const channels_work mine = channels_mine();
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  const size_t bits = (size_t)x | (size_t)y | (size_t)bias_of | (size_t)residual_of;
  if ((bits & (N * SIZE - 1)) != 0 || ((size_t)w & (PIECE - 1)) != 0) {
    if (mine.any) channels_plain((const char*)x, (const char*)w, bias_of, residual_of, (char*)y, mine);
    return;
  }
  const int top = mine.row * STRIDE - TOP, left = mine.column * STRIDE - LEFT;
  const char* const origin =
      (const char*)x + (((long long)(mine.image * H + top) * W + left) * C + mine.channel) * SIZE;
  const long long place = ((long long)(mine.image * HO + mine.row) * WO + mine.column) * C + mine.channel;

  auto fetch = [&](int i, word (&v)[COLUMNS][WORDS]) {
    if (channels_meets(i, R, TAPS_H) && !channels_above_or_below(i))
      channels_fetch(v, origin + i * (W * C * SIZE), left,
                     mine.any && (i >= TOP || top + i >= 0) && ((HO - R) * STRIDE - TOP + i < H || top + i < H));
  };

  word rows[AHEAD + 1][COLUMNS][WORDS];
#pragma unroll
  for (int i = 0; i < AHEAD && i < ROWS; ++i) fetch(i, rows[i]);
  word biases[WORDS];
  if (HAS_BIAS) element_fetch<N * SIZE>(biases, bias_of + mine.channel * SIZE, true);
  const char* const from = (const char*)w + (long long)mine.first * (KERNEL * SIZE);
#pragma unroll 4
  for (int i = threadIdx.x; i < STAGED / PIECE; i += THREADS) {
    word piece[1];
    element_fetch<PIECE>(piece, from + i * PIECE, true);
    if (PIECE == 4) shared[i] = piece[0];
    else ((unsigned short*)shared)[i] = (unsigned short)piece[0];
  }
  __syncthreads();
  if (!mine.any) return;
  word weights[WEIGHT_WORDS];
  channels_weights(weights, (const char*)shared + (mine.channel - mine.first) * (KERNEL * SIZE));
  float sum[R][V][N];
#pragma unroll
  for (int r = 0; r < R; ++r) channels_begin(sum[r], biases);
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (i + AHEAD < ROWS) fetch(i + AHEAD, rows[(i + AHEAD) % (AHEAD + 1)]);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int ky = (i - r * STRIDE) / DILATION;
      if (i >= r * STRIDE && (i - r * STRIDE) % DILATION == 0 && ky < TAPS_H && !channels_above_or_below(i))
        channels_row(sum[r], rows[i % (AHEAD + 1)], weights, ky);
      if (i == r * STRIDE + (TAPS_H - 1) * DILATION)
        channels_leave(sum[r], residual_of, (char*)y, place + r * (WO * C));
    }
  }
}
