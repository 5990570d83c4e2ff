// Dense channels and banks as a matrix product on tensor cores: D[f, i] = sum over k of A[f, k] Z[k, i], where k goes
// over channels and taps. The matrix of windows, Z, is implicit: the products read the signal's rows in shared memory
// (implicit_layout.cu) at the distance of their tap. float32 is split into halves, of which three products are summed.
constexpr bool AHEAD = @AHEAD@;  // whether fragments are loaded a step ahead
constexpr int CHAIN = @CHAIN@;   // steps that tensor cores, which truncate, sum before they are added to the rest; 0: all

__device__ __forceinline__ void conv1d_implicit(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                                void* __restrict__ y, word* shared) {
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int warp_f = warp % WARPS_F, warp_i = warp / WARPS_F;
  const int first_warp = (int)(blockIdx.x % FILTER_BLOCKS) * WARPS_F, own_filter = implicit_filter(first_warp + warp_f, 0);
  const int patch = (int)(blockIdx.x / FILTER_BLOCKS % PATCHES), b = (int)(blockIdx.x / FILTER_BLOCKS / PATCHES);
  const bool wide_rows = (size_t)x % 16 == 0, wide_weights = (size_t)w % 16 == 0;
  int first = patch * SPAN;
  Scales scales = {0};
  if (SCALED && STREAMED == 0)
    scales = implicit_scales(implicit_largest_sample((const word*)x, b, first),
                             implicit_largest_weight((const word*)w, first_warp), shared);

  auto filter_of = [&](int f) { return implicit_filter(first_warp + f / OWN, f % OWN); };  // filter f of the block's
  auto packed_of = [&](int stage) { return shared + stage * PACKED_WORDS; };
  auto window_of = [&](int stage) { return shared + STAGES * PACKED_WORDS + stage * WINDOW_WORDS; };
  auto raw_of = [&](int stage) {  // shares the window's place if weights are packed before the window is staged
    return shared + STAGES * (PACKED_WORDS + (CHUNKS > 1 ? WINDOW_WORDS : 0)) + stage * RAW_WORDS;
  };

  // Loads one row, for outputs from `first` - SLACK on: eight elements, each in a word of its own, or packed if the row
  // is wide.
  auto fetch = [&](word (&v)[8], int item, int first, int chunk) {
    const int c0 = chunk / TAP_CHUNKS * WC, t0 = chunk % TAP_CHUNKS * WT;
    const int group = item / ROWS, phase = item % ROWS / LENGTH, j = item % LENGTH;
    const int sample = (first - SLACK) * STRIDE - LEFT + t0 * DILATION + phase * (APART ? REACH : UNIT) + j * STRIDE;
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
    if (WIDE_ROWS) implicit_pack_row(v);
  };
  auto put = [&](word* window, const word (&v)[8], int item) {
    if (item < ITEMS) implicit_put_row<WIDE_ROWS>((uint4*)window + item, ITEMS, v, scales.x());
  };
  word held[HELD > 0 ? HELD : 1][8];  // rows that are loaded while the rows before them are multiplied
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

  // Loads eight taps of a filter. If the kernel is flipped, the first of them is the last in memory.
  auto fetch_weights = [&](word (&v)[8], int item, int chunk) {
    const int f = filter_of(item / 2 % FILTERS), step = item / 2 / FILTERS;
    const int c = chunk / TAP_CHUNKS * WC + step / INNER, t0 = chunk % TAP_CHUNKS * WT;
    const int t = t0 + step % INNER * 16 + item % 2 * 8;
    const int count = item < WEIGHT_ITEMS && f < F && c < C ? min(t0 + WT, N) - t : 0;
    const char* const from = (const char*)w + (((long long)f * C + c) * N + (FLIP ? N - 8 - t : t)) * SIZE;
    if (WIDE_WEIGHTS && wide_weights) {
      word lying[8];
#pragma unroll
      for (int e = 0; e < 8; e += QUAD)
        element_fetch<16>(lying + element_words(e), from + e * SIZE, FLIP ? e >= 8 - count : e < count);
#pragma unroll
      for (int k = 0; k < element_words(8); ++k)
        v[k] = !FLIP ? lying[k] : IS_FLOAT ? lying[7 - k] : __byte_perm(lying[3 - k % 4], 0, 0x1032);
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) element_fetch<SIZE>(v + e, from + (FLIP ? 7 - e : e) * SIZE, e < count);
      if (WIDE_WEIGHTS) implicit_pack_row(v);
    }
  };
  // Stages weights as 16 along k of each filter, 32 bytes. Their halves are swapped in every other four filters, so
  // that ldmatrix uses all banks.
  auto stage_weights = [&](word* packed, int chunk) {
    constexpr int BATCH = 4;
#pragma unroll 1
    for (int start = thread; start < WEIGHT_ITEMS; start += BATCH * THREADS) {
      word v[BATCH][8];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) fetch_weights(v[i], start + i * THREADS, chunk);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int item = start + i * THREADS, row = item / 2;
        if (item < WEIGHT_ITEMS)
          implicit_put_row<WIDE_WEIGHTS>((uint4*)packed + 2 * row + (item % 2 ^ row / 4 % 2), PACKED_HALF / 4, v[i],
                                         scales.w());
      }
    }
  };

  auto copy = [&](word* raw, int chunk, int part) {
    const int c0 = chunk / TAP_CHUNKS * WC, t0 = chunk % TAP_CHUNKS * WT, m0 = FLIP ? N - t0 - WT : t0;
    const int before = part * PART;
    auto weight = [&](int f, int r, bool& inside) {
      const int c = c0 + r / WT, m = m0 + r % WT;
      const int own = filter_of(before + f);
      inside = own < F && c < C && m >= 0 && m < N;
      return (const char*)w + (inside ? ((long long)own * C + c) * N + m : 0) * SIZE;
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
  auto pack = [&](word* packed, const word* raw, int part) {
    constexpr int OUTER = STEPS / INNER;
#pragma unroll 1
    for (int k = thread; k < PART * OUTER * 8; k += THREADS) {
      const int pair = k % 8, f = k / 8 % PART, outer = k / 8 / PART;
      const element* const from = (const element*)raw + f * PITCH + (16 * outer + 2 * pair) * WT + (FLIP ? WT - 1 : 0);
      word* const to = packed + (outer * INNER * FILTERS + part * PART + f) * 8 + (pair / 4 ^ f / 4 % 2) * 4 + pair % 4;
#pragma unroll 8
      for (int inner = 0; inner < INNER; ++inner) {
        const int t = FLIP ? -inner : inner;
        const word first = from[t], second = from[t + WT];
        word high = first | second << 16, low;
        if (IS_FLOAT)
          halves_split(__uint_as_float(first) * scales.w(), __uint_as_float(second) * scales.w(), high, low);
        to[inner * FILTERS * 8] = high;
        if (HALVES == 2) to[PACKED_HALF + inner * FILTERS * 8] = low;
      }
    }
  };
  // Packs the weights of a chunk: from memory along taps, from the part that was copied along channels.
  auto place_weights = [&](int stage, int chunk, int part) {
    if (ALONG_TAPS) stage_weights(packed_of(stage), chunk);
    else pack(packed_of(stage), raw_of(stage), part);
  };
  auto copy_weights = [&](int stage, int chunk, int part) {
    if (!ALONG_TAPS) copy(raw_of(stage), chunk, part);
  };
  auto await_weights = [&] {
    if (ALONG_TAPS) return;
    implicit_copied();
    __syncthreads();
  };

  float sum[MF][NI][4];
  auto clear = [&] {
#pragma unroll
    for (int m = 0; m < MF; ++m)
#pragma unroll
      for (int j = 0; j < NI; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][j][i] = 0.0f;
  };
  auto multiply = [&](const word* packed, const word* window, int first) {
    const int half = lane / 8 % 2;
    const word weights = (word)__cvta_generic_to_shared(packed) + (warp_f * MF * 16 + lane % 16) * 32
                         + (lane / 16 ^ lane / 4 % 2) * 16;
    const int lead = implicit_lead(y, b, own_filter, first + warp_i * 8 * NI);
    const word mine = (word)__cvta_generic_to_shared(window) + 16 * (warp_i * 8 * NI + SLACK - lead);
    const word positions = mine + 16 * implicit_position(lane / 16, lane % 8);
    const int back = 16 * (implicit_position(lane / 16, 0) - implicit_position(0, 0));  // for a last tile with no pair
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
    float chain[MF][NI][4] = {};
    auto& into = CHAIN > 0 ? chain : sum;
    auto add_chain = [&] {
#pragma unroll
      for (int i = 0; i < MF * NI * 4 && CHAIN > 0; ++i) sum[0][0][i] += chain[0][0][i], chain[0][0][i] = 0.0f;
    };
    auto add = [&](const Weights& a, const Rows& v) {
#pragma unroll
      for (int p = 0; p < 2 * HALVES - 1; ++p)  // the product of the low halves is left out
#pragma unroll
        for (int j = 0; j < NI; ++j)
#pragma unroll
          for (int m = 0; m < MF; ++m) {
            const word(&rows)[4] = v[p == 1][j / 2];
            halves_multiply(into[m][j], a[p == 2][m], rows[j % 2 * 2], rows[j % 2 * 2 + 1]);
          }
    };
    Weights a[AHEAD ? 2 : 1];
    Rows v[AHEAD ? 2 : 1];
    if (AHEAD) {
      load(a[0], v[0], 0);
#pragma unroll 1
      for (int step = 0; step < STEPS; step += 2) {
        if (CHAIN > 0 && step % CHAIN == 0 && step > 0) add_chain();
        load(a[AHEAD], v[AHEAD], min(step + 1, STEPS - 1));
        add(a[0], v[0]);
        if (step + 1 == STEPS) break;
        load(a[0], v[0], min(step + 2, STEPS - 1));
        add(a[AHEAD], v[AHEAD]);
      }
    } else {
#pragma unroll 2
      for (int step = 0; step < STEPS; ++step) {
        if (CHAIN > 0 && step % CHAIN == 0 && step > 0) add_chain();
        load(a[0], v[0], step);
        add(a[0], v[0]);
      }
    }
    add_chain();
  };

  auto store = [&](int first) {
    const int start = first + warp_i * 8 * NI, from = start - implicit_lead(y, b, own_filter, start);
#pragma unroll
    for (int i = 0; i < MF * NI * 4 && SCALED; ++i) sum[0][0][i] = scales.undone(sum[0][0][i]);
#pragma unroll
    for (int m = 0; m < MF; ++m)
      implicit_store(sum[m], {(char*)y, bias_of, residual_of, b, own_filter + 16 * SPACING * m, from});
  };

#if @IS_STREAMED@
  auto slot = [&](int chunk) { return shared + chunk % STREAM_STAGES * STREAM_WORDS; };
#pragma unroll 1
  for (int chunk = 0; chunk < STREAM_STAGES - 1; ++chunk) stream_weights(slot(chunk), w, first_warp, chunk);
  if (SCALED) {
    word v[ALL_ROWS][8], largest = 0;
#pragma unroll
    for (int i = 0; i < ALL_ROWS; ++i) fetch(v[i], i * THREADS + thread, first, 0);
#pragma unroll
    for (int i = 0; i < ALL_ROWS * 8; ++i) largest = max(largest, v[i / 8][i % 8] & 0x7fffffff);
    if (ROWS_OF_THREAD > ALL_ROWS) largest = implicit_largest_sample((const word*)x, b, first);
    scales = implicit_scales(largest, 0, window_of(0));
#pragma unroll
    for (int i = 0; i < ALL_ROWS; ++i) put(window_of(0), v[i], i * THREADS + thread);
    stage_from(ALL_ROWS * THREADS, window_of(0), first, 0);
  } else {
    stage_from(0, window_of(0), first, 0);
  }
  stream_publish();
  rest_add(x, w, {(char*)y, bias_of, residual_of, b, F - REST, first}, first_warp);
  clear();
#pragma unroll 1
  for (int chunk = 0; chunk < STREAM_CHUNKS; ++chunk) {
    stream_await();
    __syncthreads();
    const int next = chunk + STREAM_STAGES - 1;
    stream_weights(slot(next), w, first_warp, next);  // copies zeros beyond the last chunk
    stream_multiply(sum[0], slot(chunk), window_of(0), chunk, scales);
  }
  store(first);
  return;
#endif
  if (CHUNKS == 1) {
#pragma unroll 1
    for (int part = 0; part < PARTS; ++part) {
      copy_weights(0, 0, part);
      await_weights();
      place_weights(0, 0, part);
      if (!ALONG_TAPS) __syncthreads();
    }
    stage_from(0, window_of(0), first, 0);
#pragma unroll 1
    for (int tile = 1;; ++tile) {
      __syncthreads();
      const bool more = tile < TILES && first + TILE < L + SLACK;
      if (more) fetch_held(first + TILE, 0);
      clear();
      multiply(packed_of(0), window_of(0), first);
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
      copy_weights(0, chunk, 0);
      stage_from(0, window_of(0), first, chunk);
      await_weights();
      place_weights(0, chunk, 0);
      __syncthreads();
      multiply(packed_of(0), window_of(0), first);
    }
  } else {
    copy_weights(0, 0, 0);
    stage_from(0, window_of(0), first, 0);
    await_weights();
    place_weights(0, 0, 0);
    copy_weights(1, 1, 0);
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int here = chunk % 2, next = 1 - here;
      implicit_copied();
      __syncthreads();
      const bool more = chunk + 1 < CHUNKS;
      if (chunk + 2 < CHUNKS) copy_weights(here, chunk + 2, 0);
      if (more) {
        fetch_held(first, chunk + 1);
        stage_from(HELD * THREADS, window_of(next), first, chunk + 1);
        place_weights(next, chunk + 1, 0);
      }
      multiply(packed_of(here), window_of(here), first);
      if (more) put_held(window_of(next));
    }
  }
  store(first);
}
