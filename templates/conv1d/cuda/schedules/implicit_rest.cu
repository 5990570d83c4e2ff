// Filters beyond those of the blocks that warpgroups fill. They are too few for the 64 rows of a matrix, so lanes sum
// them in float32, each lane over a share of the taps. The warps of all blocks of a patch share its tiles of eight
// positions.
constexpr int FILLED = FILTER_BLOCKS * WARPS_F * OWN, REST = F > FILLED ? F - FILLED : 0;
static_assert(REST <= 4, "a lane finishes one filter of a position");

// Adds up the sums of eight positions over all lanes, and returns that of position lane / 4.
__device__ __forceinline__ float rest_sum(float (&sum)[8]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 4; k > 0; k /= 2) {
    const bool behind = lane / k / 4 % 2;
#pragma unroll
    for (int i = 0; i < k; ++i) {
      const float other = __shfl_xor_sync(0xffffffffu, behind ? sum[i] : sum[i + k], 4 * k);
      sum[i] = (behind ? sum[i + k] : sum[i]) + other;
    }
  }
#pragma unroll
  for (int k = 2; k > 0; k /= 2) sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], k);
  return sum[0];
}

// Computes the remaining filters of a patch, from its first position on.
__device__ __forceinline__ void rest_add(const void* x, const void* w, const Outputs& to, int first_warp) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int tile = REST > 0 ? first_warp + threadIdx.x / 32 : NI; tile < NI; tile += FILTER_BLOCKS * WARPS_F) {
    const int first = to.first + 8 * tile;
    float sum[REST + 1][8] = {};
#pragma unroll 2
    for (int t = lane; t < N; t += 32) {
      word v[8][1];
#pragma unroll
      for (int p = 0; p < 8; ++p) {
        const int at = (first + p) * STRIDE - LEFT + t * DILATION;
        element_fetch<SIZE>(v[p], (const char*)x + implicit_place(to.b, 0, at, C, M) * SIZE, (word)at < (word)M);
      }
#pragma unroll
      for (int f = 0; f < REST; ++f) {
        const float weight = element_load((const char*)w, (to.filter + f) * (long long)N + (FLIP ? N - 1 - t : t));
#pragma unroll
        for (int p = 0; p < 8; ++p) sum[f][p] = fmaf(element_at(v[p], 0), weight, sum[f][p]);
      }
    }
    float own = 0.0f;
#pragma unroll
    for (int f = 0; f < REST; ++f) {
      const float all = rest_sum(sum[f]);
      if (lane % 4 == f) own = all;
    }
    const int f = to.filter + lane % 4, i = first + lane / 4;
    if (f >= F || i >= L) continue;
    const long long place = implicit_place(to.b, f, i, F, L) * SIZE;
    epilogue_finish<1>(&own, epilogue_bias(to.bias, f), to.residual + place);
    element_store<1>(to.y + place, &own);
  }
}
