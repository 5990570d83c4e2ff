// Overlap-save convolution. A block transforms a kernel, and then EACH of the segments of 2 POINTS samples to which the
// kernel is applied.
constexpr bool APART = @APART@;  // whether the taps have a buffer of their own
constexpr int DROPPED = @DROPPED@;  // sums before a segment's outputs; the taps wrap around into N - 1 of them
constexpr int KEPT = 2 * POINTS - DROPPED, SEGMENTS = (L + KEPT - 1) / KEPT;  // outputs of a segment, segments of a row
// Segments of a kernel, segments of a block, and blocks of a kernel.
constexpr int UNITS = SIGNALS * SEGMENTS, EACH = @EACH@, SHARES = (UNITS + EACH - 1) / EACH;
constexpr bool SHARED_SPECTRUM = APART && EACH > 1;  // whether the spectrum stays in shared memory
constexpr bool EARLY = @EARLY@;  // samples are loaded before the taps are transformed
static_assert(2 * BUFFER * (APART ? 2 : 1) == @WORDS@, "the template's estimate of shared memory");

// Stores the sum at POINT + t of a segment, if that is one of the segment's outputs. `y` and `residual` are those of t,
// and `left` outputs from t on are in the row.
template <int POINT>
__device__ __forceinline__ void fft_leave(float sum, int t, int left, float bias, const char* residual, char* y) {
  if constexpr (POINT + 255 >= DROPPED) {
    if ((POINT < DROPPED && POINT + t < DROPPED) || POINT >= left) return;
    epilogue_finish<1>(&sum, bias, residual + POINT * SIZE);
    element_store<1>(y + POINT * SIZE, &sum);
  }
}

template <int A>
__device__ __forceinline__ void fft_leave_all(const float2 (&z)[FIRST], int t, int left, float bias,
                                              const char* residual, char* y) {
  if constexpr (A < FIRST) {
    const float2 pair = fft_turn<-A, 4 * FIRST>(z[A]);
    fft_leave<256 * A>(pair.x, t, left, bias, residual, y);
    fft_leave<256 * A + POINTS>(pair.y, t, left, bias, residual, y);
    fft_leave_all<A + 1>(z, t, left, bias, residual, y);
  }
}

__device__ __forceinline__ void conv1d_fft(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                           void* __restrict__ y, word* shared) {
  float2* const buffer = (float2*)shared;
  float2* const taps_buffer = buffer + (APART ? BUFFER : 0);
  const int kernel = blockIdx.x / SHARES, share = blockIdx.x % SHARES, thread = threadIdx.x;
  const char* const residuals = (const char*)@RESIDUAL@;

  float2 z[COLUMNS][FIRST];
  auto load = [&](int unit) {
    const int row = fft_samples_of(fft_number(kernel, unit / SEGMENTS));
    const int begin = unit % SEGMENTS * KEPT - LEFT - (DROPPED - (N - 1));
    fft_columns(thread, [&](int i, int t) { fft_load_samples(z[i], x, w, row, begin, t); });
  };
  int unit = share * EACH;
  const int end = unit + EACH < UNITS ? unit + EACH : UNITS;

  // Load the taps first, so that the samples arrive while the taps are transformed. Columns of taps are dealt from the
  // last thread on: if the columns do not divide evenly, the last threads have fewer columns of samples.
  float2 g[COLUMNS][FIRST];
  fft_columns(THREADS - 1 - thread, [&](int i, int t) { fft_load_taps<N>(g[i], x, w, kernel, 0, t); });
  if (EARLY) load(unit);
  const fft_roots_there there = fft_there();
  const fft_roots_back back = fft_back();
  fft_columns(THREADS - 1 - thread, [&](int i, int t) { fft_column_there(g[i], taps_buffer, t); });
  __syncthreads();
  float2 spectrum[16];
  fft_row_there(spectrum, taps_buffer, there);
  if (SHARED_SPECTRUM) {
#pragma unroll
    for (int k2 = 0; k2 < 16; ++k2) fft_own_places(taps_buffer)[k2] = spectrum[k2];
  }
  if (!APART) __syncthreads();
  if (!EARLY) load(unit);
#pragma unroll 1
  while (true) {
    fft_columns(thread, [&](int i, int t) { fft_column_there(z[i], buffer, t); });
    __syncthreads();
    float2 v[16];
    fft_row_there(v, buffer, there);
#pragma unroll
    for (int k2 = 0; k2 < 16; ++k2)
      v[k2] = fft_times(v[k2], SHARED_SPECTRUM ? fft_own_places(taps_buffer)[k2] : spectrum[k2]);
    fft_row_back(v, buffer, back.over_k1);
    __syncthreads();
    const int number = fft_number(kernel, unit / SEGMENTS), first = unit % SEGMENTS * KEPT;
    const float offset = epilogue_bias(@BIAS@, number % FILTERS);
    fft_columns(thread, [&](int i, int t) {
      fft_column_back(z[i], buffer, t, back.over_ka[i]);
      const int place = first + t - DROPPED;
      const long long to = ((long long)number * L + place) * SIZE;
      fft_leave_all<0>(z[i], t, L - place, offset, residuals + (HAS_RESIDUAL ? to : 0), (char*)y + to);
    });
    if (EACH == 1 || ++unit == end) break;
    load(unit);
  }
}
