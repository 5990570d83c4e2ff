// Fourier transforms of R values in registers. Value i is first multiplied by w^i. They decimate in time, because a
// twiddle factor then costs a butterfly no more than the fused multiply-adds that it consists of (Linzer and Feig,
// "Implementation of efficient FFT algorithms on fused multiply-add architectures", 1993). SIGN is the sign of the
// exponent.
constexpr double fft_cosine(int n, int d) {  // cosine of 2 pi n / d
  n = n % d < 0 ? n % d + d : n % d;
  if (2 * n > d) n = d - n;
  if (4 * n > d) return -fft_cosine(d - 2 * n, 2 * d);
  if (4 * n == d) return 0.0;
  const double x = 6.283185307179586476925 * n / d;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 14; ++k) term *= -x * x / ((2 * k - 1) * (2 * k)), sum += term;
  return sum;
}
constexpr double fft_sine(int n, int d) { return fft_cosine(4 * n - d, 4 * d); }

__device__ __forceinline__ float2 fft_times(float2 a, float2 b) {
  return make_float2(fmaf(-a.y, b.y, a.x * b.x), fmaf(a.y, b.x, a.x * b.y));
}

// Returns a times e^(2 pi i NUMBER / OF).
template <int NUMBER, int OF>
__device__ __forceinline__ float2 fft_turn(float2 a) {
  constexpr int n = (NUMBER % OF + OF) % OF;
  if constexpr (n == 0) return a;
  else if constexpr (4 * n == OF) return make_float2(-a.y, a.x);
  else if constexpr (2 * n == OF) return make_float2(-a.x, -a.y);
  else if constexpr (4 * n == 3 * OF) return make_float2(a.y, -a.x);
  else return fft_times(make_float2((float)fft_cosine(n, OF), (float)fft_sine(n, OF)), a);
}

// sum = e + w o, difference = e - w o
__device__ __forceinline__ void fft_butterfly(float2& sum, float2& difference, float2 e, float2 o, float2 w) {
  sum.x = fmaf(-w.y, o.y, fmaf(w.x, o.x, e.x));
  sum.y = fmaf(w.y, o.x, fmaf(w.x, o.y, e.y));
  difference.x = fmaf(2.0f, e.x, -sum.x);
  difference.y = fmaf(2.0f, e.y, -sum.y);
}

// w = e^(2 pi i NUMBER / OF), which the compiler knows.
template <int NUMBER, int OF>
struct fft_fixed {
  __device__ __forceinline__ fft_fixed<2 * NUMBER, OF> squared() const { return {}; }
  template <int K, int R>
  __device__ __forceinline__ void merge(float2& sum, float2& difference, float2 e, float2 o) const {
    constexpr int d = OF * R, n = ((NUMBER * R + K * OF) % d + d) % d;
    if constexpr (4 * n % d == 0) {
      const float2 turned = fft_turn<n, d>(o);
      sum = make_float2(e.x + turned.x, e.y + turned.y);
      difference = make_float2(e.x - turned.x, e.y - turned.y);
    } else {
      fft_butterfly(sum, difference, e, o, make_float2((float)fft_cosine(n, d), (float)fft_sine(n, d)));
    }
  }
  __device__ __forceinline__ void pair(float2 (&v)[2]) const { merge<0, 2>(v[0], v[1], v[0], v[1]); }
  template <int R>
  __device__ __forceinline__ void weigh(float2 (&v)[R]) const {
    v[1] = fft_turn<NUMBER, OF>(v[1]);
    v[2] = fft_turn<2 * NUMBER, OF>(v[2]);
    if constexpr (R == 5) v[3] = fft_turn<3 * NUMBER, OF>(v[3]);
    if constexpr (R == 5) v[4] = fft_turn<4 * NUMBER, OF>(v[4]);
  }
};
typedef fft_fixed<0, 1> fft_plain;

// w that differs from thread to thread. If SCALED, all values are also multiplied by `scale`.
template <bool SCALED>
struct fft_own {
  float2 w, scale;
  __device__ __forceinline__ fft_own squared() const { return {fft_times(w, w), scale}; }
  template <int K, int R>
  __device__ __forceinline__ void merge(float2& sum, float2& difference, float2 e, float2 o) const {
    if constexpr (R % 4 == 0 && (4 * K >= R || 4 * K <= -R)) {  // a quarter turn further
      constexpr int quarter = K > 0 ? 1 : -1;
      merge<K - quarter * R / 4, R>(sum, difference, e, fft_turn<quarter, 4>(o));
    } else {
      fft_butterfly(sum, difference, e, o, fft_turn<K, R>(w));
    }
  }
  __device__ __forceinline__ void pair(float2 (&v)[2]) const {
    fft_butterfly(v[0], v[1], SCALED ? fft_times(scale, v[0]) : v[0], v[1], SCALED ? fft_times(scale, w) : w);
  }
  template <int R>
  __device__ __forceinline__ void weigh(float2 (&v)[R]) const {
    float2 power = SCALED ? scale : w;
#pragma unroll
    for (int i = SCALED ? 0 : 1; i < R; ++i) {
      v[i] = fft_times(power, v[i]);
      power = fft_times(power, w);
    }
  }
};

template <int SIGN>
__device__ __forceinline__ void fft_three(float2 (&v)[3]) {
  constexpr float s = (float)(SIGN * fft_sine(1, 3));
  const float2 sum = make_float2(v[1].x + v[2].x, v[1].y + v[2].y);
  const float2 difference = make_float2(v[1].x - v[2].x, v[1].y - v[2].y);
  const float2 middle = make_float2(fmaf(-0.5f, sum.x, v[0].x), fmaf(-0.5f, sum.y, v[0].y));
  v[0] = make_float2(v[0].x + sum.x, v[0].y + sum.y);
  v[1] = make_float2(fmaf(-s, difference.y, middle.x), fmaf(s, difference.x, middle.y));
  v[2] = make_float2(fmaf(s, difference.y, middle.x), fmaf(-s, difference.x, middle.y));
}

template <int SIGN>
__device__ __forceinline__ void fft_five(float2 (&v)[5]) {
  constexpr float c1 = (float)fft_cosine(1, 5), c2 = (float)fft_cosine(2, 5);
  constexpr float s1 = (float)(SIGN * fft_sine(1, 5)), s2 = (float)(SIGN * fft_sine(2, 5));
  const float2 a = make_float2(v[1].x + v[4].x, v[1].y + v[4].y), b = make_float2(v[2].x + v[3].x, v[2].y + v[3].y);
  const float2 c = make_float2(v[1].x - v[4].x, v[1].y - v[4].y), d = make_float2(v[2].x - v[3].x, v[2].y - v[3].y);
  const float2 e = make_float2(fmaf(c2, b.x, fmaf(c1, a.x, v[0].x)), fmaf(c2, b.y, fmaf(c1, a.y, v[0].y)));
  const float2 f = make_float2(fmaf(c1, b.x, fmaf(c2, a.x, v[0].x)), fmaf(c1, b.y, fmaf(c2, a.y, v[0].y)));
  const float2 g = make_float2(fmaf(s2, d.x, s1 * c.x), fmaf(s2, d.y, s1 * c.y));
  const float2 h = make_float2(fmaf(-s1, d.x, s2 * c.x), fmaf(-s1, d.y, s2 * c.y));
  v[0] = make_float2(v[0].x + a.x + b.x, v[0].y + a.y + b.y);
  v[1] = make_float2(e.x - g.y, e.y + g.x);
  v[4] = make_float2(e.x + g.y, e.y - g.x);
  v[2] = make_float2(f.x - h.y, f.y + h.x);
  v[3] = make_float2(f.x + h.y, f.y - h.x);
}

template <int SIGN, int R, int K, typename W>
__device__ __forceinline__ void fft_merge(float2 (&v)[R], const float2 (&even)[R / 2], const float2 (&odd)[R / 2], W w) {
  if constexpr (K < R / 2) {
    w.template merge<SIGN * K, R>(v[K], v[K + R / 2], even[K], odd[K]);
    fft_merge<SIGN, R, K + 1>(v, even, odd, w);
  }
}

// Transforms v. R is a product of twos and at most one factor 3 or 5.
template <int SIGN, int R, typename W>
__device__ __forceinline__ void fft_dft(float2 (&v)[R], W w) {
  if constexpr (R == 2) {
    w.pair(v);
  } else if constexpr (R == 3 || R == 5) {
    w.weigh(v);
    if constexpr (R == 3) fft_three<SIGN>(v);
    else fft_five<SIGN>(v);
  } else {
    float2 even[R / 2], odd[R / 2];
#pragma unroll
    for (int i = 0; i < R / 2; ++i) even[i] = v[2 * i], odd[i] = v[2 * i + 1];
    fft_dft<SIGN>(even, w.squared());
    fft_dft<SIGN>(odd, w.squared());
    fft_merge<SIGN, R, 0>(v, even, odd, w);
  }
}
