// Overlap-save convolution. A block transforms a kernel and EACH of the segments of 2 POINTS samples to which the kernel
// is applied. Each of its teams transforms every TEAMS-th of these segments, and the first one also the kernel. So the
// other teams are at other steps than the first one, and what one team computes overlaps with what another one loads.
constexpr bool APART = @APART@;  // whether the taps have a buffer of their own
constexpr int DROPPED = @DROPPED@;  // sums before a segment's outputs; the taps wrap around into N - 1 of them
constexpr int KEPT = 2 * POINTS - DROPPED, SEGMENTS = (L + KEPT - 1) / KEPT;  // outputs of a segment, segments of a row
// Segments of a kernel, segments of a block, and blocks of a kernel.
constexpr int UNITS = SIGNALS * SEGMENTS, EACH = @EACH@, SHARES = (UNITS + EACH - 1) / EACH;
constexpr bool SHARED_SPECTRUM = APART && EACH > 1;  // whether the spectrum is read from shared memory
constexpr bool EARLY = @EARLY@;  // the first team's samples are loaded while it transforms the taps
constexpr int HAVE_ROWS = TEAMS * ROW_THREADS;  // threads of a block that transform rows
constexpr bool NEXT = @NEXT@;  // the next launch begins as soon as units have room for its blocks
static_assert(TEAMS == 1 || (APART && EACH % TEAMS == 0), "teams share a spectrum, and each has as many segments");
static_assert(2 * BUFFER * (TEAMS + APART) == @WORDS@, "the template's estimate of shared memory");

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
  const int kernel = blockIdx.x / SHARES, share = blockIdx.x % SHARES, team = fft_team(), thread = fft_thread();
  float2* const buffer = (float2*)shared + team * BUFFER;
  float2* const taps_buffer = (float2*)shared + (APART ? TEAMS : 0) * BUFFER;
  const char* const residuals = (const char*)@RESIDUAL@;

  const bool has_row = fft_has_row();
  const int taps_thread = THREADS - 1 - thread;  // if threads outnumber columns, the last ones have none of samples

  float2 z[COLUMNS][FIRST];
  auto load = [&](int unit) {
    const int row = fft_samples_of(fft_number(kernel, unit / SEGMENTS));
    const int begin = unit % SEGMENTS * KEPT - LEFT - (DROPPED - (N - 1));
    fft_columns(thread, [&](int i, int t) { fft_load_samples(z[i], x, w, row, begin, t); });
  };
  int unit = share * EACH + team;
  const int end = share * EACH + EACH < UNITS ? share * EACH + EACH : UNITS;

  float2 taps[COLUMNS][FIRST];
  if (team == 0) fft_columns(taps_thread, [&](int i, int t) { fft_load_taps<N>(taps[i], x, w, kernel, 0, t); });
  if (EARLY && team > 0 && unit < end) load(unit);
  const fft_roots_there there = fft_there();
  fft_roots_back back;
  if (TEAMS > 1) back = fft_back(thread);
  if (NEXT) begin_next_launch();  // it would delay the loads if it came before them
  float2 spectrum[16];
  if (team == 0) {
    fft_columns(taps_thread, [&](int i, int t) {
      fft_divide(taps[i]);
      fft_taps_there<N>(taps[i], taps_buffer, t);
    });
    if (EARLY) load(unit);
    fft_meet();
    if (has_row) {
      fft_row_there(spectrum, taps_buffer, there);
      if (SHARED_SPECTRUM) {
#pragma unroll
        for (int k2 = 0; k2 < 16; ++k2) fft_own_places(taps_buffer)[k2] = spectrum[k2];
      }
    }
    if (!APART) __syncthreads();
  }
  if (TEAMS == 1) back = fft_back(thread);  // several teams are faster if this is early, a single one if late
  bool waits = team > 0;
  if (TEAMS > 1 && (team == 0 || unit >= end)) {
    if (has_row) barrier_arrive(0, HAVE_ROWS);  // the spectrum is there
    if (unit >= end) return;
  }
  if (!EARLY) load(unit);
#pragma unroll 1
  while (true) {
    fft_columns(thread, [&](int i, int t) { fft_column_there(z[i], buffer, t); });
    fft_meet();
    if (has_row) {
      float2 v[16];
      fft_row_there(v, buffer, there);
      if (TEAMS > 1 && waits) {
        barrier_meet(0, HAVE_ROWS);
        waits = false;
      }
#pragma unroll
      for (int k2 = 0; k2 < 16; ++k2)
        v[k2] = fft_times(v[k2], SHARED_SPECTRUM ? fft_own_places(taps_buffer)[k2] : spectrum[k2]);
      fft_row_back(v, buffer, back.over_k1);
    }
    fft_meet();
    const int number = fft_number(kernel, unit / SEGMENTS), first = unit % SEGMENTS * KEPT;
    const float offset = epilogue_bias(@BIAS@, number % FILTERS);
    fft_columns(thread, [&](int i, int t) {
      fft_column_back(z[i], buffer, t, back.over_ka[i]);
      const int place = first + t - DROPPED;
      const long long to = ((long long)number * L + place) * SIZE;
      fft_leave_all<0>(z[i], t, L - place, offset, residuals + (HAS_RESIDUAL ? to : 0), (char*)y + to);
    });
    if (EACH == TEAMS || (unit += TEAMS) >= end) break;
    load(unit);
  }
}
