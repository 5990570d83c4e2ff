// With reads "lanes", a thread reads only the vectors at its own outputs, those of all steps at once. It takes the
// elements beside them from neighbouring lanes, so that a warp reads each element once. Only the neighbours of the
// first and the last lane are read from memory.

// Words before and behind a lane's own vector that its outputs reach, rounded up to what one load can have.
constexpr int window_beside(int elements) { return element_words(elements) > 2 ? 4 : element_words(elements); }
constexpr int BEFORE = window_beside(LEFT), BEHIND = window_beside((N - 1) * DILATION - LEFT);
static_assert(R == V && STRIDE == 1 && LEFT >= 0 && LEFT <= V && (N - 1) * DILATION - LEFT <= V, "neighbours have it");
static_assert(V * SIZE >= 4 && BEFORE <= WORDS && BEHIND <= WORDS, "one load has it");

__device__ __forceinline__ void window_sums(const char* row, const char* weights, const char* bias,
                                            const char* residual, char* y, int first) {
  const int lane = threadIdx.x % 32, begin = first - lane * R, end = begin + STEPS * NEXT;
  word v[STEPS][WORDS], before[BEFORE + 1], behind[BEHIND + 1], w[N / VW][element_words(VW)];
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
    element_fetch<V * SIZE>(v[step], row + (long long)(first + step * NEXT) * SIZE, first + step * NEXT < M);
  if constexpr (BEFORE > 0)
    element_fetch<4 * BEFORE>(before, row + (long long)begin * SIZE - 4 * BEFORE, lane == 31 && begin > 0 && begin <= M);
  if constexpr (BEHIND > 0) element_fetch<4 * BEHIND>(behind, row + (long long)end * SIZE, lane == 0 && end < M);
#pragma unroll
  for (int t = 0; t < N / VW; ++t) element_fetch<VW * SIZE>(w[t], weights + t * VW * SIZE, true);
  const float offset = epilogue_bias(bias, 0);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    word all[BEFORE + WORDS + BEHIND];
#pragma unroll
    for (int b = 0; b < BEFORE; ++b) {
      const word last = step > 0 ? v[step > 0 ? step - 1 : 0][WORDS - BEFORE + b] : before[b];
      all[b] = __shfl_sync(0xffffffffu, lane == 31 ? last : v[step][WORDS - BEFORE + b], lane + 31);
    }
#pragma unroll
    for (int b = 0; b < WORDS; ++b) all[BEFORE + b] = v[step][b];
#pragma unroll
    for (int b = 0; b < BEHIND; ++b) {
      const word next = step + 1 < STEPS ? v[step + 1 < STEPS ? step + 1 : step][b] : behind[b];
      all[BEFORE + WORDS + b] = __shfl_sync(0xffffffffu, lane == 0 ? next : v[step][b], lane + 1);
    }
    float sum[R];
    window_begin(sum, offset);
#pragma unroll
    for (int k = 0; k < N; ++k)
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int e = BEFORE * (4 / SIZE) - LEFT + r + k * DILATION;
        sum[r] = fmaf(element_at(all, e), window_weight(w, k), sum[r]);
      }
    window_leave(sum, residual, y, first + step * NEXT);
  }
}
