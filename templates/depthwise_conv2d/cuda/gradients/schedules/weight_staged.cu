// Sums from rows that the block shares in shared memory. A thread has N channels of V columns of an image.
constexpr int PIECES = POINTS, SUM_WORDS = SHARED_WORDS;
struct weight_sums {
  float taps[TR][TC][N], bias[N];
};

__device__ __forceinline__ void weight_sum(weight_sums& sum, const char* x, const char* g, const char* z, int first,
                                           int part, int, int, char* shared) {
  const int lane = threadIdx.x % ACROSS, point = threadIdx.x / ACROSS;
  const int start = weight_begin(part), end = weight_begin(part + 1), steps = weight_steps(start, end);
  weight_clear(shared);
  const shared_place all = weight_place_of(shared);
  weight_copying copying = {weight_copies_of(threadIdx.x), weight_first(start, end), steps};
#pragma unroll 1
  for (int stage = 0; stage < STAGES - 1; ++stage) weight_fetch(copying, all, x, g, z, first);
  const bool mine = point < POINTS;
  const int image = mine ? point / GROUPS : 0, group = mine ? point % GROUPS : 0;
  const shared_place xs = all + image * STRIDE * X_ROW + group * V * STRIDE * X_PITCH + lane * N * SIZE;
  const shared_place gs =
      all + IMAGES * STRIDE * X_ROW + image * COPIED * G_ROW + group * V * G_PITCH + lane * N * SIZE;
  weight_turn turn = weight_first(start, end);
  float kept[RING][V][N] = {};
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += RING)
#pragma unroll
    for (int slot = 0; slot < RING; ++slot) {
      const int step = begin + slot;
      if (step >= steps) break;
      if (step % COPIED_STEPS == 0) {
        weight_await();
        __syncthreads();
        weight_fetch(copying, all, x, g, z, first);
      }
      const bool is_there = turn.image + image < B, given = weight_is_given(turn) && is_there;
      const int held = turn.held * STEP;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        word packed[WORDS] = {}, before[WORDS] = {};
        if (given) weight_read<N * SIZE>(packed, gs + held + v * G_PITCH);
        if (HAS_DERIVATIVE && given) weight_read<N * SIZE>(before, gs + held + G_ROW + v * G_PITCH);
#pragma unroll
        for (int n = 0; n < N; ++n) {
          kept[slot][v][n] = element_at(packed, n);
          if (HAS_DERIVATIVE) kept[slot][v][n] *= derivative_activation(element_at(before, n));
          if (HAS_BIAS) sum.bias[n] += kept[slot][v][n];
        }
      }
#pragma unroll
      for (int s = 0; s < STRIDE; ++s)
        if (weight_meets_row(s) && is_there && (word)(turn.row * STRIDE + s - TOP) < (word)H) {
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
                                        kept[(slot - behind + RING) % RING][v][n], sum.taps[t][u][n]);
          }
        }
      weight_advance(turn);
    }
  __syncthreads();
}
