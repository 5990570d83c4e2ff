// Weights in shared memory: two rows of taps, of which one is used while the other is loaded.
constexpr int PITCH = CHANNELS + N;  // padded, so that few taps of a channel share a bank
static_assert(R == 1 && 2 * TAPS_W * PITCH == @WORDS@, "the template's estimate of shared memory");

template <int COUNT>
struct __align__(4 * COUNT) channels_floats {
  float e[COUNT];
};

__device__ __forceinline__ void depthwise_channels(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                   void* __restrict__ y, word* shared) {
  wait_for_launch();
  constexpr int FLOATS = N < 4 ? N : 4;  // floats that are read from shared memory at once
  const channels_work mine = channels_mine();
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  if ((((size_t)x | (size_t)y | (size_t)bias_of | (size_t)residual_of) & (N * SIZE - 1)) != 0) {
    if (mine.any) channels_plain((const char*)x, (const char*)w, bias_of, residual_of, (char*)y, mine);
    return;
  }
  const int top = mine.row * STRIDE - TOP, left = mine.column * STRIDE - LEFT;
  const char* const origin =
      (const char*)x + (((long long)(mine.image * H + top) * W + left) * C + mine.channel) * SIZE;

  float* const taps = (float*)shared;
  auto stage = [&](int ky) {
    float* const to = taps + ky % 2 * (TAPS_W * PITCH);
#pragma unroll 4
    for (int i = threadIdx.x; i < TAPS_W * CHANNELS; i += THREADS)
      to[i % TAPS_W * PITCH + i / TAPS_W] =
          element_load((const char*)w, (mine.first + i / TAPS_W) * KERNEL + channels_tap(ky, i % TAPS_W));
  };

  word biases[WORDS];
  if (HAS_BIAS && mine.any) element_fetch<N * SIZE>(biases, bias_of + mine.channel * SIZE, true);
  float sum[V][N];
  channels_begin(sum, biases);
  stage(0);
  __syncthreads();
#pragma unroll 1
  for (int ky = 0; ky < TAPS_H; ++ky) {
    if (ky + 1 < TAPS_H) stage(ky + 1);
    const int h = top + ky * DILATION;
    if (mine.any && h >= 0 && h < H) {
      word v[COLUMNS][WORDS];
      channels_fetch(v, origin + ky * (DILATION * W * C * SIZE), left, true);
      const float* const from = taps + ky % 2 * (TAPS_W * PITCH) + mine.channel - mine.first;
#pragma unroll
      for (int kx = 0; kx < TAPS_W; ++kx)
#pragma unroll
        for (int n = 0; n < N; n += FLOATS) {
          const channels_floats<FLOATS> weight = *(const channels_floats<FLOATS>*)(from + kx * PITCH + n);
#pragma unroll
          for (int c = 0; c < V; ++c)
            if (!channels_outside(c * STRIDE + kx * DILATION))
#pragma unroll
              for (int m = 0; m < FLOATS; ++m)
                sum[c][n + m] = fmaf(element_at(v[c * STRIDE + kx * DILATION], n + m), weight.e[m], sum[c][n + m]);
        }
    }
    __syncthreads();
  }
  const long long place = ((long long)(mine.image * HO + mine.row) * WO + mine.column) * C + mine.channel;
  if (mine.any) channels_leave(sum, residual_of, (char*)y, place);
}
