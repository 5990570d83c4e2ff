// From shared memory to registers: a thread has N channels of V columns of an image.
constexpr int PIECES = POINTS;
struct weight_sums {
  float taps[TR][TC][N], bias[N];
};

__device__ __forceinline__ void weight_sum(weight_sums& sum, const char* x, const char* g, const char* z, int first,
                                           int part, int, int, char* shared) {
  const int lane = threadIdx.x % ACROSS, point = threadIdx.x / ACROSS;
  const int steps = max(0, min(WALKS, ITEMS - part * WALKS)) * STEPS;
  const shared_place all = weight_place_of(shared);
  weight_copying copying = weight_begin(part, steps, first);
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) weight_fetch(copying, all, x, g, z, stage * COPIED_STEPS);
  weight_clear(all);
  const bool mine = point < POINTS;
  const int image = mine ? point / GROUPS : 0, group = mine ? point % GROUPS : 0;
  const shared_place xs = all + image * STRIDE * X_ROW + group * V * STRIDE * X_PITCH + lane * N * SIZE;
  const shared_place gs =
      all + IMAGES * STRIDE * X_ROW + image * COPIED * G_ROW + group * V * G_PITCH + lane * N * SIZE;
  float kept[RING][V][N] = {};
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += HELD)
#pragma unroll
    for (int slot = 0; slot < HELD; ++slot) {
      if (slot % COPIED_STEPS == 0) {
        if (begin + slot >= steps) break;
        weight_await();
        __syncthreads();
        weight_fetch(copying, all, x, g, z, slot + (STAGES - 1) * COPIED_STEPS);
      }
      const int held = slot * STEP;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        word packed[WORDS], before[WORDS];
        weight_read<N * SIZE>(packed, gs + held + v * G_PITCH);
        if (HAS_DERIVATIVE) weight_read<N * SIZE>(before, gs + held + G_ROW + v * G_PITCH);
#pragma unroll
        for (int n = 0; n < N; ++n) {
          float& now = kept[slot % RING][v][n];
          now = element_at(packed, n);
          if (HAS_DERIVATIVE) now *= derivative_activation(element_at(before, n));
          if (HAS_BIAS) sum.bias[n] += now;
        }
      }
#pragma unroll
      for (int s = 0; s < STRIDE; ++s)
        if (weight_meets_row(s)) {
          word in[COLUMNS][WORDS];
#pragma unroll
          for (int e = 0; e < COLUMNS; ++e)
            if (weight_meets(e)) weight_read<N * SIZE>(in[e], xs + held + s * X_ROW + e * X_PITCH);
#pragma unroll
          for (int behind = 0; behind < RING; ++behind) {
            const int t = weight_met(behind * STRIDE + s, TR);
            if (t >= 0)
#pragma unroll
              for (int v = 0; v < V; ++v)
#pragma unroll
                for (int u = 0; u < TC; ++u)
#pragma unroll
                  for (int n = 0; n < N; ++n)
                    sum.taps[t][u][n] = fmaf(element_at(in[v * STRIDE + u * DILATION], n),
                                        kept[(slot - behind + HELD) % RING][v][n], sum.taps[t][u][n]);
          }
        }
    }
  __syncthreads();
}

// A row of taps, or the bias, of this thread's place, for the block to add up.
__device__ __forceinline__ void weight_give(const weight_sums& sum, int t, float* all) {
  const int lane = threadIdx.x % ACROSS, point = threadIdx.x / ACROSS, width = t < TR ? TC : 1;
  if (point >= POINTS) return;
#pragma unroll
  for (int u = 0; u < width; ++u)
#pragma unroll
    for (int n = 0; n < N; ++n)
      all[(point * width + u) * CHANNELS + lane * N + n] = t < TR ? sum.taps[t % TR][u][n] : sum.bias[n];
}
