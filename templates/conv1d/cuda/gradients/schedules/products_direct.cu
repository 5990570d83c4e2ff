// Multiplies by multiply-adds: a thread has OWN_ROWS by OWN_COLUMNS sums, whose columns are ACROSS apart.
__device__ __forceinline__ void products_multiply(float (&sum)[QUADS][4], word* shared) {
  const float* const left = (const float*)shared + threadIdx.x / ACROSS * OWN_ROWS;
  const float* const right = (const float*)shared + RIGHT_PLACE + threadIdx.x % ACROSS;
#pragma unroll 4
  for (int d = 0; d < DEPTH; ++d) {
    float a[OWN_ROWS], b[OWN_COLUMNS];
#pragma unroll
    for (int m = 0; m < OWN_ROWS; ++m) a[m] = left[d * (ROWS + 1) + m];
#pragma unroll
    for (int n = 0; n < OWN_COLUMNS; ++n) b[n] = right[d * (COLUMNS + 1) + n * ACROSS];
#pragma unroll
    for (int m = 0; m < OWN_ROWS; ++m)
#pragma unroll
      for (int n = 0; n < OWN_COLUMNS; ++n) {
        float& one = sum[(m * OWN_COLUMNS + n) / 4][(m * OWN_COLUMNS + n) % 4];
        one = fmaf(a[m], b[n], one);
      }
  }
}
