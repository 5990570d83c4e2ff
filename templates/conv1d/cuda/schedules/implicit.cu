// Dense channels and banks as a matrix product on tensor cores: D[f, i] = sum over k of A[f, k] Z[k, i], where k goes
// over channels and taps. No matrix of windows is in memory: shared memory holds the signal as rows of 16 bytes.
// Along channels a row is eight channels of one sample; along taps it is what eight taps meet of one channel.
// A tap is then a distance in rows, and any row is aligned for ldmatrix. float32 is split into a high and a low half,
// each with rows and weights of its own; three products are summed.
constexpr bool ALONG_TAPS = @ALONG_TAPS@;
constexpr int WC = @WC@, WT = @WT@, STAGES = @STAGES@, HELD = @HELD@;
constexpr bool AHEAD = @AHEAD@;  // whether a step's fragments come while those before them are multiplied
constexpr int HALVES = @PRODUCTS@ == 3 ? 2 : 1, QUAD = 16 / SIZE;  // elements of 16 bytes
constexpr int TAP_CHUNKS = (N + WT - 1) / WT, CHUNKS = (C + WC - 1) / WC * TAP_CHUNKS;

// Position i and distance t meet in row (t * FAR % NEAR) * LENGTH + t * FAR / NEAR + i. The remainders, as many as the
// stride, lie apart, so neighbouring positions have neighbouring rows at any stride. Few taps, or far ones, have
// rows of their own.
constexpr int INNER = ALONG_TAPS ? (WT + 15) / 16 : WT;  // steps of 16 along k, in one or 16 channels
constexpr int REACH = ALONG_TAPS ? 8 * DILATION : DILATION, DISTANCES = ALONG_TAPS ? 2 * INNER : WT;
constexpr int UNIT = implicit_divisor(STRIDE, REACH), NEAR = STRIDE / UNIT, FAR = REACH / UNIT;
constexpr int POSITIONS = TILE + OVERLAP;
constexpr long long SHARED_LENGTH = POSITIONS + (long long)(DISTANCES - 1) * FAR / NEAR;
constexpr bool APART = (long long)DISTANCES * POSITIONS <= NEAR * SHARED_LENGTH;
constexpr int PHASES = APART ? DISTANCES : NEAR, LENGTH = APART ? POSITIONS : (int)SHARED_LENGTH;
constexpr int ROWS = PHASES * LENGTH, GROUPS = ALONG_TAPS ? WC : WC / 8, ITEMS = GROUPS * ROWS;
constexpr int STEPS = (ALONG_TAPS ? WC : WC / 16) * INNER;
constexpr int BATCH = ITEMS > 3 * THREADS ? 4 : (ITEMS + THREADS - 1) / THREADS;  // rows that a thread fetches at once
// Whether a row's elements lie side by side, at a multiple of 16 bytes, and no 16 of them are partly outside.
constexpr bool WIDE_TAPS = DILATION == 1 && (!CHANNELS_LAST || C == 1) && STRIDE % QUAD == 0 && M % QUAD == 0 &&
                           LEFT % QUAD == 0 && (TAP_CHUNKS == 1 || WT % QUAD == 0);
constexpr bool WIDE_ROWS = ALONG_TAPS ? WIDE_TAPS : CHANNELS_LAST && C % 8 == 0;

// Weights come as they lie, and are packed by pairs along k: their pitch keeps both in different banks.
typedef @ELEMENT@ element;  // bits
constexpr int PIECE = WC * WT;
constexpr int implicit_pitch(int pitch) { return pitch % 32 == 16 ? pitch : implicit_pitch(pitch + 8); }
constexpr int PITCH = implicit_pitch((PIECE + 7) / 8 * 8);
constexpr bool WIDE_WEIGHTS = WT == N ? C * (long long)N % QUAD == 0 && PIECE % QUAD == 0 : N % QUAD == 0 && WT % QUAD == 0;
constexpr int PARTS = @PARTS@, PART = FILTERS / PARTS;  // of a block's filters, whose weights come one after the other
constexpr int PACKED_HALF = FILTERS * STEPS * 8, PACKED_WORDS = HALVES * PACKED_HALF;
constexpr int WINDOW_WORDS = HALVES * 4 * ITEMS, RAW_WORDS = PART * PITCH * SIZE / 4;
constexpr int LARGER_WORDS = WINDOW_WORDS > RAW_WORDS ? WINDOW_WORDS : RAW_WORDS;
constexpr int BESIDE_WORDS = CHUNKS > 1 ? WINDOW_WORDS + RAW_WORDS : LARGER_WORDS;
static_assert(CHUNKS == 1 || PARTS == 1, "parts are for weights that stay");
static_assert(STAGES * (PACKED_WORDS + BESIDE_WORDS) == @WORDS@, "the template's estimate of shared memory");

__device__ __forceinline__ int implicit_row(int t) {
  return APART ? t * LENGTH : t * FAR % NEAR * LENGTH + t * FAR / NEAR;
}

__device__ __forceinline__ void conv1d_implicit(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                void* __restrict__ y, word* shared) {
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int warp_f = warp % WARPS_F, warp_i = warp / WARPS_F;
  const int filter = (int)(blockIdx.x % FILTER_BLOCKS) * FILTERS;
  const int patch = (int)(blockIdx.x / FILTER_BLOCKS % PATCHES), b = (int)(blockIdx.x / FILTER_BLOCKS / PATCHES);
  const bool wide_rows = (size_t)x % 16 == 0, wide_weights = (size_t)w % 16 == 0;

  auto packed_of = [&](int stage) { return shared + stage * PACKED_WORDS; };
  auto window_of = [&](int stage) { return shared + STAGES * PACKED_WORDS + stage * WINDOW_WORDS; };
  auto raw_of = [&](int stage) {  // in the window's place if weights are packed before there is a window
    return shared + STAGES * (PACKED_WORDS + (CHUNKS > 1 ? WINDOW_WORDS : 0)) + stage * RAW_WORDS;
  };

  // One row, for outputs from the first one on: eight elements, each in a word, or packed if it is wide.
  auto fetch = [&](word (&v)[8], int item, int first, int chunk) {
    const int c0 = chunk / TAP_CHUNKS * WC, t0 = chunk % TAP_CHUNKS * WT;
    const int group = item / ROWS, phase = item % ROWS / LENGTH, j = item % LENGTH;
    const int sample = first * STRIDE - LEFT + t0 * DILATION + phase * (APART ? REACH : UNIT) + j * STRIDE;
    const int c = c0 + (ALONG_TAPS ? group : 8 * group), channels = item < ITEMS ? C - c : 0;
    const char* const from = (const char*)x + implicit_place(b, c, sample, C, M) * SIZE;
    const bool sampled = (word)sample < (word)M;
    if (WIDE_ROWS && wide_rows) {
#pragma unroll
      for (int e = 0; e < 8; e += QUAD) {
        const bool here = ALONG_TAPS ? (word)(sample + e) < (word)M : sampled;
        element_fetch<16>(v + element_words(e), from + e * SIZE, here && channels > 0);
      }
      return;
    }
    constexpr long long STEP = ALONG_TAPS == CHANNELS_LAST ? (ALONG_TAPS ? (long long)DILATION * C : M)
                                                           : (ALONG_TAPS ? DILATION : 1);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const bool here = ALONG_TAPS ? (word)(sample + e * DILATION) < (word)M : sampled;
      element_fetch<SIZE>(v + e, from + e * STEP * SIZE, here && channels > (ALONG_TAPS ? 0 : e));
    }
    if (WIDE_ROWS && !IS_FLOAT)
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = v[2 * e] | v[2 * e + 1] << 16;
  };
  auto put = [&](word* window, const word (&v)[8], int item) {
    if (item >= ITEMS) return;
    uint4 row, low;
    if (IS_FLOAT) {
      auto split = [&](int e, word& high, word& low) {
        halves_split(__uint_as_float(v[e]), __uint_as_float(v[e + 1]), high, low);
      };
      split(0, row.x, low.x), split(2, row.y, low.y), split(4, row.z, low.z), split(6, row.w, low.w);
      if (HALVES == 2) ((uint4*)window)[ITEMS + item] = low;
    } else if (WIDE_ROWS) row.x = v[0], row.y = v[1], row.z = v[2], row.w = v[3];
    else row.x = v[0] | v[1] << 16, row.y = v[2] | v[3] << 16, row.z = v[4] | v[5] << 16, row.w = v[6] | v[7] << 16;
    ((uint4*)window)[item] = row;
  };
  word held[HELD > 0 ? HELD : 1][8];  // rows on their way while the rows before them are multiplied
  auto fetch_held = [&](int first, int chunk) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) fetch(held[h], h * THREADS + thread, first, chunk);
  };
  auto put_held = [&](word* window) {
#pragma unroll
    for (int h = 0; h < HELD; ++h) put(window, held[h], h * THREADS + thread);
  };
  auto stage_from = [&](int start, word* window, int first, int chunk) {
#pragma unroll 1
    for (; start < ITEMS; start += BATCH * THREADS) {
      word v[BATCH][8];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) fetch(v[i], start + i * THREADS + thread, first, chunk);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) put(window, v[i], start + i * THREADS + thread);
    }
  };

  auto copy = [&](word* raw, int chunk, int part) {
    const int c0 = chunk / TAP_CHUNKS * WC, t0 = chunk % TAP_CHUNKS * WT, m0 = FLIP ? N - t0 - WT : t0;
    const int before = filter + part * PART;
    auto weight = [&](int f, int r, bool& inside) {
      const int c = c0 + r / WT, m = m0 + r % WT;
      inside = before + f < F && c < C && m >= 0 && m < N;
      return (const char*)w + (inside ? ((long long)(before + f) * C + c) * N + m : 0) * SIZE;
    };
    auto place = [&](int f, int r) { return (char*)raw + (f * PITCH + r) * SIZE; };
    if (WIDE_WEIGHTS && wide_weights) {
      constexpr int QUADS = PIECE / QUAD > 0 ? PIECE / QUAD : 1;
#pragma unroll 4
      for (int k = thread; k < PART * QUADS; k += THREADS) {
        bool inside;
        const char* const from = weight(k / QUADS, k % QUADS * QUAD, inside);
        implicit_copy(place(k / QUADS, k % QUADS * QUAD), from, inside);
      }
    } else {
#pragma unroll 4
      for (int k = thread; k < PART * PIECE; k += THREADS) {
        bool inside;
        const char* const from = weight(k / PIECE, k % PIECE, inside);
        word v[1];
        element_fetch<SIZE>(v, from, inside);
        *(element*)place(k / PIECE, k % PIECE) = (element)v[0];
      }
    }
  };
  // To 16 along k of each filter; the halves of a filter's 32 bytes change places so that ldmatrix meets all banks.
  auto pack = [&](word* packed, const word* raw, int part) {
    constexpr int OUTER = STEPS / INNER, FORWARD = FLIP ? -1 : 1, NEXT = (ALONG_TAPS ? 16 : 1) * FORWARD;
#pragma unroll 1
    for (int k = thread; k < PART * OUTER * 8; k += THREADS) {
      const int pair = k % 8, f = k / 8 % PART, outer = k / 8 / PART;
      const int c = ALONG_TAPS ? outer : 16 * outer + 2 * pair, t = ALONG_TAPS ? 2 * pair : 0;
      const element* const from = (const element*)raw + f * PITCH + c * WT + (FLIP ? WT - 1 - t : t);
      word* const to = packed + (outer * INNER * FILTERS + part * PART + f) * 8 + (pair / 4 ^ f / 4 % 2) * 4 + pair % 4;
#pragma unroll 8
      for (int inner = 0; inner < INNER; ++inner) {
        const int left = ALONG_TAPS ? WT - t - 16 * inner : 2;
        const word first = left > 0 ? from[inner * NEXT] : 0;
        const word second = left > 1 ? from[inner * NEXT + (ALONG_TAPS ? FORWARD : WT)] : 0;
        word high = first | second << 16, low;
        if (IS_FLOAT) halves_split(__uint_as_float(first), __uint_as_float(second), high, low);
        to[inner * FILTERS * 8] = high;
        if (HALVES == 2) to[PACKED_HALF + inner * FILTERS * 8] = low;
      }
    }
  };

  Sums sum;
  auto clear = [&] {
#pragma unroll
    for (int m = 0; m < MF; ++m)
#pragma unroll
      for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][j][i] = 0.0f;
  };
  auto multiply = [&](const word* packed, const word* window) {
    const int half = lane / 8 % 2;
    const word weights = (word)__cvta_generic_to_shared(packed) + (warp_f * MF * 16 + lane % 16) * 32
                         + (lane / 16 ^ lane / 4 % 2) * 16;
    const word mine = (word)__cvta_generic_to_shared(window) + 16 * warp_i * STEP_I;
    const word positions = mine + 16 * implicit_position(lane / 16, lane % 8);
    const int back = 16 * (implicit_position(lane / 16, 0) - implicit_position(0, 0));  // the last tile may be alone
    typedef word Weights[HALVES][MF][4];
    typedef word Rows[HALVES][(NI + 1) / 2][4];
    auto load = [&](Weights& a, Rows& v, int step) {
      const int outer = step / INNER, inner = step % INNER;
      const int row = ALONG_TAPS ? outer * ROWS + implicit_row(2 * inner + half)
                                 : (2 * outer + half) * ROWS + implicit_row(inner);
#pragma unroll
      for (int h = 0; h < HALVES; ++h) {
#pragma unroll
        for (int m = 0; m < MF; ++m)
          halves_rows(a[h][m], weights + 4 * h * PACKED_HALF + (step * FILTERS + 16 * m) * 32);
#pragma unroll
        for (int j = 0; j < NI; j += 2)
          halves_rows(v[h][j / 2],
                      positions + 16 * (h * ITEMS + row + implicit_position(j, 0)) - (j + 1 < NI ? 0 : back));
      }
    };
    auto add = [&](const Weights& a, const Rows& v) {
#pragma unroll
      for (int p = 0; p < 2 * HALVES - 1; ++p)  // the low halves' product is left out
#pragma unroll
        for (int j = 0; j < NI; ++j)
#pragma unroll
          for (int m = 0; m < MF; ++m) {
            const word(&rows)[4] = v[p == 1][j / 2];
            halves_multiply(sum[m][j], a[p == 2][m], rows[j % 2 * 2], rows[j % 2 * 2 + 1]);
          }
    };
    Weights a[AHEAD ? 2 : 1];
    Rows v[AHEAD ? 2 : 1];
    if (AHEAD) {
      load(a[0], v[0], 0);
#pragma unroll 1
      for (int step = 0; step < STEPS; step += 2) {
        load(a[AHEAD], v[AHEAD], min(step + 1, STEPS - 1));
        add(a[0], v[0]);
        if (step + 1 == STEPS) break;
        load(a[0], v[0], min(step + 2, STEPS - 1));
        add(a[AHEAD], v[AHEAD]);
      }
    } else {
#pragma unroll 2
      for (int step = 0; step < STEPS; ++step) {
        load(a[0], v[0], step);
        add(a[0], v[0]);
      }
    }
  };

  auto store = [&](int first) {
    const Outputs to = {(char*)y, bias_of, residual_of, b, filter + warp_f * MF * 16, first + warp_i * STEP_I};
    if (SHIFTED) implicit_store_shifted(sum, to);
    else implicit_store(sum, to);
  };

  int first = patch * SPAN;
  if (CHUNKS == 1) {
#pragma unroll 1
    for (int part = 0; part < PARTS; ++part) {
      copy(raw_of(0), 0, part);
      implicit_copied();
      __syncthreads();
      pack(packed_of(0), raw_of(0), part);
      __syncthreads();
    }
    stage_from(0, window_of(0), first, 0);
#pragma unroll 1
    for (int tile = 1;; ++tile) {
      __syncthreads();
      const bool more = tile < TILES && first + TILE < L;
      if (more) fetch_held(first + TILE, 0);
      clear();
      multiply(packed_of(0), window_of(0));
      store(first);
      if (!more) break;
      __syncthreads();
      first += TILE;
      put_held(window_of(0));
      stage_from(HELD * THREADS, window_of(0), first, 0);
    }
    return;
  }
  clear();
  if (STAGES == 1) {
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      if (chunk > 0) __syncthreads();
      copy(raw_of(0), chunk, 0);
      stage_from(0, window_of(0), first, chunk);
      implicit_copied();
      __syncthreads();
      pack(packed_of(0), raw_of(0), 0);
      __syncthreads();
      multiply(packed_of(0), window_of(0));
    }
  } else {
    copy(raw_of(0), 0, 0);
    stage_from(0, window_of(0), first, 0);
    implicit_copied();
    __syncthreads();
    pack(packed_of(0), raw_of(0), 0);
    copy(raw_of(1), 1, 0);
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int here = chunk % 2, next = 1 - here;
      implicit_copied();
      __syncthreads();
      const bool more = chunk + 1 < CHUNKS;
      if (chunk + 2 < CHUNKS) copy(raw_of(here), chunk + 2, 0);
      if (more) {
        fetch_held(first, chunk + 1);
        stage_from(HELD * THREADS, window_of(next), first, chunk + 1);
        pack(packed_of(next), raw_of(next), 0);
      }
      multiply(packed_of(here), window_of(here));
      if (more) put_held(window_of(next));
    }
  }
  store(first);
}
