// Multiplies on tensor cores: a warp has OWN_ROWS by OWN_COLUMNS sums.
__device__ __forceinline__ void products_multiply(float (&sum)[QUADS][4], word* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const word left = (word)__cvta_generic_to_shared(shared), right = left + 4 * RIGHT_PLACE;
#pragma unroll
  for (int step = 0; step < DEPTH / 16; ++step) {
    word a[OWN_ROWS / 16][4], b[OWN_COLUMNS / 16][4];
#pragma unroll
    for (int m = 0; m < OWN_ROWS / 16; ++m) {
      const int row = warp / ACROSS * OWN_ROWS + 16 * m + lane % 16;
      halves_rows(a[m], left + (step * ROWS + row) * 32 + (lane / 16 ^ row / 4 % 2) * 16);
    }
#pragma unroll
    for (int n = 0; n < OWN_COLUMNS / 16; ++n) {
      const int column = warp % ACROSS * OWN_COLUMNS + 16 * n + lane / 16 * 8 + lane % 8;
      halves_rows(b[n], right + (step * COLUMNS + column) * 32 + (lane / 8 % 2 ^ column / 4 % 2) * 16);
    }
#pragma unroll
    for (int m = 0; m < OWN_ROWS / 16; ++m)
#pragma unroll
      for (int n = 0; n < OWN_COLUMNS / 8; ++n)
        halves_multiply(sum[m * (OWN_COLUMNS / 8) + n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
  }
}
