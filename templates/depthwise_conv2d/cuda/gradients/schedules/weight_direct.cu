// Sums from rows that are read from global memory to registers. With AHEAD they are read a step before their use.
constexpr bool AHEAD = @AHEAD@;

constexpr int PIECES = POINTS, SUM_WORDS = SHARED_WORDS;
struct weight_sums {
  float taps[TR][TC][N], bias[N];
};

// The data of a step: input rows, a row of the gradient, and the sums at the same places if there is an activation.
struct weight_step {
  word x[STRIDE][COLUMNS][WORDS], g[V][WORDS], z[HAS_DERIVATIVE ? V : 1][WORDS];
};

__device__ __forceinline__ void weight_sum(weight_sums& sum, const char* x, const char* g, const char* z, int first_channel,
                                           int part, int down, int aside, char* shared) {
  const int channel = first_channel + threadIdx.x % ACROSS * N;
  const weight_place place = weight_at(part, threadIdx.x / ACROSS, down, aside);
  if (!place.any) return;
  const bool all = HAS_BIAS && down == 0 && aside == 0;
  if (ASIDE > 1 && !all && (place.left + COLUMNS <= 0 || place.left >= W)) return;
  const int end = weight_begin(place.range + 1);
  weight_piece piece;
#pragma unroll 1
  for (int at = weight_begin(place.range); at < end; at += piece.to - piece.from) {
    piece = weight_piece_at(at, end);
    int from = piece.from, to = piece.to;
    if (DOWN > 1 && !all) {  // only rows whose taps meet the input
      from = max(from, (place.above - (TR - 1) * DILATION + STRIDE - 1) / STRIDE);
      to = min(to, H - 1 + place.above < 0 ? 0 : (H - 1 + place.above) / STRIDE + 1);
      if (from >= to) continue;
    }
    const bool whole = place.left >= 0 && place.left + COLUMNS <= W && (WO % V == 0 || place.column + V <= WO);
    const char* const xs = x + weight_input(piece.image, channel, 0, place.left) * SIZE;
    const long long first = weight_output(piece.image, channel, 0, place.column);

    auto fetch = [&](int row, weight_step& step) {
#pragma unroll
      for (int s = 0; s < STRIDE; ++s) {
        const int xr = row * STRIDE + s - place.above;
        const char* const line = xs + (long long)xr * (W * X_COLUMN * SIZE);
        if (weight_meets_row(s) && (word)xr < (word)H) {
          if (whole) {
#pragma unroll
            for (int e = 0; e < COLUMNS; ++e)
              if (weight_meets(e)) element_fetch<N * SIZE>(step.x[s][e], line + e * (X_COLUMN * SIZE), true);
          } else {
#pragma unroll
            for (int e = 0; e < COLUMNS; ++e)
              if (weight_meets(e))
                element_fetch<N * SIZE>(step.x[s][e], line + e * (X_COLUMN * SIZE), (word)(place.left + e) < (word)W);
          }
        }
      }
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const bool inside = row < to && (WO % V == 0 || place.column + v < WO);
        const long long at = (first + (long long)(row * WO + v) * COLUMN) * SIZE;
        element_fetch<N * SIZE>(step.g[v], g + at, inside);
        if (HAS_DERIVATIVE) element_fetch<N * SIZE>(step.z[v], z + at, inside);
      }
    };

    float kept[RING][V][N] = {};
    const int steps = to - from + RING - 1;
    weight_step next;
    if (AHEAD) fetch(from, next);
#pragma unroll 1
    for (int begin = 0; begin < steps; begin += RING)
#pragma unroll
      for (int turn = 0; turn < RING; ++turn) {
        const int row = from + begin + turn;
        if (row - from >= steps) break;
        weight_step now;
        if (AHEAD) {
          now = next;
          fetch(row + 1, next);
        } else {
          fetch(row, now);
        }
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
          for (int n = 0; n < N; ++n) {
            kept[turn][v][n] = element_at(now.g[v], n);
            if (HAS_DERIVATIVE) kept[turn][v][n] *= derivative_activation(element_at(now.z[v], n));
            if (HAS_BIAS) sum.bias[n] += kept[turn][v][n];
          }
#pragma unroll
        for (int s = 0; s < STRIDE; ++s)
          if (weight_meets_row(s) && (word)(row * STRIDE + s - place.above) < (word)H)
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
                      sum.taps[t][u][n] = fmaf(element_at(now.x[s][v * STRIDE + u * DILATION], n),
                                          kept[(turn - behind + RING) % RING][v][n], sum.taps[t][u][n]);
            }
      }
  }
}
