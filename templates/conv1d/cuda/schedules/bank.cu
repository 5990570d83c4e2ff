// A bank of filters with few taps over one channel, whose time is that of storing the outputs. A warp holds the samples
// that its positions meet as fragments for the tensor cores, and goes through tiles of 16 filters, one product for
// each. Samples and weights go straight from memory to registers.
constexpr int TURNS = OWN / 16, STEPS = (N + 15) / 16, PATCHES = (L + SLACK + TILE - 1) / TILE;
static_assert(C == 1, "a bank");

// Returns taps t and t + 1 of filter f as a pair, with zeros beyond the kernel's taps. `paired` says that two taps may
// be loaded at once.
__device__ __forceinline__ word bank_weights(const char* w, int f, int t, bool paired) {
  const char* const from = w + ((long long)f * N + (FLIP ? N - 1 - t : t)) * SIZE;
  word v[2];
  if (N % 2 == 0 && paired) {
    element_fetch<2 * SIZE>(v, FLIP ? from - SIZE : from, f < F && t < N);
    return FLIP ? __byte_perm(v[0], 0, 0x1032) : v[0];
  }
  element_fetch<SIZE>(v, from, f < F && t < N);
  element_fetch<SIZE>(v + 1, FLIP ? from - SIZE : from + SIZE, f < F && t + 1 < N);
  return v[0] | v[1] << 16;
}

// Loads the samples that a warp's positions meet, as fragments. INSIDE says that all of them are in the signal, so that
// no index is checked.
template <bool INSIDE>
__device__ __forceinline__ void bank_samples(word (&samples)[STEPS][NI][2], const char* signal, int first) {
  const int lane = threadIdx.x % 32, pair = lane % 4 * 2;
#pragma unroll
  for (int k = 0; k < STEPS * NI * 2; ++k) {
    const int s = k / NI / 2, j = k / 2 % NI, h = k % 2;
    const int sample = (first + implicit_position(j, lane / 4)) * STRIDE - LEFT;
    word v[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int t = 16 * s + 8 * h + pair + e, place = sample + t * DILATION;
      element_fetch<SIZE>(v + e, signal + (long long)place * SIZE, t < N && (INSIDE || (word)place < (word)M));
    }
    samples[s][j][h] = v[0] | v[1] << 16;
  }
}

__device__ __forceinline__ void conv1d_bank(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                            void* __restrict__ y) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = lane % 4 * 2;
  const int filter = implicit_filter((int)(blockIdx.x % FILTER_BLOCKS) * WARPS_F + warp % WARPS_F, 0);
  const int patch = (int)(blockIdx.x / FILTER_BLOCKS % PATCHES), b = (int)(blockIdx.x / FILTER_BLOCKS / PATCHES);
  const int start = patch * TILE + warp / WARPS_F * 8 * NI, first = start - implicit_lead(y, b, filter, start);
  const bool paired = (size_t)w % (2 * SIZE) == 0;

  const char* const signal = (const char*)x + (long long)b * M * SIZE;
  word samples[STEPS][NI][2];
  const int least = first * STRIDE - LEFT, most = least + (8 * NI - 1) * STRIDE + (N - 1) * DILATION;
  if (least >= 0 && most < M) bank_samples<true>(samples, signal, first);
  else bank_samples<false>(samples, signal, first);

  word weights[2][STEPS][4];  // weights of this tile and the next one
  auto fetch = [&](word (&to)[STEPS][4], int turn) {
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[s][i] = bank_weights((const char*)w, filter + SPACING * (16 * turn + lane / 4 + i % 2 * 8),
                                16 * s + i / 2 * 8 + pair, paired);
  };
  auto take_turn = [&](const word (&mine)[STEPS][4], word (&next)[STEPS][4], int turn) {
    if (turn + 1 < TURNS) fetch(next, turn + 1);
    float sum[NI][4];
#pragma unroll
    for (int j = 0; j < NI; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[j][i] = 0.0f;
#pragma unroll
      for (int s = 0; s < STEPS; ++s) halves_multiply(sum[j], mine[s], samples[s][j][0], samples[s][j][1]);
    }
    implicit_store(sum, {(char*)y, (const char*)@BIAS@, (const char*)@RESIDUAL@, b, filter + SPACING * 16 * turn, first});
  };
  fetch(weights[0], 0);
#pragma unroll 1
  for (int turn = 0; turn < TURNS && filter + SPACING * 16 * turn < F; turn += 2) {
    take_turn(weights[0], weights[1], turn);
    if (turn + 1 < TURNS) take_turn(weights[1], weights[0], turn + 1);
  }
}
