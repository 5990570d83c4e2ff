// Forward and inverse Fourier transforms of POINTS = FIRST * 256 complex values, each within a team of a block's threads.
// Frequencies are shifted by a quarter, so that X^POINTS = i at each of them. With z[j] = x[j] + i x[j + POINTS],
// products of spectra are then products of real polynomials modulo X^(2 POINTS) + 1: no spectrum has to be untangled,
// and what wraps around falls on outputs that overlap-save drops.
//
// An index is j = t + 256 a with t = t0 + 16 t1, a frequency is k = ka + FIRST (k1 + 16 k2). First, a thread transforms
// a column t over a. Then 16 threads transform a row ka, over t1 and over t0. The inverse goes over k2, k1 and ka. In
// shared memory, rows are ROW apart, and the 16 by 16 values of a row are 17 apart, so that the lanes of a half warp
// use different banks.
//
// Each of KERNELS kernels of N taps is applied to SIGNALS signals of M samples. If SWAPPED, the kernels are in x.
constexpr bool SWAPPED = @SWAPPED@, FLIP = @FLIP@;
constexpr int FILTERS = @F@, SEVERAL = @SEVERAL@, L = @L@;
constexpr int KERNELS = @KERNELS@, SIGNALS = @SIGNALS@, M = @M@, N = @N@, LEFT = @LEFT@;
constexpr int TAPS_FIRST = @TAPS_FIRST@, SAMPLES_FIRST = @SAMPLES_FIRST@;  // first elements of a row that are used
constexpr long long TAPS_APART = @TAPS_APART@, SAMPLES_APART = @SAMPLES_APART@;
constexpr int FIRST = @FIRST@, POINTS = 256 * FIRST, ROW = 272, BUFFER = FIRST * ROW;
constexpr int TEAMS = @TEAMS@;  // teams of THREADS threads in a block, each of which transforms on its own
constexpr int THREADS = @THREADS@, ROW_THREADS = 16 * FIRST;  // threads of a team, and those that transform rows
constexpr int COLUMNS = (256 + THREADS - 1) / THREADS;  // columns of a thread
static_assert(THREADS >= ROW_THREADS && (THREADS >= 256 || 256 % THREADS == 0), "columns are dealt evenly");
static_assert(4 * THREADS <= POINTS / 2, "the angles of all roots are at most an eighth of a turn");

// The number of a thread's team, and the thread's number in its team.
__device__ __forceinline__ int fft_team() { return TEAMS == 1 ? 0 : threadIdx.x / THREADS; }
__device__ __forceinline__ int fft_thread() { return TEAMS == 1 ? threadIdx.x : threadIdx.x % THREADS; }

// The thread's number among those of its team that transform rows, if it is from 0 to ROW_THREADS - 1. The threads that
// only transform columns are the last ones of the first team and the first ones of the second, so that each quarter of a
// multiprocessor has as many rows.
__device__ __forceinline__ int fft_row_thread() {
  return fft_team() % 2 == 0 ? fft_thread() : fft_thread() - (THREADS - ROW_THREADS);
}
__device__ __forceinline__ bool fft_has_row() {
  return THREADS == ROW_THREADS || (unsigned)fft_row_thread() < ROW_THREADS;
}

// A barrier of the threads of a team; barrier 0 is the spectrum's, which several teams share.
__device__ __forceinline__ void fft_meet() {
  if (TEAMS == 1) __syncthreads();
  else barrier_meet(1 + fft_team(), THREADS);
}

// The number of an output row, from its kernel and signal; and from that number its row of samples and its kernel.
__device__ __forceinline__ int fft_number(int kernel, int signal) {
  return SWAPPED ? kernel * SIGNALS + signal : signal * KERNELS + kernel;
}
__device__ __forceinline__ int fft_samples_of(int number) { return SWAPPED ? number % FILTERS : number / SEVERAL; }
__device__ __forceinline__ int fft_kernel_of(int number) { return SWAPPED ? number / SIGNALS : number % KERNELS; }

// Calls each(i, t) for the thread's columns t = thread + i THREADS.
template <typename Each>
__device__ __forceinline__ void fft_columns(int thread, Each each) {
#pragma unroll
  for (int i = 0; i < COLUMNS; ++i)
    if (256 % THREADS == 0 || thread + i * THREADS < 256) each(i, thread + i * THREADS);
}

// Returns e^(2 pi i n / (4 POINTS)) for n from -POINTS / 2 to POINTS / 2. The angle is at most an eighth of a turn then,
// where the terms of the Taylor series that are left out do not show in float32.
__device__ __forceinline__ float2 fft_root(int n) {
  const float x = (float)n * (float)(3.141592653589793238463 / (2 * POINTS)), s = x * x;
  const float cosine = fmaf(s, fmaf(s, fmaf(s, 1.0f / 40320, -1.0f / 720), 1.0f / 24), -0.5f);
  const float sine = fmaf(s, fmaf(s, fmaf(s, 1.0f / 362880, -1.0f / 5040), 1.0f / 120), -1.0f / 6);
  return make_float2(fmaf(s, cosine, 1.0f), fmaf(x * s, sine, x));
}

// Roots by whose powers a thread multiplies its values in the forward and in the inverse transform.
struct fft_roots_there {
  float2 over_t1, over_t0;
};
struct fft_roots_back {
  float2 over_k1;
  fft_own<true> over_ka[COLUMNS];
};

__device__ __forceinline__ fft_roots_there fft_there() {
  const int ka = fft_row_thread() / 16, lane = fft_row_thread() % 16;
  return {fft_root(-16 * (4 * ka - 1)), fft_root(1 - 4 * ka - 4 * FIRST * lane)};
}

// Fills in the roots of column I and the columns after it.
template <int I>
__device__ __forceinline__ void fft_back_columns(fft_roots_back& roots) {
  if constexpr (I < COLUMNS) {
    roots.over_ka[I].w = fft_turn<4 * I * THREADS, 4 * POINTS>(roots.over_ka[0].w);
    roots.over_ka[I].scale = fft_turn<-I * THREADS, 4 * POINTS>(roots.over_ka[0].scale);
    fft_back_columns<I + 1>(roots);
  }
}

// `t` is the thread's first column.
__device__ __forceinline__ fft_roots_back fft_back(int t) {
  fft_roots_back roots;
  roots.over_k1 = fft_root(4 * FIRST * (fft_row_thread() % 16));
  roots.over_ka[0] = {fft_root(4 * t), fft_root(-t)};
  fft_back_columns<1>(roots);
  return roots;
}

__device__ __forceinline__ void fft_column_there(float2 (&z)[FIRST], float2* buffer, int t) {
  fft_dft<-1>(z, fft_fixed<1, 4 * FIRST>());
#pragma unroll
  for (int ka = 0; ka < FIRST; ++ka) buffer[ka * ROW + t] = z[ka];
}

// Does the same for a column of at most MOST taps. They are real if no tap follows the first POINTS.
template <int MOST>
__device__ __forceinline__ void fft_taps_there(float2 (&z)[FIRST], float2* buffer, int t) {
  if constexpr (MOST > POINTS) {
    fft_column_there(z, buffer, t);
  } else {
    fft_dft_of_reals<-1, (MOST + 255) / 256, 1, 4 * FIRST>(z);
#pragma unroll
    for (int ka = 0; ka < FIRST; ++ka) buffer[ka * ROW + t] = z[ka];
  }
}

// Undoes fft_column_there, but for a factor: z[a] is left multiplied by e^(2 pi i a / (4 FIRST)).
__device__ __forceinline__ void fft_column_back(float2 (&z)[FIRST], const float2* buffer, int t, fft_own<true> over_ka) {
#pragma unroll
  for (int ka = 0; ka < FIRST; ++ka) z[ka] = buffer[ka * ROW + t];
  fft_dft<1>(z, over_ka);
}

// Return the thread's row of a buffer, and its own sixteen places in that row, if it has one.
__device__ __forceinline__ float2* fft_row(float2* buffer) { return buffer + fft_row_thread() / 16 * ROW; }
__device__ __forceinline__ float2* fft_own_places(float2* buffer) { return fft_row(buffer) + 17 * (fft_row_thread() % 16); }

// Transforms a row. Row thread 16 ka + k1 then holds the spectrum's values k2 of (ka, k1).
__device__ __forceinline__ void fft_row_there(float2 (&v)[16], float2* buffer, fft_roots_there roots) {
  float2* const place = fft_row(buffer) + fft_row_thread() % 16;
#pragma unroll
  for (int t1 = 0; t1 < 16; ++t1) v[t1] = place[16 * t1];
  fft_dft<-1>(v, fft_own<false>{roots.over_t1});
  __syncwarp();
#pragma unroll
  for (int k1 = 0; k1 < 16; ++k1) place[17 * k1] = v[k1];
  __syncwarp();
#pragma unroll
  for (int t0 = 0; t0 < 16; ++t0) v[t0] = fft_own_places(buffer)[t0];
  fft_dft<-1>(v, fft_own<false>{roots.over_t0});
}

__device__ __forceinline__ void fft_row_back(float2 (&v)[16], float2* buffer, float2 over_k1) {
  float2* const place = fft_row(buffer) + fft_row_thread() % 16;
  fft_dft<1>(v, fft_plain());
#pragma unroll
  for (int t0 = 0; t0 < 16; ++t0) fft_own_places(buffer)[t0] = v[t0];
  __syncwarp();
#pragma unroll
  for (int k1 = 0; k1 < 16; ++k1) v[k1] = place[17 * k1];
  fft_dft<1>(v, fft_own<false>{over_k1});
  __syncwarp();
#pragma unroll
  for (int t1 = 0; t1 < 16; ++t1) place[16 * t1] = v[t1];
}

__device__ __forceinline__ float fft_element(const char* from, bool inside) {
  word v[1];
  element_fetch<SIZE>(v, from, inside);
  return element_at(v, 0);
}

// Loads a column of the samples of row `row` from sample `begin` on, with zeros beyond the row's ends.
__device__ __forceinline__ void fft_load_samples(float2 (&z)[FIRST], const void* x, const void* w, int row, int begin,
                                                 int t) {
  constexpr bool REVERSED = SWAPPED && !FLIP;
  constexpr int STEP = REVERSED ? -SIZE : SIZE;
  const long long first = row * SAMPLES_APART + SAMPLES_FIRST + (REVERSED ? M - 1 : 0);
  const char* const from = (const char*)(SWAPPED ? w : x) + first * SIZE + (long long)(begin + t) * STEP;
  if (begin >= 0 && begin + 2 * POINTS <= M) {
#pragma unroll
    for (int a = 0; a < FIRST; ++a) {
      z[a].x = fft_element(from + 256 * STEP * a, true);
      z[a].y = fft_element(from + STEP * (256 * a + POINTS), true);
    }
  } else {
    const unsigned at = begin + t;  // places before the row become larger than M
#pragma unroll
    for (int a = 0; a < FIRST; ++a) {
      z[a].x = fft_element(from + 256 * STEP * a, at + 256 * a < M);
      z[a].y = fft_element(from + STEP * (256 * a + POINTS), at + 256 * a + POINTS < M);
    }
  }
}

// Loads a column of MOST taps from tap `begin` on.
template <int MOST>
__device__ __forceinline__ void fft_load_taps(float2 (&z)[FIRST], const void* x, const void* w, int kernel, int begin,
                                              int t) {
  constexpr bool REVERSED = !SWAPPED && !FLIP;
  const char* const taps = (const char*)(SWAPPED ? x : w) + (kernel * TAPS_APART + TAPS_FIRST) * SIZE;
  const char* const from = taps + (REVERSED ? N - 1 - begin - t : begin + t) * SIZE;
  const int inside = (MOST < N - begin ? MOST : N - begin) - t;
  auto tap = [&](int place) {
    if (place >= MOST) return 0.0f;
    return fft_element(from + (REVERSED ? -place : place) * SIZE, place < inside);
  };
#pragma unroll
  for (int a = 0; a < FIRST; ++a) z[a] = make_float2(tap(256 * a), tap(256 * a + POINTS));
}

// Divides a column by POINTS, by which an inverse transform multiplies.
__device__ __forceinline__ void fft_divide(float2 (&z)[FIRST]) {
#pragma unroll
  for (int a = 0; a < FIRST; ++a) z[a].x *= 1.0f / POINTS, z[a].y *= 1.0f / POINTS;
}
