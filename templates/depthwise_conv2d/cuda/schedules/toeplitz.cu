// Depthwise convolution of planes on tensor cores, a matrix product for each row of taps:
//
//   y[b, c, i, j] = sum over dy of (sum over v of x[b, c, S i + dy, v] T[v, j])
//
// T is the Toeplitz matrix T[v, j] = w[dy, v - S j], and v runs only over columns inside the plane.
//
// A fragment of 16 rows has FRAGMENT_ROWS output rows of each of 16 / FRAGMENT_ROWS images. ldmatrix takes an address
// for each row, so rows are read from where they were staged, and all rows outside the plane are the same row of zeros.
// Columns come in chunks of eight, two for each step of the tensor cores. A chunk of T depends only on its distance q
// from the tile's first column. So a row of taps has few distinct chunks, which stay in registers for all tiles and
// fragments.
//
// For float32 accuracy x and w are split into a high and a low half, and three products are summed in float32.
constexpr int WARPS = @WARPS@, FRAGMENT_ROWS = @FRAGMENT_ROWS@, GROUPS = @GROUPS_PER_WARP@, IMAGE_GROUPS = @IMAGE_GROUPS@;
constexpr int TILES = @COLUMN_TILES@, PRODUCTS = @PRODUCTS@, TAP_ROWS_PER_SUM = @TAP_ROWS_PER_SUM@;
constexpr bool HALVED = @HALVED@;    // a step with one chunk of zeros is half a step
constexpr bool SLIDING = @SLIDING@;  // a warp's groups are neighbouring rows, between which taps slide
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, K = @K@, S = @STRIDE@, HO = (H - 1) / S + 1, WO = (W - 1) / S + 1;

#if @IS_HALF@
typedef unsigned short element;
#else
typedef word element;  // a float's bits
#endif
constexpr bool SCALED = !@IS_HALF@ && !@IS_BF16@;
constexpr int THREADS = 32 * WARPS;
constexpr int IMAGES_OF_GROUP = 16 / FRAGMENT_ROWS, IMAGES = IMAGES_OF_GROUP * IMAGE_GROUPS;
constexpr int STRIP = FRAGMENT_ROWS * WARPS * GROUPS / IMAGE_GROUPS;  // output rows of a block
constexpr int DOWN = (HO + STRIP - 1) / STRIP, ACROSS = (WO + 8 * TILES - 1) / (8 * TILES);

// Chunks of input columns, from chunk ORIGIN on, counted from the block's first column; and the distances at which T is
// not all zero.
constexpr bool FLIP = @FLIP@;
constexpr int PAD = K / 2, REACH = PAD < H ? PAD : H - 1;
constexpr int Q_LOW = -((PAD + 7) / 8), Q_HIGH = (PAD + 7 * S) / 8;
constexpr int ORIGIN = ACROSS == 1 ? 0 : Q_LOW;
constexpr int USED_CHUNKS = ACROSS == 1 ? (W + 7) / 8 : S * (TILES - 1) + Q_HIGH - Q_LOW + 1;
constexpr int CHUNKS = HALVED ? USED_CHUNKS : (USED_CHUNKS + 1) / 2 * 2, STEPS = (CHUNKS + 1) / 2;
constexpr int Q_FIRST = Q_LOW > ORIGIN - S * (TILES - 1) ? Q_LOW : ORIGIN - S * (TILES - 1);
constexpr int Q_LAST = Q_HIGH < ORIGIN + USED_CHUNKS - 1 ? Q_HIGH : ORIGIN + USED_CHUNKS - 1;
constexpr int DISTANCES = Q_LAST - Q_FIRST + 1;

// Input rows of a block. A chunk is staged as its high halves followed by its low ones. Until their scale is known, its
// eight floats are in the same place or, if a thread has few, in registers. Eight rows of a fragment are 16 bytes apart
// modulo the 128 bytes of all banks.
constexpr int HALVES = PRODUCTS == 3 ? 2 : 1, CHUNK_BYTES = SCALED || HALVES == 2 ? 32 : 16;
constexpr int NEEDED_ROWS = S * (STRIP - 1) + 2 * REACH + 1, ROWS = NEEDED_ROWS < H ? NEEDED_ROWS : H;
constexpr int SLOTS = (ROWS + S - 1) / S * S;  // with stride 2 the even rows come first, then the odd ones
constexpr int PITCH = (CHUNKS * CHUNK_BYTES / 16 | 1) * 16;
constexpr int SKEW = FRAGMENT_ROWS < 8 ? 16 * FRAGMENT_ROWS : 0;  // bytes from an image to the next, modulo 128
constexpr int IMAGE_PITCH = SKEW == 0 ? SLOTS * PITCH : (SLOTS * PITCH + 127 - SKEW) / 128 * 128 + SKEW;
constexpr int ZEROS = PITCH + 112;  // a row of zeros, from any bank on
constexpr int UNITS = IMAGES * ROWS * CHUNKS;

// A row of taps has zeros on both sides. Pairs that begin at an odd place are read from a second copy, which is shifted
// by one element.
constexpr int COPIES = S == 1 ? 2 : 1, FIRST_TAP = 8 * Q_FIRST - 7 * S + PAD;
constexpr int TAP_WORDS = 4 * (DISTANCES - 1) + (6 + 7 * S) / 2 + 1;
constexpr int TAP_PITCH = TAP_WORDS % 32 < 8 ? TAP_WORDS / 32 * 32 + 8    // the copies lie in different banks
                        : TAP_WORDS % 32 > 24 ? TAP_WORDS / 32 * 32 + 40 : TAP_WORDS;
constexpr int TAP_ROW = HALVES * COPIES * TAP_PITCH;
static_assert((IMAGES * IMAGE_PITCH + ZEROS) / 4 + (2 * REACH + 1) * TAP_ROW + 2 == @WORDS@,
              "the template's estimate of shared memory");

constexpr int QUADS = sizeof(element) / 2;  // groups of four words in a chunk as it is loaded
// Chunks that a thread stages, and taps of which it finds the largest. HELD: the chunks wait for their scale in
// registers. With 31 by 31 taps and 448 threads they have 35 words, and two blocks of 72 registers stay resident.
constexpr int OWN_UNITS = (UNITS + THREADS - 1) / THREADS, OWN_TAPS = (K * K + THREADS - 1) / THREADS;
constexpr bool HELD = SCALED && OWN_UNITS * 4 * QUADS + OWN_TAPS <= 40;

// Elements of a load: as many as divide a row, up to 16 bytes.
constexpr int PIECE = W % 8 == 0 && sizeof(element) == 2 ? 8 : W % 4 == 0 ? 4 : W % 2 == 0 ? 2 : 1;

// Loads a chunk of a row from a column on, zeros outside the plane. 16-bit elements come two to a word.
__device__ __forceinline__ void conv2d_fetch(word (&v)[4 * QUADS], const element* row, int column,
                                             bool inside, bool aligned) {
  constexpr int BYTES = PIECE * sizeof(element);
#pragma unroll
  for (int i = 0; i < 4 * QUADS; ++i) v[i] = 0;
  if (BYTES >= 4 && aligned) {
#pragma unroll
    for (int i = 0; i < 8; i += PIECE)
      if (inside && (word)(column + i) < W) element_read<BYTES>(v + i * sizeof(element) / 4, (const char*)(row + column + i));
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (inside && (word)(column + i) < W)
        v[i * sizeof(element) / 4] |= (word)row[column + i] << (sizeof(element) == 2 ? i % 2 * 16 : 0);
  }
}

// Returns where a chunk of the input lies in shared memory.
__device__ __forceinline__ char* conv2d_place(char* staged, int image, int row, int chunk) {
  const int slot = S == 2 ? row % 2 * (SLOTS / 2) + row / 2 : row;
  return staged + image * IMAGE_PITCH + slot * PITCH + chunk * CHUNK_BYTES;
}

__device__ __forceinline__ void conv2d_store_halves(char* place, const word (&v)[4 * QUADS], float scale) {
#if @IS_HALF@
  *(uint4*)place = make_uint4(v[0], v[1], v[2], v[3]);
#else
  word high[4], low[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    halves_split(__uint_as_float(v[2 * i]) * scale, __uint_as_float(v[2 * i + 1]) * scale, high[i], low[i]);
  *(uint4*)place = make_uint4(high[0], high[1], high[2], high[3]);
  if (HALVES == 2) *(uint4*)(place + 16) = make_uint4(low[0], low[1], low[2], low[3]);
#endif
}

__device__ __forceinline__ void depthwise_toeplitz(const void* __restrict__ x_any,
                                                   const void* __restrict__ w_any, @ADDED@
                                                   void* __restrict__ y_any, word* shared) {
  const element* const x = (const element*)x_any;
  element* const y = (element*)y_any;
  const char* const residual_of = (const char*)@RESIDUAL@;
  char* const staged = (char*)shared;
  char* const zeros = staged + IMAGES * IMAGE_PITCH;
  word* const taps = (word*)(zeros + ZEROS);
  word* const largest = taps + (2 * REACH + 1) * TAP_ROW;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int j_first = blockIdx.x % ACROSS * (8 * TILES);
  const int i_first = blockIdx.x / ACROSS % DOWN * STRIP;
  const int c = blockIdx.x / (ACROSS * DOWN) % C, b_first = blockIdx.x / (ACROSS * DOWN) / C * IMAGES;
  const int u_first = max(0, S * i_first - REACH);
  const element* const w = (const element*)w_any + c * (K * K);
  const float bias_of = epilogue_bias(@BIAS@, c);

  // Stage the input. If it is scaled, the same thread splits it once the largest is known.
  for (int i = thread; i < ZEROS / 4; i += THREADS) ((word*)zeros)[i] = 0;
  if (thread < 2) largest[thread] = 0;
  word largest_x = 0, largest_w = 0, held[HELD ? OWN_UNITS : 1][4 * QUADS], held_taps[HELD ? OWN_TAPS : 1];
  const bool aligned = ((size_t)x & (PIECE * sizeof(element) - 1)) == 0;
  auto fetch = [&](word (&v)[4 * QUADS], int unit) {
    const int chunk = unit % CHUNKS, row = unit / CHUNKS % ROWS, image = unit / (CHUNKS * ROWS);
    const int b = min(b_first + image, B - 1), u = u_first + row;
    conv2d_fetch(v, x + (size_t)(b * C + c) * (H * W) + (size_t)u * W, S * j_first + 8 * (ORIGIN + chunk),
                 unit < UNITS && b_first + image < B && u < H, aligned);
  };
  auto place_of = [&](int unit) {
    return conv2d_place(staged, unit / (CHUNKS * ROWS), unit / CHUNKS % ROWS, unit % CHUNKS);
  };
  auto compare = [&](const word (&v)[4 * QUADS]) {
#pragma unroll
    for (int i = 0; i < 4 * QUADS; ++i) largest_x = max(largest_x, v[i] & 0x7fffffff);
  };
  if constexpr (HELD) {
#pragma unroll
    for (int k = 0; k < OWN_TAPS; ++k) held_taps[k] = thread + k * THREADS < K * K ? w[thread + k * THREADS] : 0;
#pragma unroll
    for (int k = 0; k < OWN_UNITS; ++k) fetch(held[k], thread + k * THREADS);
  } else {
#pragma unroll 2
    for (int unit = thread; unit < UNITS; unit += THREADS) {
      word v[4 * QUADS];
      fetch(v, unit);
      if constexpr (SCALED) {
        compare(v);
#pragma unroll
        for (int i = 0; i < QUADS; ++i)
          ((uint4*)place_of(unit))[i] = make_uint4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
      } else {
        conv2d_store_halves(place_of(unit), v, 1.0f);
      }
    }
  }
  float scale_w = 1.0f, undo_x = 1.0f, undo_w = 1.0f;
  if constexpr (SCALED) {
    if constexpr (HELD) {
#pragma unroll
      for (int k = 0; k < OWN_TAPS; ++k) largest_w = max(largest_w, held_taps[k] & 0x7fffffff);
#pragma unroll
      for (int k = 0; k < OWN_UNITS; ++k) compare(held[k]);
    } else {
      for (int tap = thread; tap < K * K; tap += THREADS) largest_w = max(largest_w, w[tap] & 0x7fffffff);
    }
    largest_x = halves_warp_max(largest_x), largest_w = halves_warp_max(largest_w);
    __syncthreads();
    if (lane == 0) atomicMax(largest, largest_x), atomicMax(largest + 1, largest_w);
    __syncthreads();
    const int ex = halves_exponent(largest[0]), ew = halves_exponent(largest[1]);
    undo_x = halves_power(-ex), undo_w = halves_power(-ew);  // applied one by one, because their product may underflow
    scale_w = halves_power(ew);
    if constexpr (HELD) {
#pragma unroll
      for (int k = 0; k < OWN_UNITS; ++k)
        if (thread + k * THREADS < UNITS)
          conv2d_store_halves(place_of(thread + k * THREADS), held[k], halves_power(ex));
    } else {
      for (int unit = thread; unit < UNITS; unit += THREADS) {
        char* const place = place_of(unit);
        word v[4 * QUADS];
#pragma unroll
        for (int i = 0; i < QUADS; ++i) element_read<16>(v + 4 * i, place + 16 * i);
        conv2d_store_halves(place, v, halves_power(ex));
      }
    }
  }
  for (int unit = thread; unit < (2 * REACH + 1) * COPIES * TAP_WORDS; unit += THREADS) {
    const int place = unit % TAP_WORDS, copy = unit / TAP_WORDS % COPIES, row = unit / (TAP_WORDS * COPIES);
    const int kx = FIRST_TAP + 2 * place + copy;
    const int tap = (row + PAD - REACH) * K + kx;
    const element* const source = w + (FLIP ? K * K - 1 - tap : tap);
    const element a = (word)kx < K ? source[0] : 0, b = (word)(kx + 1) < K ? source[FLIP ? -1 : 1] : 0;
    word* const high = taps + row * TAP_ROW + copy * TAP_PITCH + place;
#if @IS_HALF@
    *high = a | (word)b << 16;
#else
    word low;
    halves_split(__uint_as_float(a) * scale_w, __uint_as_float(b) * scale_w, *high, low);
    if (HALVES == 2) high[COPIES * TAP_PITCH] = low;
#endif
  }
  __syncthreads();

  // The output rows of this warp's groups, and where this lane's row of each group lies.
  const int i_low = i_first + warp * GROUPS / IMAGE_GROUPS * FRAGMENT_ROWS;
  const int i_high = i_first + ((warp * GROUPS + GROUPS - 1) / IMAGE_GROUPS + 1) * FRAGMENT_ROWS - 1;
  if (i_low >= HO) return;
  // The rows of taps that meet the plane; with SLIDING the input rows instead, counted from those of the first group.
  const int from = max(-REACH, SLIDING ? -i_low : -S * min(i_high, HO - 1));
  const int to = min(REACH + (SLIDING ? GROUPS - 1 : 0), H - 1 - S * i_low) + 1;
  const word second = lane / 16 * CHUNK_BYTES;
  const word zero_row = (word)__cvta_generic_to_shared(zeros) + second;
  word image_rows[GROUPS];
  int centre[GROUPS];
#pragma unroll
  for (int g = 0; g < GROUPS; ++g) {
    const int group = warp * GROUPS + g;
    const int image = group % IMAGE_GROUPS * IMAGES_OF_GROUP + lane % 16 / FRAGMENT_ROWS;
    image_rows[g] = (word)__cvta_generic_to_shared(staged) + image * IMAGE_PITCH + second;
    centre[g] = S * (i_first + group / IMAGE_GROUPS * FRAGMENT_ROWS + lane % FRAGMENT_ROWS) - u_first;
  }
  // This lane's pair of rows in its column of T, and where that pair lies among the taps at distance Q_FIRST.
  const int pair = 7 * S + lane % 4 * 2 - S * (lane / 4);
  const word* const column = taps + (pair % 2) * TAP_PITCH + pair / 2;

  auto load_taps = [&](word (&t)[HALVES][DISTANCES], int dy) {
#pragma unroll
    for (int half = 0; half < HALVES; ++half)
#pragma unroll
      for (int q = 0; q < DISTANCES; ++q)
        t[half][q] = !SLIDING || (word)(dy + REACH) <= 2 * REACH
                         ? column[(dy + REACH) * TAP_ROW + half * COPIES * TAP_PITCH + 4 * q] : 0;
  };
  auto load_fragment = [&](word (&a)[4], word row, int step, int half) {
    const word address = row + 2 * CHUNK_BYTES * step + 16 * half;
    if (2 * step + 1 < CHUNKS) halves_rows(a, address);
    else halves_half_rows(a, address);
  };
  auto multiply = [&](float (&sum)[TILES][4], const word (&a)[4], const word (&t)[DISTANCES], int step) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      const int q = ORIGIN + 2 * step - S * tile - Q_FIRST;
      const bool low = q >= 0 && q < DISTANCES;
      const bool high = q + 1 >= 0 && q + 1 < DISTANCES && 2 * step + 1 < CHUNKS;
      const word b0 = low ? t[low ? q : 0] : 0, b1 = high ? t[high ? q + 1 : 0] : 0;
      if ((low && high) || (!HALVED && (low || high))) halves_multiply(sum[tile], a, b0, b1);
      else if (low) halves_multiply_half(sum[tile], a[0], a[1], b0);
      else if (high) halves_multiply_half(sum[tile], a[2], a[3], b1);
    }
  };
  // Adds rows of taps. Each is loaded once and multiplied with the fragments of all groups.
  auto add_tap_rows = [&](float (&sum)[GROUPS][TILES][4], int begin, int end) {
#pragma unroll 1
    for (int dy = begin; dy < end; ++dy) {
      word t[HALVES][DISTANCES], rows[GROUPS];
      load_taps(t, dy);
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) {
        const int row = centre[g] + dy, slot = S == 2 ? (row & 1) * (SLOTS / 2) + (row >> 1) : row;
        const word address = image_rows[g] + slot * PITCH;
        rows[g] = (word)row < ROWS ? address : zero_row + ((address - zero_row) & 112);
      }
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        word a[HALVES][GROUPS][4];
#pragma unroll
        for (int i = 0; i < HALVES * GROUPS; ++i)
          load_fragment(a[i / GROUPS][i % GROUPS], rows[i % GROUPS], step, i / GROUPS);
#pragma unroll
        for (int product = 0; product < PRODUCTS; ++product)
#pragma unroll
          for (int g = 0; g < GROUPS; ++g) multiply(sum[g], a[product == 2][g], t[product == 1], step);
      }
    }
  };
  // Adds input rows. Each is loaded once and multiplied with the rows of taps of all groups, which slide through
  // registers.
  auto add_input_rows = [&](float (&sum)[GROUPS][TILES][4], int begin, int end) {
    word t[GROUPS][HALVES][DISTANCES];
#pragma unroll
    for (int g = 1; g < GROUPS; ++g) load_taps(t[GROUPS - g], begin - g);
#pragma unroll 1
    for (int first = begin; first < end; first += GROUPS)
#pragma unroll
      for (int fresh = 0; fresh < GROUPS; ++fresh)
        if (first + fresh < end) {
          load_taps(t[fresh], first + fresh);
#pragma unroll
          for (int step = 0; step < STEPS; ++step) {
            word a[HALVES][4];
#pragma unroll
            for (int half = 0; half < HALVES; ++half)
              load_fragment(a[half], image_rows[0] + (centre[0] + first + fresh) * PITCH, step, half);
#pragma unroll
            for (int product = 0; product < PRODUCTS; ++product)
#pragma unroll
              for (int g = 0; g < GROUPS; ++g)
                multiply(sum[g], a[product == 2], t[(fresh + GROUPS - g) % GROUPS][product == 1], step);
          }
        }
  };
  auto add = [&](float (&sum)[GROUPS][TILES][4], int begin, int end) {
    if constexpr (SLIDING) add_input_rows(sum, begin, end);
    else add_tap_rows(sum, begin, end);
  };

  float total[GROUPS][TILES][4];
#pragma unroll
  for (int i = 0; i < GROUPS * TILES * 4; ++i) total[i / 4 / TILES][i / 4 % TILES][i % 4] = 0.0f;
  if constexpr (TAP_ROWS_PER_SUM > 2 * REACH) {
    add(total, from, to);
  } else {
    // The tensor cores truncate when they add, so sums are short and are then added with rounding.
#pragma unroll 1
    for (int begin = from; begin < to; begin += TAP_ROWS_PER_SUM) {
      float sum[GROUPS][TILES][4];
#pragma unroll
      for (int i = 0; i < GROUPS * TILES * 4; ++i) sum[i / 4 / TILES][i / 4 % TILES][i % 4] = 0.0f;
      add(sum, begin, min(begin + TAP_ROWS_PER_SUM, to));
#pragma unroll
      for (int i = 0; i < GROUPS * TILES * 4; ++i)
        total[i / 4 / TILES][i / 4 % TILES][i % 4] += sum[i / 4 / TILES][i / 4 % TILES][i % 4];
    }
  }

  if (HAS_EPILOGUE) {
    float* const sum = total[0][0];
#pragma unroll
    for (int i = 0; i < GROUPS * TILES * 4; ++i) sum[i] = sum[i] * undo_x * undo_w;
    undo_x = undo_w = 1.0f;  // the scales are undone
    epilogue_finish_runs<2, 2 * GROUPS * TILES>(sum, bias_of, residual_of, [&](int run) -> epilogue_run {
      const int group = warp * GROUPS + run / 2 / TILES, row = lane / 4 + run % 2 * 8;
      const int b = b_first + group % IMAGE_GROUPS * IMAGES_OF_GROUP + row / FRAGMENT_ROWS;
      const int i = i_first + group / IMAGE_GROUPS * FRAGMENT_ROWS + row % FRAGMENT_ROWS;
      const int j = j_first + run / 2 % TILES * 8 + lane % 4 * 2;
      return {((long long)(b * C + c) * HO + i) * WO + j, b < B && i < HO ? WO - j : 0};
    });
  }

  const bool paired = WO % 2 == 0 && ((size_t)y & (2 * sizeof(element) - 1)) == 0;
#pragma unroll
  for (int g = 0; g < GROUPS; ++g)
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int group = warp * GROUPS + g, row = lane / 4 + 8 * part;
      const int b = b_first + group % IMAGE_GROUPS * IMAGES_OF_GROUP + row / FRAGMENT_ROWS;
      const int i = i_first + group / IMAGE_GROUPS * FRAGMENT_ROWS + row % FRAGMENT_ROWS;
      if (b >= B || i >= HO) continue;
      const int j = j_first + lane % 4 * 2;
      element* const to_row = y + (size_t)(b * C + c) * (HO * WO) + (size_t)i * WO + j;
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const float u = total[g][tile][2 * part] * undo_x * undo_w;
        const float v = total[g][tile][2 * part + 1] * undo_x * undo_w;
#if @IS_HALF@
        if (paired && j + 8 * tile < WO) *(word*)(to_row + 8 * tile) = halves_pack(u, v);
        if (!paired && j + 8 * tile < WO) to_row[8 * tile] = halves_narrow(u);
        if (!paired && j + 8 * tile + 1 < WO) to_row[8 * tile + 1] = halves_narrow(v);
#else
        if (paired && j + 8 * tile < WO) *(float2*)(to_row + 8 * tile) = make_float2(u, v);
        if (!paired && j + 8 * tile < WO) to_row[8 * tile] = __float_as_uint(u);
        if (!paired && j + 8 * tile + 1 < WO) to_row[8 * tile + 1] = __float_as_uint(v);
#endif
      }
    }
}
