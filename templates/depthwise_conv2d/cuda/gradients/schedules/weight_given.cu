// Stores the sums of row t of taps of this thread's place, or of the bias if t is TR, for the block to add up. They lie
// from word `at` on; places are `pitch` words apart.
__device__ __forceinline__ void weight_give(const weight_sums& sum, int t, float* all, int at, int pitch) {
  const int lane = threadIdx.x % ACROSS, point = threadIdx.x / ACROSS, width = t < TR ? TC : 1;
  if (point >= POINTS) return;
#pragma unroll
  for (int u = 0; u < width; ++u)
#pragma unroll
    for (int n = 0; n < N; ++n)
      all[at + point * pitch + u * CHANNELS + lane * N + n] = t < TR ? sum.taps[t % TR][u][n] : sum.bias[n];
}
