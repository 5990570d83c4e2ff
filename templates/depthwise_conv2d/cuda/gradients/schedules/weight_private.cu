// Sums from rows in shared memory that is private to each thread. A thread copies what it needs itself, STAGES - 1 rows
// ahead, and waits for no other thread. It has N channels of V columns.
constexpr int BYTES = N * SIZE, FETCHED = STRIDE * COLUMNS + COPIED * V;  // vectors of a step
constexpr int NEXT = THREADS * BYTES, STEP = FETCHED * NEXT;  // bytes to a thread's next vector, and to the next step
static_assert(BYTES >= 4 && STAGES * STEP / 4 <= SHARED_WORDS, "what can be copied, and the template's estimate");

constexpr int PIECES = POINTS, SUM_WORDS = SHARED_WORDS;
struct weight_sums {
  float taps[TR][TC][N], bias[N];
};

// The next row to copy, how many are left, and where that row lies in the tensors and in shared memory.
struct weight_copying {
  int image, row, to, left, held;
  const char *x, *g, *z;
};

__device__ __forceinline__ void weight_sum(weight_sums& sum, const char* x, const char* g, const char* z, int first_channel,
                                           int part, int down, int aside, char* shared) {
  const weight_place place = weight_at(part, threadIdx.x / ACROSS, down, aside);
  const int channel = first_channel + threadIdx.x % ACROSS * N;
  const int start = weight_begin(place.range), end = weight_begin(place.range + 1);
  const int steps = place.any ? weight_steps(start, end) : 0;
  const shared_place mine = weight_place_of(shared) + threadIdx.x * BYTES;
  const bool whole = place.left >= 0 && place.left + COLUMNS <= W && (WO % V == 0 || place.column + V <= WO);

  weight_copying next;
  auto enter = [&](int at) {
    const weight_piece piece = weight_piece_at(at, end);
    next.image = piece.image, next.row = piece.from, next.to = piece.to;
    next.x = x + weight_input(next.image, channel, next.row * STRIDE - place.above, place.left) * SIZE;
    const long long there = weight_output(next.image, channel, next.row, place.column) * SIZE;
    next.g = g + there, next.z = z + there;
  };
  auto copy = [&](shared_place to, bool all) {
#pragma unroll
    for (int s = 0; s < STRIDE; ++s)
      if (weight_meets_row(s)) {
        const bool inside = (word)(next.row * STRIDE + s - place.above) < (word)H;
#pragma unroll
        for (int e = 0; e < COLUMNS; ++e)
          if (weight_meets(e))
            weight_copy_if<BYTES>(to + (s * COLUMNS + e) * NEXT, next.x + (s * W + e) * (C * SIZE),
                                  inside && (all || (word)(place.left + e) < (word)W));
      }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const shared_place there = to + (STRIDE * COLUMNS + v) * NEXT;
      const bool inside = next.row < next.to && (all || place.column + v < WO);
      weight_copy_if<BYTES>(there, next.g + v * (C * SIZE), inside);
      if (HAS_DERIVATIVE) weight_copy_if<BYTES>(there + V * NEXT, next.z + v * (C * SIZE), inside);
    }
  };
  auto fetch = [&] {
    if (next.left > 0) {
      if (whole) copy(mine + next.held, true);
      else copy(mine + next.held, false);
      next.x += STRIDE * W * C * SIZE, next.g += WO * C * SIZE, next.z += WO * C * SIZE;
      if (++next.row == next.to + RING - 1) enter(next.image * HO + next.to);
      next.held = next.held == (STAGES - 1) * STEP ? 0 : next.held + STEP;
      --next.left;
    }
    weight_commit();
  };

  next.left = steps, next.held = 0;
  enter(start);
#pragma unroll 1
  for (int stage = 0; stage < STAGES - 1; ++stage) fetch();
  float kept[RING][V][N] = {};
  int held = 0;
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += RING)
#pragma unroll
    for (int slot = 0; slot < RING; ++slot) {
      if (begin + slot >= steps) break;
      weight_await();
      fetch();
      const shared_place from = mine + held;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const shared_place there = from + (STRIDE * COLUMNS + v) * NEXT;
        word packed[WORDS], before[WORDS];
        weight_read<BYTES>(packed, there);
        if (HAS_DERIVATIVE) weight_read<BYTES>(before, there + V * NEXT);
#pragma unroll
        for (int n = 0; n < N; ++n) {
          kept[slot][v][n] = element_at(packed, n);
          if (HAS_DERIVATIVE) kept[slot][v][n] *= derivative_activation(element_at(before, n));
          if (HAS_BIAS) sum.bias[n] += kept[slot][v][n];
        }
      }
#pragma unroll
      for (int s = 0; s < STRIDE; ++s)
        if (weight_meets_row(s)) {
          word in[COLUMNS][WORDS];
#pragma unroll
          for (int e = 0; e < COLUMNS; ++e)
            if (weight_meets(e)) weight_read<BYTES>(in[e], from + (s * COLUMNS + e) * NEXT);
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
      held = held == (STAGES - 1) * STEP ? 0 : held + STEP;
    }
  __syncthreads();
}
