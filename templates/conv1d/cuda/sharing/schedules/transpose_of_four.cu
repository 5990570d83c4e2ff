// Transposes 4 by 4 words: words k of four lanes become the four words of lane k.
__device__ __forceinline__ void transpose_of_four(word (&v)[4], int quarter) {
#pragma unroll
  for (int far = 1; far < 4; far *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if ((i & far) == 0) {
        const bool upper = quarter & far;
        const word got = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + far], far);
        v[i] = upper ? got : v[i];
        v[i + far] = upper ? v[i + far] : got;
      }
}
