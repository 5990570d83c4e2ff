// Overlap-save convolution with the kernel in PARTS parts of POINTS taps. Output segment s has POINTS outputs. Its
// spectrum is the sum over the parts p of the spectrum of input segment s - p times the spectrum of part p (uniformly
// partitioned convolution; Stockham, "High-speed convolution and correlation", 1966). In the workspace, the values of a
// spectrum are in the order in which the threads have them.
constexpr bool FUSED = @FUSED@;  // the launch that transforms back sums the products
constexpr bool NEXT = @NEXT@;    // while transforms run, the next launch begins as soon as units have room for its blocks
constexpr int PARTS = (N + POINTS - 1) / POINTS, SEGMENTS = (L + POINTS - 1) / POINTS;  // of a kernel, of an output row
// Input segments [LOW, LOW + INPUTS) meet the signal and an output; segment q begins at sample (q - 1) POINTS + SHIFT.
constexpr int SHIFT = N - 1 - LEFT, LOW = @LOW@, INPUTS = @INPUTS@, ROWS = @ROWS@;  // ROWS: rows of samples
constexpr int TOGETHER = @TOGETHER@, GROUPS = (SEGMENTS + TOGETHER - 1) / TOGETHER;  // output segments of a thread
constexpr long long TAPS_AT = (long long)ROWS * INPUTS * POINTS, SUMS_AT = TAPS_AT + (long long)KERNELS * PARTS * POINTS;
static_assert(THREADS == ROW_THREADS, "each thread has values of a spectrum");
static_assert(2 * BUFFER == @WORDS@, "the template's estimate of shared memory");
static_assert(2 * (SUMS_AT + (FUSED ? 0 : (long long)SIGNALS * KERNELS * SEGMENTS * POINTS)) == @WORKSPACE@, "its size");

// Returns the place of this thread's value k2 of a spectrum in the workspace.
__device__ __forceinline__ float2* partitions_place(void* workspace, long long spectrum, int k2) {
  return (float2*)workspace + spectrum * POINTS + k2 * THREADS + threadIdx.x;
}

// sum += a b
__device__ __forceinline__ void partitions_add(float2& sum, float2 a, float2 b) {
  sum.x = fmaf(-a.y, b.y, fmaf(a.x, b.x, sum.x));
  sum.y = fmaf(a.y, b.x, fmaf(a.x, b.y, sum.y));
}

// Computes the spectra. There is a block for each input segment of each row, then one for each part of each kernel.
__device__ __forceinline__ void conv1d_spectra(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                               void* __restrict__ y, void* __restrict__ workspace, word* shared) {
  float2* const buffer = (float2*)shared;
  const int part = blockIdx.x - ROWS * INPUTS;
  float2 z[COLUMNS][FIRST];
  if (part < 0) {
    const int row = blockIdx.x / INPUTS, begin = (LOW + (int)(blockIdx.x % INPUTS) - 1) * POINTS + SHIFT;
    fft_columns(threadIdx.x, [&](int i, int t) { fft_load_samples(z[i], x, w, row, begin, t); });
  } else {
    const int kernel = part / PARTS, begin = part % PARTS * POINTS;
    fft_columns(threadIdx.x, [&](int i, int t) {
      fft_load_taps<POINTS>(z[i], x, w, kernel, begin, t);
      fft_divide(z[i]);
    });
  }
  const fft_roots_there there = fft_there();
  if (NEXT) begin_next_launch();
  fft_columns(threadIdx.x, [&](int i, int t) { fft_column_there(z[i], buffer, t); });
  __syncthreads();
  float2 v[16];
  fft_row_there(v, buffer, there);
#pragma unroll
  for (int k2 = 0; k2 < 16; ++k2) *partitions_place(workspace, blockIdx.x, k2) = v[k2];
}

// Sums the products. A thread sums one frequency of TOGETHER neighbouring output segments. A line is the POINTS threads
// of all frequencies.
__device__ __forceinline__ void conv1d_products(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                void* __restrict__ y, void* __restrict__ workspace) {
  const int place = blockIdx.x % (POINTS / THREADS) * THREADS + threadIdx.x, line = blockIdx.x / (POINTS / THREADS);
  const int number = line / GROUPS, first = line % GROUPS * TOGETHER;
  const float2* const spectra = (const float2*)workspace + place;
  const float2* const inputs = spectra + (long long)fft_samples_of(number) * INPUTS * POINTS;
  const float2* const taps = spectra + TAPS_AT + (long long)fft_kernel_of(number) * PARTS * POINTS;
  float2* const sums = (float2*)workspace + SUMS_AT + (long long)number * SEGMENTS * POINTS + place;
  auto input = [&](int q) {
    const int at = q - LOW;
    return at >= 0 && at < INPUTS ? inputs[(long long)at * POINTS] : make_float2(0.0f, 0.0f);
  };
  float2 sum[TOGETHER], window[TOGETHER];  // window[r] is segment first + r - p
#pragma unroll
  for (int r = 0; r < TOGETHER; ++r) sum[r] = make_float2(0.0f, 0.0f), window[r] = input(first + r);
#pragma unroll 4
  for (int p = 0; p < PARTS; ++p) {
    const float2 tap = taps[(long long)p * POINTS];
#pragma unroll
    for (int r = 0; r < TOGETHER; ++r) partitions_add(sum[r], window[r], tap);
#pragma unroll
    for (int r = TOGETHER - 1; r > 0; --r) window[r] = window[r - 1];
    window[0] = input(first - p - 1);
  }
#pragma unroll
  for (int r = 0; r < TOGETHER; ++r)
    if (first + r < SEGMENTS) sums[(long long)(first + r) * POINTS] = sum[r];
}

template <int A>
__device__ __forceinline__ void partitions_leave(const float2 (&z)[FIRST], int left, float bias, const char* residual,
                                                 char* y) {
  if constexpr (A < FIRST) {
    if (256 * A >= left) return;
    float sum = fft_turn<-A, 4 * FIRST>(z[A]).y;  // the later half of the segment
    epilogue_finish<1>(&sum, bias, residual + 256 * A * SIZE);
    element_store<1>(y + 256 * A * SIZE, &sum);
    partitions_leave<A + 1>(z, left, bias, residual, y);
  }
}

// Transforms back. There is a block for each segment of each row of the output.
__device__ __forceinline__ void conv1d_back(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                            void* __restrict__ y, void* __restrict__ workspace, word* shared) {
  float2* const buffer = (float2*)shared;
  const int number = blockIdx.x / SEGMENTS, segment = blockIdx.x % SEGMENTS;
  const char* const residuals = (const char*)@RESIDUAL@;
  float2 v[16];
  if (FUSED) {
#pragma unroll
    for (int k2 = 0; k2 < 16; ++k2) v[k2] = make_float2(0.0f, 0.0f);
#pragma unroll 1
    for (int p = 0; p < PARTS; ++p) {
      const int at = segment - p - LOW;
      if (at < 0 || at >= INPUTS) continue;
      float2 a[16], b[16];
#pragma unroll
      for (int k2 = 0; k2 < 16; ++k2) {
        a[k2] = *partitions_place(workspace, (long long)fft_samples_of(number) * INPUTS + at, k2);
        b[k2] = *partitions_place(workspace, (long long)ROWS * INPUTS + (long long)fft_kernel_of(number) * PARTS + p, k2);
      }
#pragma unroll
      for (int k2 = 0; k2 < 16; ++k2) partitions_add(v[k2], a[k2], b[k2]);
    }
  } else {
#pragma unroll
    for (int k2 = 0; k2 < 16; ++k2)
      v[k2] = *partitions_place((float2*)workspace + SUMS_AT, (long long)number * SEGMENTS + segment, k2);
  }
  const fft_roots_back back = fft_back(threadIdx.x);
  const float offset = epilogue_bias(@BIAS@, number % FILTERS);
  if (NEXT) begin_next_launch();
  fft_row_back(v, buffer, back.over_k1);
  __syncthreads();
  fft_columns(threadIdx.x, [&](int i, int t) {
    float2 z[FIRST];
    fft_column_back(z, buffer, t, back.over_ka[i]);
    const int place = segment * POINTS + t;
    const long long to = ((long long)number * L + place) * SIZE;
    partitions_leave<0>(z, L - place, offset, residuals + (HAS_RESIDUAL ? to : 0), (char*)y + to);
  });
}
