// Outputs of the implicit product: which of them a block, a warp and a lane sum, and how they are stored.
constexpr int WARPS_F = @WARPS_F@, WARPS_I = @WARPS_I@, MF = @MF@, NI = @NI@, RUN = @RUN@, TILES = @TILES@;
constexpr int PER_RUN = RUN / 2;  // tiles of eight positions in which a lane has RUN neighbours
static_assert(NI % PER_RUN == 0, "whole runs");

// If a filter's outputs may begin between two multiples of a run's bytes, a warp and the next one overlap by a run.
constexpr bool SHIFTED = !CHANNELS_LAST && !IS_FLOAT && L % RUN != 0;
constexpr int OVERLAP = SHIFTED ? RUN : 0, STEP_I = 8 * NI - OVERLAP;
constexpr int THREADS = 32 * WARPS_F * WARPS_I, FILTERS = 16 * MF * WARPS_F, TILE = STEP_I * WARPS_I;
constexpr int SPAN = TILE * TILES, PATCHES = (L + SPAN - 1) / SPAN, FILTER_BLOCKS = (F + FILTERS - 1) / FILTERS;

// Where column n of tile j is among a warp's positions.
__device__ __forceinline__ constexpr int implicit_position(int j, int n) {
  return j / PER_RUN * 8 * PER_RUN + n / 2 * RUN + j % PER_RUN * 2 + n % 2;
}

typedef float Sums[MF][NI][4];

struct Outputs {
  char* y;
  const char *bias, *residual;  // or null
  int b, filter, first;         // of a warp: the signal, and the first filter and position
};

__device__ __forceinline__ float implicit_bias(const Outputs& to, int f) {
  return HAS_BIAS && f < F ? element_load(to.bias, f) : 0.0f;
}

// The first elements of a run, which may lie anywhere.
__device__ __forceinline__ void implicit_put_some(char* to, const word* run, int count) {
#pragma unroll
  for (int e = 0; e < RUN; ++e) {
    const word v[1] = {run[e / 2] >> (e % 2 * 16)};
    if (e < count) element_put<2>(to + 2 * e, v);
  }
}

__device__ __forceinline__ void implicit_store(const Sums& sum, const Outputs& to) {
  const int lane = threadIdx.x % 32;
  const bool wide = !CHANNELS_LAST && L % RUN == 0 && ((size_t)to.y | (size_t)to.residual) % (RUN * SIZE) == 0;
#pragma unroll
  for (int m = 0; m < MF; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int f = to.filter + 16 * m + 8 * r + lane / 4;
      const float bias_value = implicit_bias(to, f);
#pragma unroll
      for (int j = 0; j < NI; j += PER_RUN) {
        const int i = to.first + implicit_position(j, 2 * (lane % 4));
        if (f >= F || i >= L) continue;
        const long long place = implicit_place(to.b, f, i, F, L);
        const int step = CHANNELS_LAST ? F : 1;
        float v[RUN];
        word more[element_words(RUN)];
        if (HAS_RESIDUAL && wide) element_fetch<RUN * SIZE>(more, to.residual + place * SIZE, true);
#pragma unroll
        for (int e = 0; e < RUN; ++e) {
          v[e] = sum[m][j + e / 2][2 * r + e % 2] + bias_value;
          if (HAS_RESIDUAL && wide) v[e] += element_at(more, e);
          else if (HAS_RESIDUAL && i + e < L) v[e] += element_load(to.residual, place + (long long)e * step);
          v[e] = epilogue_activation(v[e]);
        }
        if (wide) element_store<RUN>(to.y + place * SIZE, v);
        else
#pragma unroll
          for (int e = 0; e < RUN; ++e)
            if (i + e < L) element_store<1>(to.y + (place + (long long)e * step) * SIZE, v + e);
      }
    }
}

// The runs that begin at a multiple of their bytes, put together from those of two lanes. The last lane lacks the next
// run: the next warp has it.
__device__ __forceinline__ void implicit_store_shifted(const Sums& sum, const Outputs& to) {
  constexpr int RUNS = NI / PER_RUN, WORDS = RUN / 2;
  const int lane = threadIdx.x % 32, quarter = lane % 4;
#pragma unroll
  for (int m = 0; m < MF; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int f = to.filter + 16 * m + 8 * r + lane / 4;
      const float bias_value = implicit_bias(to, f);
      const long long place = implicit_place(to.b, f, 0, F, L);
      word runs[RUNS + 1][WORDS];
#pragma unroll
      for (int g = 0; g < RUNS; ++g)
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
          float v[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int i = to.first + (4 * g + quarter) * RUN + 2 * k + e;
            v[e] = sum[m][g * PER_RUN + k][2 * r + e] + bias_value;
            if (HAS_RESIDUAL && f < F && i < L) v[e] += element_load(to.residual, place + i);
            v[e] = epilogue_activation(v[e]);
          }
          runs[g][k] = element_pack(v[0], v[1]);
        }
#pragma unroll
      for (int k = 0; k < WORDS; ++k) runs[RUNS][k] = 0;

      char* const outputs = to.y + place * SIZE;
      const int shift = (int)(-((size_t)outputs / SIZE + to.first) % RUN);  // to the first one aligned
      if (f < F && to.first == 0 && quarter == 0) implicit_put_some(outputs, runs[0], min(shift, L));
#pragma unroll
      for (int g = 0; g < RUNS; ++g) {
        word run[2 * WORDS];
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
          run[k] = runs[g][k];
          const word next = quarter == 0 ? runs[g + 1][k] : runs[g][k];
          run[WORDS + k] = __shfl_sync(0xffffffffu, next, lane / 4 * 4 + (quarter + 1) % 4);
        }
#pragma unroll
        for (int by = RUN / 2; by > 1; by /= 2)
#pragma unroll
          for (int k = 0; k < WORDS + by / 2; ++k) run[k] = shift & by ? run[k + by / 2] : run[k];
#pragma unroll
        for (int k = 0; k < WORDS; ++k) run[k] = __funnelshift_r(run[k], run[k + 1], shift % 2 * 16);
        const int at = 4 * g + quarter, i = to.first + at * RUN + shift;
        if (f >= F || i >= L || at == 4 * RUNS - 1) continue;
        if (i + RUN <= L) element_put<RUN * SIZE>(outputs + i * SIZE, run);
        else implicit_put_some(outputs + i * SIZE, run, L - i);
      }
    }
}
