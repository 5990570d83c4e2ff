// Direct sum of several signals or channels. A thread sums R outputs of each of FILTERS output channels that read the
// same input, and reads samples and weights from global memory. Neighbouring threads have neighbouring outputs, or
// neighbouring channels if channels are last. The outputs of one thread are PATCHES apart.
constexpr bool CHANNELS_LAST = @CHANNELS_LAST@, FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, M = @M@, F = @F@, L = @L@, N = @N@;
constexpr int STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int SUMMED = @SUMMED@, SEVERAL = @SEVERAL@;  // input channels of an output, output channels of an input
constexpr int R = @OUTPUTS@, FILTERS = @FILTERS@, THREADS = @THREADS@, CHUNK = @CHUNK@;
constexpr int PATCHES = (L + R - 1) / R, FILTER_BLOCKS = (SEVERAL + FILTERS - 1) / FILTERS, INPUTS = C / SUMMED;
constexpr bool ONE_CHUNK = (long long)SUMMED * N <= CHUNK;

__device__ __forceinline__ long long signals_place(int b, int c, int i, int channels, int extent) {
  return CHANNELS_LAST ? ((long long)b * extent + i) * channels + c : ((long long)b * channels + c) * extent + i;
}

__device__ __forceinline__ void conv1d_signals(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                               void* __restrict__ y) {
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  const long long mine = (long long)blockIdx.x * THREADS + threadIdx.x;
  constexpr int CHANNEL_BLOCKS = INPUTS * FILTER_BLOCKS;
  if (mine >= (long long)B * CHANNEL_BLOCKS * PATCHES) return;
  const int patch = (int)(CHANNELS_LAST ? mine / CHANNEL_BLOCKS % PATCHES : mine % PATCHES);
  const int block = (int)(CHANNELS_LAST ? mine % CHANNEL_BLOCKS : mine / PATCHES % CHANNEL_BLOCKS);
  const int b = (int)(mine / PATCHES / CHANNEL_BLOCKS);
  const int input = block / FILTER_BLOCKS * SUMMED;
  const int filter = block / FILTER_BLOCKS * SEVERAL + min(block % FILTER_BLOCKS * FILTERS, SEVERAL - FILTERS);

  float total[FILTERS][R] = {}, sum[FILTERS][R] = {};
  auto add_up = [&] {
#pragma unroll
    for (int f = 0; f < FILTERS; ++f)
#pragma unroll
      for (int r = 0; r < R; ++r) total[f][r] += sum[f][r], sum[f][r] = 0.0f;
  };
  int summed = 0;
#pragma unroll 1
  for (int c = 0; c < SUMMED; ++c)
#pragma unroll @TAPS_UNROLLED@
    for (int t = 0; t < N; ++t) {
      float weights[FILTERS];
#pragma unroll
      for (int f = 0; f < FILTERS; ++f)
        weights[f] = element_load((const char*)w, ((long long)(filter + f) * SUMMED + c) * N + (FLIP ? N - 1 - t : t));
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int i = (patch + r * PATCHES) * STRIDE + t * DILATION - LEFT;
        word v[1];
        element_fetch<SIZE>(v, (const char*)x + signals_place(b, input + c, i, C, M) * SIZE, i >= 0 && i < M);
        const float sample = element_at(v, 0);
#pragma unroll
        for (int f = 0; f < FILTERS; ++f) sum[f][r] = fmaf(sample, weights[f], sum[f][r]);
      }
      if (!ONE_CHUNK && ++summed == CHUNK) add_up(), summed = 0;
    }
  add_up();
#pragma unroll
  for (int f = 0; f < FILTERS; ++f)
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int i = patch + r * PATCHES;
      if (i >= L) continue;
      const long long place = signals_place(b, filter + f, i, F, L);
      float v = total[f][r];
      if (HAS_BIAS) v += element_load(bias_of, filter + f);
      if (HAS_RESIDUAL) v += element_load(residual_of, place);
      v = epilogue_activation(v);
      element_store<1>((char*)y + place * SIZE, &v);
    }
}
