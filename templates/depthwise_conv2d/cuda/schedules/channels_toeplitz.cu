// Depthwise convolution on tensor cores, channels last. A word of the input holds two neighbouring channels of a
// column, and the k axis of a product takes words as they are stored: X[a, (j, e)] is channel e of the j-th column that
// tile a reaches in one input row. The other operand is T[(j, e), (o, f)], the tap of channel f that column j meets for
// output o. It is zero if e and f differ. o is one of the four outputs of a tile of TH rows by TW columns. Half of T is
// zero, but nothing has to be transposed.
//
// A block goes down a strip of ROWS output rows of WALKS images, TH rows in a step. The input rows of a step are copied
// asynchronously, STAGES - 1 steps ahead, into a ring in shared memory. A warp has CHANNELS_OF_WARP channels, whose
// taps are in registers. It adds each input row to the sums of the RING tiles that reach it; tiles above and below the
// strip are among them and are not stored. Results are stored by way of shared memory, in which the channels of many
// warps become neighbours.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@, STRIDE = @STRIDE@, DILATION = @DILATION@;
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST = @FIRST@;  // used taps: those that meet the input somewhere
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int TH = @TILE_ROWS@, TW = 4 / TH;
constexpr int CHANNELS = @CHANNELS@, CHANNELS_OF_WARP = @WARP_CHANNELS@, PAIRS = CHANNELS_OF_WARP / 2;
constexpr int VECTORS = CHANNELS / 8, GROUPS = CHANNELS / CHANNELS_OF_WARP;
constexpr int WALKS = @WALKS@, ROWS = @ROWS@, STAGES = @STAGES@, THREADS = @THREADS@;
constexpr int LINES = @LINES@;          // lines of eight output columns in each image
constexpr int FRAGMENTS = @FRAGMENTS@;  // fragments of a warp; each has 16 tiles, from 8 / TH lines
constexpr int ACROSS = (WO + 8 * LINES - 1) / (8 * LINES), STRIPS = (HO + ROWS - 1) / ROWS;
constexpr int DOWN = TH * STRIDE;                                             // input rows of a step
constexpr int REACH = (TH - 1) * STRIDE + (TAPS_H - 1) * DILATION + 1;        // input rows that a tile spans
constexpr int RING = (REACH + DOWN - 1) / DOWN;                               // tiles that meet an input row
constexpr int PARTS = ((TW - 1) * STRIDE + (TAPS_W - 1) * DILATION) / 4 + 1;  // groups of four input columns of a tile
constexpr int READ = PARTS + STRIDE;                                          // the same with the tile four columns on

// Positions in shared memory are an odd number of vectors apart. If neighbouring rows of a fragment belong to different
// lines, each line begins another 64 bytes on. So a quarter of a warp uses all banks.
constexpr int PITCH = (VECTORS | 1) * 16, SKEW = TW == 4 ? 64 : 0;
constexpr int place_of(int column, int line) { return column * PITCH + column / line * SKEW; }
constexpr int apart(int bytes, int banks) { return (bytes + 127 - banks) / 128 * 128 + banks; }
constexpr int USED = 8 * STRIDE * (LINES - 1) + STRIDE * (4 - TW) + 4 * READ;  // input columns of a walk
constexpr int FROM = ACROSS > 1 || LEFT < 0 ? 0 : LEFT < USED ? LEFT : USED;   // the first that may be inside
constexpr int TO = ACROSS > 1 || W + LEFT > USED ? USED : W + LEFT > FROM ? W + LEFT : FROM;
constexpr int INPUT_ROW = apart(place_of(USED - 1, 8 * STRIDE) + PITCH, 64), INPUT_STEP = DOWN * WALKS * INPUT_ROW;
constexpr int COLUMNS = ACROSS > 1 ? 8 * LINES : WO;  // output columns that are stored
constexpr int OUTPUT_WALK = apart(place_of(8 * LINES - 1, 8) + PITCH, 64);
constexpr int OUTPUT_ROW = apart(WALKS * OUTPUT_WALK, 128 / TH % 128), OUTPUT_STEP = TH * OUTPUT_ROW;
constexpr int OUTPUTS = HAS_RESIDUAL ? STAGES + 1 : 2;  // steps held; residuals are copied as far ahead as inputs
constexpr int WEIGHT_BYTES = CHANNELS * KERNEL * SIZE;
static_assert(C % CHANNELS == 0 && CHANNELS % 8 == 0 && 32 * GROUPS <= THREADS, "whole vectors for each warp");
static_assert((WEIGHT_BYTES + STAGES * INPUT_STEP + OUTPUTS * OUTPUT_STEP) / 4 == @WORDS@,
              "the template's estimate of shared memory");

// Copies 16 bytes to shared memory, asynchronously if the device can. The whole line of 128 bytes is fetched into the
// L2 cache, where blocks of the next channels find theirs.
__device__ __forceinline__ void toeplitz_copy(void* to, const char* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :: "r"((word)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
  *(uint4*)to = *(const uint4*)from;
#endif
}
// Copies 16 bytes of each input row of a step. bytes[i] is 16, or 0 if row i is outside; zeros are written then.
template <int I = 0>
__device__ __forceinline__ void toeplitz_copy_rows(char* to, const char* from, const int (&bytes)[DOWN]) {
  if constexpr (I < DOWN) {
    constexpr int TO_ROW = I * (WALKS * INPUT_ROW), FROM_ROW = I * (W * C * SIZE);
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0 + %2], [%1 + %3], 16, %4;"
                 :: "r"((word)__cvta_generic_to_shared(to)), "l"(from), "n"(TO_ROW), "n"(FROM_ROW), "r"(bytes[I])
                 : "memory");
#else
    *(uint4*)(to + TO_ROW) = bytes[I] ? *(const uint4*)(from + FROM_ROW) : make_uint4(0, 0, 0, 0);
#endif
    toeplitz_copy_rows<I + 1>(to, from, bytes);
  }
}
// Ends a group of copies.
__device__ __forceinline__ void toeplitz_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most GROUPS_LEFT groups of copies are in flight.
template <int GROUPS_LEFT>
__device__ __forceinline__ void toeplitz_await() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(GROUPS_LEFT) : "memory");
#endif
}

// Loads the pairs of channels of a warp at one position.
__device__ __forceinline__ void toeplitz_read(word (&v)[PAIRS], const char* from) {
  if constexpr (PAIRS == 4) {
    const uint4 four = *(const uint4*)from;
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
  } else {
    const uint2 two = *(const uint2*)from;
    v[0] = two.x, v[1] = two.y;
  }
}

__device__ __forceinline__ void toeplitz_write(char* to, const word (&v)[PAIRS]) {
  if constexpr (PAIRS == 4) *(uint4*)to = make_uint4(v[0], v[1], v[2], v[3]);
  else *(uint2*)to = make_uint2(v[0], v[1]);
}

// Returns which of `taps` taps an output meets at an input row or column, which is counted from the output's first one.
// Returns -1 if it meets none.
constexpr __device__ int toeplitz_met(int at, int taps) {
  return at >= 0 && at % DILATION == 0 && at / DILATION < taps ? at / DILATION : -1;
}

// Returns whether an input row meets a tap of any row of a tile.
constexpr bool toeplitz_meets(int row) {
  for (int i = 0; i < TH; ++i)
    if (row >= i * STRIDE && (row - i * STRIDE) % DILATION == 0 && (row - i * STRIDE) / DILATION < TAPS_H) return true;
  return false;
}

// Returns the index, among all taps of a channel, of the tap that meets this row and column of a window.
__device__ __forceinline__ int toeplitz_tap(int ky, int kx) {
  const int tap = FIRST + ky * KW + kx;
  return @FLIP@ ? KERNEL - 1 - tap : tap;
}

// The work of a block: its first channel, column, image and row, and the row after its last one.
struct toeplitz_work {
  int channel, column, image, row, last;
};

__device__ __forceinline__ toeplitz_work toeplitz_mine() {
  const int block = blockIdx.x, rest = block / (C / CHANNELS) / ACROSS;
  toeplitz_work mine;
  mine.channel = C == CHANNELS ? 0 : block % (C / CHANNELS) * CHANNELS;
  mine.column = ACROSS == 1 ? 0 : block / (C / CHANNELS) % ACROSS * (8 * LINES);
  mine.row = STRIPS == 1 ? 0 : rest % STRIPS * ROWS;
  mine.last = min(mine.row + ROWS, HO);
  mine.image = rest / STRIPS * WALKS;
  return mine;
}

// Computes all outputs of a block one by one, for tensors that are not aligned to a vector.
__device__ __forceinline__ void toeplitz_plain(const char* x, const char* w, const char* bias, const char* residual,
                                               char* y, const toeplitz_work& mine) {
  const int rows = mine.last - mine.row, columns = min(COLUMNS, WO - mine.column), images = min(WALKS, B - mine.image);
#pragma unroll 1
  for (int each = threadIdx.x; each < images * rows * columns * CHANNELS; each += THREADS) {
    const int c = mine.channel + each % CHANNELS, j = mine.column + each / CHANNELS % columns;
    const int i = mine.row + each / CHANNELS / columns % rows, b = mine.image + each / CHANNELS / columns / rows;
    const int place = ((b * HO + i) * WO + j) * C + c;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < TAPS_H * TAPS_W; ++t) {
      const int h = i * STRIDE + t / TAPS_W * DILATION - TOP, v = j * STRIDE + t % TAPS_W * DILATION - LEFT;
      if (h >= 0 && h < H && v >= 0 && v < W)
        sum = fmaf(element_load(x, ((b * H + h) * W + v) * C + c),
                   element_load(w, c * KERNEL + toeplitz_tap(t / TAPS_W, t % TAPS_W)), sum);
    }
    epilogue_finish<1>(&sum, epilogue_bias(bias, c), residual + (long long)place * SIZE);
    element_store<1>(y + (long long)place * SIZE, &sum);
  }
}

__device__ __forceinline__ void depthwise_channels_toeplitz(const void* __restrict__ x_any,
                                                            const void* __restrict__ w_any, @ADDED@
                                                            void* __restrict__ y_any, word* shared) {
  const char *const x = (const char*)x_any, *const w = (const char*)w_any;
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  char* const y = (char*)y_any;
  const toeplitz_work mine = toeplitz_mine();
  if ((((size_t)x | (size_t)w | (size_t)y | (size_t)bias_of | (size_t)residual_of) & 15) != 0) {
    toeplitz_plain(x, w, bias_of, residual_of, y, mine);
    return;
  }
  char* const weights = (char*)shared;
  char* const inputs = weights + WEIGHT_BYTES;
  char* const outputs = inputs + STAGES * INPUT_STEP;
  const int thread = threadIdx.x, left = mine.column * STRIDE - LEFT, top = mine.row * STRIDE - TOP;
  const int steps = (mine.last - mine.row + TH - 1) / TH + RING - 1;

  // The vectors of an input row that this thread copies: the offset in bytes in the tensor, from the row of image 0,
  // and in shared memory; the latter is -1 if there is no such vector.
  constexpr int WIDE = TO > FROM ? TO - FROM : 1, FETCHED = (WALKS * WIDE * VECTORS + THREADS - 1) / THREADS;
  word input_at[FETCHED];
  int input_to[FETCHED];
#pragma unroll
  for (int k = 0; k < FETCHED; ++k) {
    const int v = k * THREADS + thread, column = FROM + v / VECTORS % WIDE, walk = v / VECTORS / WIDE;
    const bool any = TO > FROM && walk < WALKS && (ACROSS == 1 || (word)(left + column) < (word)W);
    const int place = (min(mine.image + walk, B - 1) * (H * W) + left + column) * C + mine.channel + v % VECTORS * 8;
    input_at[k] = (word)place * SIZE;
    input_to[k] = any ? walk * INPUT_ROW + place_of(column, 8 * STRIDE) + v % VECTORS * 16 : -1;
  }
  // The same for an output row.
  constexpr int STORED = (WALKS * COLUMNS * VECTORS + THREADS - 1) / THREADS;
  word output_at[STORED];
  int output_from[STORED];
#pragma unroll
  for (int k = 0; k < STORED; ++k) {
    const int v = k * THREADS + thread, column = v / VECTORS % COLUMNS, walk = v / VECTORS / COLUMNS;
    const bool any = walk < min(WALKS, B - mine.image) && (ACROSS == 1 || mine.column + column < WO);
    const int place = ((mine.image + walk) * (HO * WO) + mine.column + column) * C + mine.channel + v % VECTORS * 8;
    output_at[k] = (word)place * SIZE;
    output_from[k] = any ? walk * OUTPUT_WALK + place_of(column, 8) + v % VECTORS * 16 : -1;
  }

  // Calls use(place in shared memory, place in the tensor) for each vector of a tile's outputs that this thread copies.
  auto each_output = [&](int tile, char* step, auto tensor, auto use) {
    const auto first = tensor + (long long)(mine.row + tile * TH) * (WO * C * SIZE);
#pragma unroll
    for (int k = 0; k < STORED; ++k) {
      if (output_from[k] < 0) continue;
      const auto at = first + output_at[k];
#pragma unroll
      for (int i = 0; i < TH; ++i)
        if (mine.row + tile * TH + i < mine.last) use(step + i * OUTPUT_ROW + output_from[k], at + i * (WO * C * SIZE));
    }
  };
  // Starts to copy the input rows of a step, and its residuals. Calls must be for consecutive steps.
  const char* upcoming = x + (long long)top * (W * C * SIZE);
  auto fetch = [&](int step, char* to) {
    int bytes[DOWN];
#pragma unroll
    for (int i = 0; i < DOWN; ++i) bytes[i] = (word)(top + step * DOWN + i) < (word)H ? 16 : 0;
#pragma unroll
    for (int k = 0; k < FETCHED; ++k)
      if (input_to[k] >= 0) toeplitz_copy_rows(to + input_to[k], upcoming + input_at[k], bytes);
    upcoming += DOWN * W * C * SIZE;
    if (HAS_RESIDUAL && step >= RING - 1)
      each_output(step - (RING - 1), outputs + step % OUTPUTS * OUTPUT_STEP, residual_of,
                  [&](char* place, const char* at) { toeplitz_copy(place, at); });
  };

  // Stores the tile that a step has finished.
  auto leave = [&](int step) {
    each_output(step - (RING - 1), outputs + step % OUTPUTS * OUTPUT_STEP, y, [&](char* place, char* at) {
      const uint4 v = *(const uint4*)place;
      const word packed[4] = {v.x, v.y, v.z, v.w};
      element_put<16>(at, packed);
    });
  };

  for (int i = thread; i < WEIGHT_BYTES / 16; i += THREADS)
    toeplitz_copy(weights + 16 * i, w + (long long)mine.channel * (KERNEL * SIZE) + 16 * i);
  toeplitz_commit();
#pragma unroll 1
  for (int step = 0; step < STAGES - 1; ++step) {
    if (step < steps) fetch(step, inputs + step * INPUT_STEP);
    toeplitz_commit();
  }
  // Clear the columns outside the plane. They stay zero, because no input is copied there.
  constexpr int BESIDE = ACROSS > 1 ? USED : USED - (TO - FROM);
  if constexpr (BESIDE > 0)
#pragma unroll 1
    for (int v = thread; v < STAGES * DOWN * WALKS * BESIDE * VECTORS; v += THREADS) {
      const int beside = v / VECTORS % BESIDE, row = v / VECTORS / BESIDE;
      const int column = ACROSS > 1 || beside < FROM ? beside : beside + (TO - FROM);
      if (ACROSS == 1 || (word)(left + column) >= (word)W)
        *(uint4*)(inputs + row * INPUT_ROW + place_of(column, 8 * STRIDE) + v % VECTORS * 16) = make_uint4(0, 0, 0, 0);
    }

  // Where this lane's rows of the fragments lie, as operands and as results, and its taps.
  const int lane = thread % 32, g = lane / 4, q = lane % 4, warp = thread / 32;
  const int first = warp % GROUPS * CHANNELS_OF_WARP;
  const int first_line = warp / GROUPS * FRAGMENTS * (8 / TH) + g / TH;
  int operand[FRAGMENTS], result[FRAGMENTS];
  bool any[FRAGMENTS];
#pragma unroll
  for (int t = 0; t < FRAGMENTS; ++t) {
    any[t] = first_line + t * (8 / TH) < WALKS * LINES;
    const int line = any[t] ? first_line + t * (8 / TH) : WALKS * LINES - 1;
    const int walk = line / LINES, column = line % LINES * 8 + g % TH * TW;
    operand[t] = walk * INPUT_ROW + place_of(column * STRIDE + q, 8 * STRIDE) + first * SIZE;
    result[t] = q / TW * OUTPUT_ROW + walk * OUTPUT_WALK + place_of(column + q % TW, 8) + first * SIZE;
  }
  word biases[PAIRS];
  if (HAS_BIAS)
    element_fetch<CHANNELS_OF_WARP * SIZE>(biases, bias_of + (mine.channel + first) * SIZE, true);
  toeplitz_await<STAGES - 1>();
  __syncthreads();
  word taps[REACH][PARTS][PAIRS];
#pragma unroll
  for (int row = 0; row < REACH; ++row)
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
      if (toeplitz_meets(row)) {
        const int ky = toeplitz_met(row - g / 2 / TW * STRIDE, TAPS_H);
        const int kx = toeplitz_met(4 * part + q - g / 2 % TW * STRIDE, TAPS_W);
        const bool is_tap = ky >= 0 && kx >= 0;
        const int at = (first + g % 2) * KERNEL + (is_tap ? toeplitz_tap(ky, kx) : 0);
        const word scale = !is_tap ? 0 : g % 2 ? 1 << 16 : 1;  // moves the tap to a half of the word, or makes it 0
#pragma unroll
        for (int pair = 0; pair < PAIRS; ++pair)
          taps[row][part][pair] = ((const unsigned short*)weights)[at + pair * (2 * KERNEL)] * scale;
      }

  // 0, which the compiler does not know: otherwise it would move an operand again for each product.
  const word none = blockIdx.y;
  float sums[RING][FRAGMENTS][PAIRS][4] = {};
  char *from = inputs, *before = inputs + (STAGES - 1) * INPUT_STEP;  // input rows of this step and the last
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += RING)
#pragma unroll
    for (int turn = 0; turn < RING; ++turn) {
      const int step = begin + turn;
      if (step >= steps) break;
      toeplitz_await<STAGES - 2>();
      __syncthreads();
      if (step + STAGES - 1 < steps) fetch(step + STAGES - 1, before);
      toeplitz_commit();

#pragma unroll
      for (int k = 0; k < FRAGMENTS * PAIRS * 4; ++k) sums[turn][k / 4 / PAIRS][k / 4 % PAIRS][k % 4] = 0.0f;
      if (top + step * DOWN > -DOWN && top + step * DOWN < H)  // some row is in the plane
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
          word a[FRAGMENTS][READ][PAIRS];
#pragma unroll
          for (int t = 0; t < FRAGMENTS; ++t)
#pragma unroll
            for (int part = 0; part < READ; ++part)
              toeplitz_read(a[t][part], from + i * (WALKS * INPUT_ROW) + operand[t] + place_of(4 * part, 8 * STRIDE));
          // An operand is arranged once and then multiplied for all tiles, so tiles are the innermost loop.
#pragma unroll
          for (int part = 0; part < PARTS; part += 2)
#pragma unroll
            for (int t = 0; t < FRAGMENTS; ++t)
#pragma unroll
              for (int pair = 0; pair < PAIRS; ++pair) {
                const int next = part + 1 < PARTS ? part + 1 : part;
                word all[4] = {a[t][part][pair], a[t][part + STRIDE][pair],  //
                               a[t][next][pair], a[t][next + STRIDE][pair]};
#pragma unroll
                for (int k = 0; k < 4; ++k) all[k] |= none;
#pragma unroll
                for (int behind = 0; behind < RING; ++behind) {
                  const int row = i + behind * DOWN;
                  if (row < REACH && toeplitz_meets(row)) {
                    float(&sum)[4] = sums[(turn - behind + RING) % RING][t][pair];
                    if (part + 1 < PARTS) halves_multiply(sum, all, taps[row][part][pair], taps[row][next][pair]);
                    else halves_multiply_half(sum, all[0], all[1], taps[row][part][pair]);
                  }
                }
              }
        }

      if (step >= RING) leave(step - 1);  // while the products are in flight
      if (step >= RING - 1) {
        char* const to = outputs + step % OUTPUTS * OUTPUT_STEP;
#pragma unroll
        for (int t = 0; t < FRAGMENTS; ++t)
          if (any[t])
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              char* const place = to + result[t] + half * (4 * PITCH);
              word packed[PAIRS], added[PAIRS];
              if (HAS_RESIDUAL) toeplitz_read(added, place);
#pragma unroll
              for (int pair = 0; pair < PAIRS; ++pair) {
                float v[2];
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                  v[e] = sums[(turn + 1) % RING][t][pair][2 * half + e];
                  if (HAS_BIAS) v[e] += element_at(&biases[pair], e);
                  if (HAS_RESIDUAL) v[e] += element_at(&added[pair], e);
                }
                packed[pair] = epilogue_pack(v[0], v[1]);
              }
              toeplitz_write(place, packed);
            }
      }
      before = from;
      from = from == inputs + (STAGES - 1) * INPUT_STEP ? inputs : from + INPUT_STEP;
    }
  __syncthreads();
  leave(steps - 1);
}
