// Fourier transforms of few real values, as of taps: most of their sums are left out.

// Adds the sum over I <= i < THERE of v[i].x e^(2 pi i NUMBER / OF) to `sum`, which is real before I = 1.
template <int I, int THERE, int NUMBER, int OF, int R>
__device__ __forceinline__ float2 fft_sum_of_reals(const float2 (&v)[R], float2 sum) {
  if constexpr (I == THERE) {
    return sum;
  } else {
    constexpr float c = (float)fft_cosine(I * NUMBER, OF), s = (float)fft_sine(I * NUMBER, OF);
    sum.x = fmaf(c, v[I].x, sum.x);
    sum.y = I == 1 ? s * v[I].x : fmaf(s, v[I].x, sum.y);
    return fft_sum_of_reals<I + 1, THERE, NUMBER, OF>(v, sum);
  }
}

template <int SIGN, int THERE, int NUMBER, int OF, int K, int R>
__device__ __forceinline__ void fft_sums_of_reals(float2 (&to)[R], const float2 (&v)[R]) {
  if constexpr (K < R) {
    to[K] = fft_sum_of_reals<1, THERE, NUMBER * R + SIGN * K * OF, OF * R>(v, v[0]);
    fft_sums_of_reals<SIGN, THERE, NUMBER, OF, K + 1>(to, v);
  }
}

// Transforms v with w = e^(2 pi i NUMBER / OF), of which the first THERE values are real and the others are zero.
template <int SIGN, int THERE, int NUMBER, int OF, int R>
__device__ __forceinline__ void fft_dft_of_reals(float2 (&v)[R]) {
  if constexpr (THERE <= 1) {
#pragma unroll
    for (int i = 1; i < R; ++i) v[i] = v[0];
  } else if constexpr (R % 2 == 1 || R == 2) {
    float2 to[R];
    fft_sums_of_reals<SIGN, THERE, NUMBER, OF, 0>(to, v);
#pragma unroll
    for (int i = 0; i < R; ++i) v[i] = to[i];
  } else {
    float2 even[R / 2], odd[R / 2];
#pragma unroll
    for (int i = 0; i < R / 2; ++i) even[i] = v[2 * i], odd[i] = v[2 * i + 1];
    fft_dft_of_reals<SIGN, (THERE + 1) / 2, 2 * NUMBER, OF>(even);
    fft_dft_of_reals<SIGN, THERE / 2, 2 * NUMBER, OF>(odd);
    fft_merge<SIGN, R, 0>(v, even, odd, fft_fixed<NUMBER, OF>());
  }
}
