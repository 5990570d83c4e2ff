// Weights in registers. A thread loads its own, or, if they are staged, all weights of a block come by way of shared
// memory, in which they have the order of global memory.
constexpr bool STAGED = @IS_STAGED@, NEXT = @NEXT@;
constexpr int AHEAD = @AHEAD@, ROWS = (R - 1) * STRIDE + (TAPS_H - 1) * DILATION + 1;
constexpr int WEIGHT_WORDS = element_words(N * KERNEL), WEIGHT_BYTES = N * KERNEL * SIZE;
constexpr int VECTOR = WEIGHT_BYTES % 16 == 0 ? 16 : WEIGHT_BYTES & -WEIGHT_BYTES;  // bytes that a thread reads at once
constexpr int STAGED_BYTES = CHANNELS * KERNEL * SIZE, PIECE = STAGED_BYTES % 4 == 0 ? 4 : 2;  // of a block, of a copy
static_assert((STAGED ? (STAGED_BYTES + 3) / 4 : 0) == @WORDS@, "the template's estimate of shared memory");

constexpr bool channels_above_or_below(int row) { return STRIPS == 1 && (row < TOP || row - TOP >= H); }

// Loads BYTES bytes of weights from where they are.
template <int BYTES>
__device__ __forceinline__ void channels_piece(word* v, const char* from) {
  if constexpr (STAGED) element_read<BYTES>(v, from);
  else element_fetch<BYTES>(v, from, true);
}

// Loads all weights of N channels, which follow one another.
__device__ __forceinline__ void channels_weights(word (&v)[WEIGHT_WORDS], const char* from) {
#pragma unroll
  for (int at = 0; at < WEIGHT_BYTES; at += VECTOR) {
    if constexpr (VECTOR > 2) {
      channels_piece<VECTOR>(v + at / 4, from + at);
    } else {
      word half[1];
      channels_piece<2>(half, from + at);
      v[at / 4] = at % 4 == 2 ? v[at / 4] | half[0] << 16 : half[0];
    }
  }
}

// Brings all weights of a block to shared memory.
__device__ __forceinline__ void channels_stage(char* to, const char* from) {
#pragma unroll 4
  for (int i = threadIdx.x; i < STAGED_BYTES / PIECE; i += THREADS) {
    word piece[1];
    element_fetch<PIECE>(piece, from + i * PIECE, true);
    if (PIECE == 4) ((word*)to)[i] = piece[0];
    else ((unsigned short*)to)[i] = (unsigned short)piece[0];
  }
  __syncthreads();
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
                                                   void* __restrict__ y@MEMORY@) {
  if (!NEXT) wait_for_launch();
  const channels_work mine = channels_mine();
  const int top = mine.row * STRIDE - TOP, left = mine.column * STRIDE - LEFT;
  const char* const origin =
      (const char*)x + (((long long)(mine.image * H + top) * W + left) * C + mine.channel) * SIZE;
  const long long place = ((long long)(mine.image * HO + mine.row) * WO + mine.column) * C + mine.channel;
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  // The addresses of this thread are aligned as the tensors are. If launches begin early, a branch asks for them, so they
  // are computed before the wait. If not, the launch before has ended, and no load should wait for all addresses.
  const size_t to = NEXT ? (size_t)y + place * SIZE : (size_t)y;
  const size_t bits = (NEXT ? (size_t)origin : (size_t)x) | to | (size_t)bias_of | (size_t)residual_of;
  if ((bits & (N * SIZE - 1)) != 0 || ((size_t)w & ((STAGED ? PIECE : VECTOR) - 1)) != 0) {
    if (NEXT) wait_for_launch();
    if (mine.any) channels_plain((const char*)x, (const char*)w, bias_of, residual_of, (char*)y, mine);
    return;
  }
  if (NEXT) wait_for_launch();

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
  const char* from = (const char*)w + (long long)(STAGED ? mine.first : mine.channel) * (KERNEL * SIZE);
  if constexpr (STAGED) {
    char* const staged = @STAGED@;
    channels_stage(staged, from);
    from = staged + (mine.channel - mine.first) * (KERNEL * SIZE);
  }
  if (!mine.any) return;
  word weights[WEIGHT_WORDS];
  channels_weights(weights, from);
  if (NEXT) begin_next_launch();
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
