// Depthwise convolution on sparse tensor cores, channels last. A word of the input holds two neighbouring channels of a
// column. The first operand of a product has a row for each channel f of such a pair and each output o of a tile of TH
// rows by TW columns. The second operand has a column for each of eight tiles. The k axis takes words as they are
// stored: eight columns of two input rows. A row of the first operand needs only one channel of each word. So two of
// four factors are zero, which a sparse tensor core leaves out. The rest of the first operand is a Toeplitz matrix of
// the taps, which stays in registers.
//
// A block has PAIRS pairs of channels of a strip of ROWS output rows of WALKS images. In shared memory the words of
// each pair are planes, with zeros around them. One warp alone sums EACH pairs: it stores an output where the first
// element that the output meets was, because no later output needs that element. STACK tiles below each other share the
// input that is read.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@;
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST = @FIRST@;  // used taps: those that meet the input somewhere
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int TH = @TILE_ROWS@, TW = 8 / TH, STACK = @STACK@, STEP = STACK * TH;
constexpr int PAIRS = @CHANNELS@ / 2, EACH = @EACH@, WALKS = @WALKS@, ROWS = @ROWS@;
constexpr int WARPS = PAIRS / EACH, THREADS = 32 * WARPS;
constexpr int STRIPS = (HO + ROWS - 1) / ROWS, PARTS = (ROWS + STEP - 1) / STEP;
constexpr int ACROSS = (TW + TAPS_W + 6) / 8;    // groups of eight input columns that a tile meets
constexpr int DOWN = (TH + TAPS_H) / 2;          // pairs of input rows that a tile meets
constexpr int TILES = (WO + TW - 1) / TW;        // tiles of a row
constexpr int LINES = WALKS * TILES;             // stacks of tiles of a part
constexpr int DEEP = (PARTS * STACK - 1) * TH + 2 * DOWN;       // input rows in shared memory
constexpr int PITCH = @PITCH@, WALK = @WALK@, PLANE = @PLANE@;  // words from a row, an image, a pair to the next
static_assert(THREADS == @THREADS@ && PAIRS % EACH == 0 && PAIRS % 4 == 0 && C % (2 * PAIRS) == 0, "whole vectors");
static_assert(PITCH >= (TILES - 1) * TW + 8 * ACROSS && WALK >= DEEP * PITCH && PLANE >= WALKS * WALK,
              "the template's layout");
static_assert(TW % 2 == 0 && PITCH % 2 == 0 && WALK % 2 == 0 && PLANE % 2 == 0, "pairs of words");

// Multiplies one product into the sums. Rows 0 to 7 of the first operand meet the even channels, rows 8 to 15 the odd
// ones.
__device__ __forceinline__ void sparse_multiply(float (&c)[4], const word (&a)[4], const word (&b)[4]) {
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.@TYPE@.@TYPE@.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(0xdddd8888u));
}

// Calls `use` for each part from PART on. The number of the part is a compile-time constant.
template <int PART>
struct sparse_part {
  static constexpr int value = PART;
};
template <int PART, typename Use>
__device__ __forceinline__ void sparse_parts(Use use) {
  if constexpr (PART < PARTS) use(sparse_part<PART>()), sparse_parts<PART + 1>(use);
}

// The work of a block: its first channel, image and output row.
struct sparse_work {
  int channel, image, row;
};

__device__ __forceinline__ sparse_work sparse_mine() {
  const int block = blockIdx.x, rest = block / (C / (2 * PAIRS));
  return {block % (C / (2 * PAIRS)) * (2 * PAIRS), rest / STRIPS * WALKS, rest % STRIPS * ROWS};
}

// Returns the index, among all taps of a channel, of the tap that meets element t of a window.
__device__ __forceinline__ int sparse_tap(int t) {
  const int tap = FIRST + t / TAPS_W * KW + t % TAPS_W;
  return @FLIP@ ? KERNEL - 1 - tap : tap;
}

// Computes all outputs of a block one by one, for tensors that are not aligned to a vector.
__device__ __forceinline__ void sparse_plain(const char* x, const char* w, const char* bias, char* y,
                                             const sparse_work& mine) {
  const int rows = min(ROWS, HO - mine.row), images = min(WALKS, B - mine.image);
#pragma unroll 1
  for (int each = threadIdx.x; each < images * rows * WO * 2 * PAIRS; each += THREADS) {
    const int c = mine.channel + each % (2 * PAIRS), j = each / (2 * PAIRS) % WO;
    const int i = mine.row + each / (2 * PAIRS) / WO % rows, b = mine.image + each / (2 * PAIRS) / WO / rows;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < TAPS_H * TAPS_W; ++t) {
      const int h = i + t / TAPS_W - TOP, v = j + t % TAPS_W - LEFT;
      if (h >= 0 && h < H && v >= 0 && v < W)
        sum = fmaf(element_load(x, ((b * H + h) * W + v) * C + c),
                   element_load(w, c * KERNEL + sparse_tap(t)), sum);
    }
    sum = epilogue_activation(sum + epilogue_bias(bias, c));
    element_store<1>(y + (long long)(((b * HO + i) * WO + j) * C + c) * SIZE, &sum);
  }
}

// The pieces that a thread moves, if all threads of a block move COLUMNS columns of rows together. A position has LANES
// pieces. The block moves BESIDE rows of PASS columns at a time.
template <int COLUMNS, int LANES>
struct sparse_slot {
  static constexpr int ALL = THREADS / LANES, PASSES = (COLUMNS + ALL - 1) / ALL;
  static constexpr int PASS = (COLUMNS + PASSES - 1) / PASSES, BESIDE = ALL / PASS;
  int piece, row, column;

  __device__ __forceinline__ sparse_slot() {
    piece = threadIdx.x % LANES, row = threadIdx.x / LANES / PASS, column = threadIdx.x / LANES % PASS;
  }

  template <int COUNT>
  static constexpr int moves() {
    return WALKS * ((COUNT + BESIDE - 1) / BESIDE) * PASSES;
  }

  // Calls use(move, image, row, column, any) for each of this thread's moves of COUNT rows of all images. Image, row
  // and column are offsets from the thread's first piece. `any` is false if the piece is not in these rows and columns.
  template <int COUNT, typename Use>
  __device__ __forceinline__ void each(Use use) const {
    int move = 0;
#pragma unroll
    for (int walk = 0; walk < WALKS; ++walk)
#pragma unroll
      for (int i = 0; i < COUNT; i += BESIDE)
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass)
          use(move++, walk, i, pass * PASS,
              (THREADS == ALL * LANES && ALL == BESIDE * PASS || row < BESIDE) &&
                  (i + BESIDE <= COUNT || row < COUNT - i) &&
                  ((pass + 1) * PASS <= COLUMNS || column < COLUMNS - pass * PASS));
  }
};

__device__ __forceinline__ void depthwise_channels_sparse(const void* __restrict__ x_any,
                                                          const void* __restrict__ w_any, @ADDED@
                                                          void* __restrict__ y_any, word* shared) {
  const char *const x = (const char*)x_any, *const w = (const char*)w_any, *const bias_of = (const char*)@BIAS@;
  char* const y = (char*)y_any;
  const sparse_work mine = sparse_mine();
  if ((((size_t)x & 15) | ((size_t)y & 3)) != 0) {
    sparse_plain(x, w, bias_of, y, mine);
    return;
  }
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, warp = threadIdx.x / 32;
  const int top = mine.row - TOP;

  // Load the taps; a word has those of both channels of a pair. They are stored to shared memory further below.
  constexpr int TAPS = TAPS_H * TAPS_W, SHARE = (PAIRS * TAPS + THREADS - 1) / THREADS;
  word share[SHARE];
#pragma unroll
  for (int i = 0; i < SHARE; ++i) {
    const int number = i * THREADS + threadIdx.x, tap = number % TAPS, channel = mine.channel + 2 * (number / TAPS);
    const char* const from = w + ((long long)channel * KERNEL + sparse_tap(tap)) * SIZE;
    word both[2];
#pragma unroll
    for (int f = 0; f < 2; ++f) element_fetch<SIZE>(&both[f], from + f * (KERNEL * SIZE), number < PAIRS * TAPS);
    share[i] = __byte_perm(both[0], both[1], 0x5410);
  }
  float biases[EACH][2];
#pragma unroll
  for (int i = 0; i < 2 * EACH; ++i)
    biases[i / 2][i % 2] = epilogue_bias(bias_of, mine.channel + 2 * (warp + i / 2 * WARPS) + i % 2);

#pragma unroll 4
  for (int i = threadIdx.x; i < PAIRS * PLANE / 4; i += THREADS) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();

  // Copy the part of the strip that lies in the plane, in vectors of four pairs.
  constexpr int LAST = WO + TAPS_W - 1 - LEFT < W ? WO + TAPS_W - 1 - LEFT : W, BEGIN = LEFT < 0 ? -LEFT : 0;
  typedef sparse_slot<LAST - BEGIN, PAIRS / 4> reading;
  const reading read;
  sparse_parts<0>([&](auto part) {
    constexpr int LEFT_OVER = (PARTS - 1 - decltype(part)::value) * STEP;
    constexpr int FROM = decltype(part)::value == 0 ? 0 : DEEP - STEP - LEFT_OVER;
    constexpr int TO = DEEP - LEFT_OVER < ROWS + TAPS_H - 1 ? DEEP - LEFT_OVER : ROWS + TAPS_H - 1;
    constexpr int UPPER = STRIPS == 1 && FROM < TOP ? TOP : FROM;
    constexpr int LOWER = STRIPS == 1 && TO > H + TOP ? H + TOP : TO;
    if constexpr (LOWER > UPPER) {
      const int row = UPPER + read.row, column = BEGIN + read.column;
      word* const to = shared + read.piece * (4 * PLANE) + row * PITCH + column + LEFT;
      const char* const from =
          x + (((long long)(mine.image * H + top + row) * W + column) * C + mine.channel + 8 * read.piece) * SIZE;
      const auto inside = [&](int walk, int i) {
        return (B % WALKS == 0 || mine.image + walk < B) && (STRIPS == 1 || (word)(top + row + i) < (word)H);
      };
      constexpr int MOVES = reading::template moves<LOWER - UPPER>();
      word v[MOVES][4];
      read.template each<LOWER - UPPER>([&](int move, int walk, int i, int columns, bool any) {
        element_fetch<16>(v[move], from + ((walk * H + i) * W + columns) * (C * SIZE), any && inside(walk, i));
      });
      read.template each<LOWER - UPPER>([&](int move, int walk, int i, int columns, bool any) {
        if (any && inside(walk, i))
#pragma unroll
          for (int j = 0; j < 4; ++j) to[j * PLANE + walk * WALK + i * PITCH + columns] = v[move][j];
      });
    }
  });
  word* const matrix = shared + PAIRS * PLANE;
#pragma unroll
  for (int i = 0; i < SHARE; ++i)
    if (i * THREADS + threadIdx.x < PAIRS * TAPS) matrix[i * THREADS + threadIdx.x] = share[i];
  __syncthreads();

  // Put the taps of this warp's pairs into registers. On the k axis this lane has the words of columns 2 q and 2 q + 1
  // of two rows. Its two elements of a row of the first operand belong to the words of lanes 2 q % 4 and 2 q % 4 + 1,
  // to the first or the second column of each.
  word taps[EACH][DOWN][ACROSS][4];
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int kx = 4 * q - (q < 2 ? 0 : 7) - g % TW, ky = -(g / TW);
    const word* const first = matrix + (warp + each * WARPS) * TAPS + ky * TAPS_W + kx;
#pragma unroll
    for (int pair = 0; pair < DOWN; ++pair)
#pragma unroll
      for (int across = 0; across < ACROSS; ++across)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const int down = 2 * pair + odd, right = 8 * across;
          const bool below = (word)(ky + down) < (word)TAPS_H;
          const word* const at = first + down * TAPS_W + right;
          const word near = below && (word)(kx + right) < (word)TAPS_W ? at[0] : 0;
          const word far = below && (word)(kx + right + 2) < (word)TAPS_W ? at[2] : 0;
          taps[each][pair][across][2 * odd] = __byte_perm(near, far, 0x5410);
          taps[each][pair][across][2 * odd + 1] = __byte_perm(near, far, 0x7632);
        }
  }

  const sparse_slot<WO, PAIRS> written;
#pragma unroll 1
  for (int part = 0; part < PARTS; ++part) {
#pragma unroll
    for (int each = 0; each < EACH; ++each) {
      word* const plane = shared + (warp + each * WARPS) * PLANE + part * (STEP * PITCH);
#pragma unroll 1
      for (int group = 0; group < LINES; group += 8) {
        const int line = min(group + g, LINES - 1), place = line / TILES * WALK + line % TILES * TW;
        float sums[STACK][4];
#pragma unroll
        for (int e = 0; e < 4 * STACK; ++e) sums[e / 4][e % 4] = biases[each][e % 4 / 2];
#pragma unroll
        for (int pair = 0; pair < (STEP - TH) / 2 + DOWN; ++pair)
#pragma unroll
          for (int across = 0; across < ACROSS; ++across) {
            const word* const at = plane + place + 2 * pair * PITCH + 8 * across + 2 * q;
            const uint2 even = *(const uint2*)at, odd = *(const uint2*)(at + PITCH);
            const word words[4] = {even.x, even.y, odd.x, odd.y};
#pragma unroll
            for (int s = 0; s < STACK; ++s) {
              const int own = pair - s * (TH / 2);
              if (own >= 0 && own < DOWN) sparse_multiply(sums[s], taps[each][own][across], words);
            }
          }
        // This lane has output g of tiles 2 q and 2 q + 1, for both channels of the pair.
        __syncwarp();
        const int first = __shfl_sync(0xffffffffu, place, 8 * q), second = __shfl_sync(0xffffffffu, place, 8 * q + 4);
        word* const to = plane + g / TW * PITCH + g % TW;
#pragma unroll
        for (int s = 0; s < STACK; ++s) {
          to[first + s * (TH * PITCH)] = epilogue_pack(sums[s][0], sums[s][2]);
          to[second + s * (TH * PITCH)] = epilogue_pack(sums[s][1], sums[s][3]);
        }
        __syncwarp();
      }
    }
    __syncthreads();
    const int row = part * STEP + written.row, rows = min(ROWS, HO - mine.row) - row;
    const word* const from = shared + written.piece * PLANE + row * PITCH + written.column;
    char* const to = y + (((long long)(mine.image * HO + mine.row + row) * WO + written.column) * C + mine.channel +
                          2 * written.piece) * SIZE;
    written.template each<STEP>([&](int, int walk, int i, int columns, bool any) {
      if (any && (B % WALKS == 0 || mine.image + walk < B) && (HO % ROWS + ROWS % STEP == 0 || i < rows))
        element_put<4>(to + ((walk * HO + i) * WO + columns) * (C * SIZE), from + walk * WALK + i * PITCH + columns);
    });
  }
}
