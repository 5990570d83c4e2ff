// Outputs of products of filters by positions: which of them a warp and a lane compute, and how they are stored.
constexpr int WARPS_F = @FILTER_WARPS@, WARPS_I = @POSITION_WARPS@, NI = @POSITION_TILES@, RUN = @NEIGHBOURS@;
constexpr int OWN = 16 * @FILTER_TILES@;  // filters of a warp
constexpr int PER_RUN = RUN / 2;     // tiles of eight positions in which a lane has RUN neighbours
constexpr int THREADS = 32 * WARPS_F * WARPS_I, TILE = 8 * NI * WARPS_I;
static_assert(NI % PER_RUN == 0, "whole runs");

// A run of RUN neighbouring outputs is stored at once if its address is a multiple of its size. If the length of an
// output row is no multiple of RUN, such addresses are at different positions in different filters. A warp therefore
// takes filters that are SPACING apart, whose rows are aligned alike, and begins up to SLACK positions earlier, by its
// lead.
constexpr bool SHIFTED = @SHIFTED@;
constexpr int SPACING = SHIFTED ? RUN / implicit_divisor(L, RUN) : 1, SLACK = SHIFTED ? RUN - 1 : 0;
constexpr int FILTER_BLOCKS = @FILTER_BLOCKS@;

// Returns filter i of a warp, where warps are numbered over all filters.
__device__ __forceinline__ int implicit_filter(int warp, int i) {
  return warp % SPACING + SPACING * (warp / SPACING * OWN + i);
}

// Returns by how many positions a warp leads, so that its runs are aligned.
__device__ __forceinline__ int implicit_lead(const void* y, int b, int filter, int first) {
  return SHIFTED ? (int)(((size_t)y / SIZE + implicit_place(b, filter, first, F, L)) % RUN) : 0;
}

// Returns the place of column n of tile j among a warp's positions.
__device__ __forceinline__ constexpr int implicit_position(int j, int n) {
  return j / PER_RUN * 8 * PER_RUN + n / 2 * RUN + j % PER_RUN * 2 + n % 2;
}

struct Outputs {
  char* y;
  const char *bias, *residual;  // or null
  int b, filter, first;         // the signal, the first filter, and the first position less the lead
};

// Adds bias and residual to a run of filter f from position i on, and applies the activation. `alike` says that the
// residual is aligned like the output, so that its whole runs are read at once.
__device__ __forceinline__ void implicit_complete(float (&v)[RUN], const Outputs& to, int f, int i, float bias_value,
                                                bool alike) {
  const bool whole = alike && i >= 0 && i + RUN <= L;
  const long long place = implicit_place(to.b, f, i, F, L), step = CHANNELS_LAST ? F : 1;
  word more[element_words(RUN)];
  if (HAS_RESIDUAL && whole) element_fetch<RUN * SIZE>(more, to.residual + place * SIZE, f < F);
#pragma unroll
  for (int e = 0; e < RUN; ++e) {
    if (HAS_BIAS) v[e] += bias_value;
    if (HAS_RESIDUAL && whole) v[e] += element_at(more, e);
    else if (HAS_RESIDUAL && f < F && (word)(i + e) < (word)L) v[e] += element_load(to.residual, place + e * step);
    v[e] = epilogue_activation(v[e]);
  }
}

// Stores a run of filter f from position i on, except elements beyond the row.
__device__ __forceinline__ void implicit_put_run(const Outputs& to, int f, int i, const word (&run)[element_words(RUN)]) {
  char* const at = to.y + implicit_place(to.b, f, i, F, L) * SIZE;
  if (f >= F || i >= L) return;
  if (i >= 0 && i + RUN <= L) {
    element_put<RUN * SIZE>(at, run);
    return;
  }
#pragma unroll
  for (int e = 0; e < RUN; ++e) {
    const word v[1] = {IS_FLOAT ? run[e] : run[e / 2] >> (e % 2 * 16)};
    if ((word)(i + e) < (word)L) element_put<SIZE>(at + e * SIZE, v);
  }
}

// Stores the outputs of 16 filters. Four lanes have neighbouring runs of a filter. They exchange every second run with
// the four lanes of the next filter, so that eight lanes store neighbouring runs, which takes half as many requests to
// memory.
__device__ __forceinline__ void implicit_store(const float (&sum)[NI][4], const Outputs& to) {
  const int lane = threadIdx.x % 32, odd = lane / 4 % 2;
  const bool wide = SHIFTED || (!CHANNELS_LAST && L % RUN == 0 && (size_t)to.y % (RUN * SIZE) == 0);
  const bool alike = wide && (to.y - to.residual) % (RUN * SIZE) == 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int f = to.filter + SPACING * (8 * r + lane / 4), even_f = f - SPACING * odd, odd_f = even_f + SPACING;
    const float bias_value = HAS_BIAS && f < F ? element_load(to.bias, f) : 0.0f;
#pragma unroll
    for (int j = 0; j < NI; j += 2 * PER_RUN) {
      constexpr int WORDS = element_words(RUN);
      word runs[2][WORDS];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int tile = j + k * PER_RUN, i = to.first + implicit_position(tile, 2 * (lane % 4));
        if (tile >= NI) continue;
        float v[RUN];
#pragma unroll
        for (int e = 0; e < RUN; ++e) v[e] = sum[tile + e / 2][2 * r + e % 2];
        implicit_complete(v, to, f, i, bias_value, alike);
        element_pack_all<RUN>(runs[k], v);
        if (wide && NI % (2 * PER_RUN) > 0 && tile + PER_RUN >= NI) implicit_put_run(to, f, i, runs[k]);
        if (wide || f >= F) continue;
#pragma unroll
        for (int e = 0; e < RUN; ++e)
          if (i + e < L) element_store<1>(to.y + implicit_place(to.b, f, i + e, F, L) * SIZE, v + e);
      }
      if (!wide || j + PER_RUN >= NI) continue;
      const int i = to.first + implicit_position(j + PER_RUN * odd, 2 * (lane % 4));
      word other[WORDS], even_run[WORDS], odd_run[WORDS];
#pragma unroll
      for (int k = 0; k < WORDS; ++k) {
        other[k] = __shfl_xor_sync(0xffffffffu, odd ? runs[0][k] : runs[1][k], 4);
        even_run[k] = odd ? other[k] : runs[0][k];
        odd_run[k] = odd ? runs[1][k] : other[k];
      }
      implicit_put_run(to, even_f, i, even_run);
      implicit_put_run(to, odd_f, i, odd_run);
    }
  }
}
