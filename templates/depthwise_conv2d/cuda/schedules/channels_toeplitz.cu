// Depthwise convolution on tensor cores, channels last. A word of the input holds two neighbouring channels of a
// column, and the k axis of a product takes words as they are stored: X[a, (j, e)] is channel e of the j-th column that
// tile a reaches in one input row. The other operand is T[(j, e), (o, f)], the tap of channel f that column j meets for
// output o. It is zero if e and f differ. o is one of the four outputs of a tile of TH rows by TW columns. Half of T is
// zero, but nothing has to be transposed.
//
// A block goes down a strip of ROWS output rows of WALKS images, TH rows in a step. A warp has CHANNELS_OF_WARP
// channels, whose taps are in registers. It adds each input row to the sums of the RING tiles that reach it. Results are
// stored by way of shared memory, in which the channels of many warps become neighbours. Another source says who copies:
// all threads, or tensor copies that one thread starts.
//
// The input rows of a step are copied asynchronously, STAGES - 1 steps ahead, into a ring in shared memory. Tiles above
// and below the strip are among those of the ring and are not stored. If HELD, there is no ring: shared memory holds all
// input rows of planes, each of which is one strip. They are copied at the beginning, in pieces of PIECE steps, and
// results are stored in pieces of as many tiles. What each step computes is then known when this is compiled.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@, STRIDE = @STRIDE@, DILATION = @DILATION@;
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST = @FIRST@;  // used taps: those that meet the input somewhere
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int TH = @TILE_ROWS@, TW = 4 / TH;
constexpr int CHANNELS = @CHANNELS@, CHANNELS_OF_WARP = @WARP_CHANNELS@, PAIRS = CHANNELS_OF_WARP / 2;
constexpr int GROUPS = CHANNELS / CHANNELS_OF_WARP, BESIDE_EACH_OTHER = (C + CHANNELS - 1) / CHANNELS;
constexpr int WALKS = @WALKS@, ROWS = @ROWS@, STAGES = @STAGES@, THREADS = @THREADS@;
constexpr int LINES = @LINES@;          // lines of eight output columns in each image
constexpr int FRAGMENTS = @FRAGMENTS@;  // fragments of a warp; each has 16 tiles, from 8 / TH lines
constexpr int ACROSS = (WO + 8 * LINES - 1) / (8 * LINES), STRIPS = (HO + ROWS - 1) / ROWS;
constexpr int DOWN = TH * STRIDE;                                             // input rows of a step
constexpr int REACH = (TH - 1) * STRIDE + (TAPS_H - 1) * DILATION + 1;        // input rows that a tile spans
constexpr int RING = (REACH + DOWN - 1) / DOWN;                               // tiles that meet an input row
constexpr int PARTS = ((TW - 1) * STRIDE + (TAPS_W - 1) * DILATION) / 4 + 1;  // groups of four input columns of a tile
constexpr int READ = PARTS + STRIDE;                                          // the same with the tile four columns on
constexpr int USED = 8 * STRIDE * (LINES - 1) + STRIDE * (4 - TW) + 4 * READ;  // input columns of a walk
constexpr bool HELD = @PIECE@ > 0;
constexpr int PIECE = HELD ? @PIECE@ : 1;
constexpr int TILES = (ROWS + TH - 1) / TH, STEPS = TILES + RING - 1;  // of the highest strip
constexpr int ABOVE = HELD && TOP > 0 ? TOP / DOWN : 0;                // the first step with a row in the plane
constexpr int BELOW = HELD && (H + TOP - 1) / DOWN + 1 < STEPS ? (H + TOP - 1) / DOWN + 1 : STEPS;  // after the last one
// Steps, or pieces, that have room. If HELD, residuals are copied to where all results have room.
constexpr int INPUTS = HELD ? (BELOW - ABOVE + PIECE - 1) / PIECE : STAGES, RESULTS = (TILES + PIECE - 1) / PIECE;
constexpr int OUTPUTS = @OUTPUTS@;
constexpr bool NEXT = @NEXT@;
// Whether a tile that is stored may begin outside the plane, at a step of a block that is not left out.
constexpr bool PADDED = TOP / DOWN >= RING || (HO - 1) * STRIDE - TOP >= H;
constexpr int WEIGHT_BYTES = CHANNELS * KERNEL * SIZE;
// A tile's sums begin with biases if a lane has registers for those of all its sums, and if the activation takes sums as
// they are. Otherwise biases are added at the end.
constexpr bool BEGINS_WITH_BIASES = HAS_BIAS && @HAS_ROOM_FOR_BIASES@ && EPILOGUE_SCALE == 1.0f;
constexpr int BIASES = BEGINS_WITH_BIASES ? 4 : 2;  // of a pair of channels
static_assert(CHANNELS % 8 == 0 && 32 * GROUPS <= THREADS, "whole vectors for each warp");
static_assert(!HELD || (STRIPS == 1 && ABOVE < BELOW), "a strip for each plane");

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

// Returns the stage of a turn of the ring, which follows `stage`. If each turn always has the same, the compiler knows it.
constexpr __device__ int toeplitz_next_stage(int stage, int turn) {
  return RING % STAGES == 0 ? turn % STAGES : stage + 1 == STAGES ? 0 : stage + 1;
}

// Returns which of OUTPUTS places the results of a step have. Likewise.
constexpr __device__ int toeplitz_place(int step, int turn) {
  return (RING % OUTPUTS == 0 ? turn + RING : step) % OUTPUTS;
}

// The work of a block: its first channel, column, image and row, the row after its last one, the first row and column
// that its first outputs reach, its first step whose input is copied, and its steps.
struct toeplitz_work {
  int channel, column, image, row, last, top, left, first, steps;
};

__device__ __forceinline__ toeplitz_work toeplitz_mine() {
  const int block = blockIdx.x, rest = block / BESIDE_EACH_OTHER / ACROSS;
  toeplitz_work mine;
  mine.channel = BESIDE_EACH_OTHER == 1 ? 0 : block % BESIDE_EACH_OTHER * CHANNELS;
  mine.column = ACROSS == 1 ? 0 : block / BESIDE_EACH_OTHER % ACROSS * (8 * LINES);
  mine.row = STRIPS == 1 ? 0 : rest % STRIPS * ROWS;
  mine.last = min(mine.row + ROWS, HO);
  mine.image = rest / STRIPS * WALKS;
  mine.top = mine.row * STRIDE - TOP, mine.left = mine.column * STRIDE - LEFT;
  // The first strip leaves out steps above the plane, up to the first one that has results.
  mine.first = HELD ? ABOVE : mine.row > 0 ? 0 : min(max(TOP, 0) / DOWN, RING - 1);
  mine.steps = (mine.last - mine.row + TH - 1) / TH + RING - 1;
  return mine;
}

// Computes all outputs of a block one by one, for tensors that are not aligned to a vector.
__device__ __forceinline__ void toeplitz_plain(const char* x, const char* w, const char* bias, const char* residual,
                                               char* y, const toeplitz_work& mine) {
  const int rows = mine.last - mine.row, columns = min(8 * LINES, WO - mine.column);
  const int channels = C % CHANNELS == 0 ? CHANNELS : min(CHANNELS, C - mine.channel);
  const int images = min(WALKS, B - mine.image);
#pragma unroll 1
  for (int each = threadIdx.x; each < images * rows * columns * channels; each += THREADS) {
    const int c = mine.channel + each % channels, j = mine.column + each / channels % columns;
    const int i = mine.row + each / channels / columns % rows, b = mine.image + each / channels / columns / rows;
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

// The registers of a lane: where its rows of the fragments lie in shared memory, as operands and as results, and its
// taps and sums. `Copies` says where in shared memory things lie, and brings them there and back:
// - weights: the address of the block's weights, which are there once await_weights() has returned;
// - begin(): waits for the launch before, and starts to copy the weights and the first input: that of STAGES - 1 steps,
//   or all if HELD;
// - input_place, output_place: where a channel of a column lies, from the beginning of a step's input or results;
// - INPUT_ROW, OUTPUT_ROW: bytes from a row of a step's input, or of its results, to the next.
// Lanes find a column at one of PHASES places, in turns of four columns. For the ring, whose steps come with their turns:
// - await(turn): waits for the input of the next step, and for all threads; returns where the input lies;
// - advance(step, turn): starts to copy the input of step + STAGES - 1, if there is one, with its residuals;
// - outputs(step, turn): where the results of a step go, and where its residuals lie before;
// - publish(): ends a thread's writing of results;
// - leave(step, turn): starts to store the results of a step, which all threads have published before they last met;
// - end(): waits until all results are stored, if a block may not end before.
// LEAVES_FIRST says whether advance() also starts to store the results of the step before. If HELD:
// - await_input(piece), await_residuals(piece): wait for a piece, and return where it, or its results, lie;
// - await_room(): waits until the next piece of results has room;
// - leave_piece(piece): the same as leave.
template <class Copies>
struct toeplitz_lane {
  static constexpr int PHASES = Copies::PHASES;
  static constexpr bool FULL = THREADS / 32 / GROUPS * FRAGMENTS * (8 / TH) == WALKS * LINES;  // warps have only tiles
  int operand[FRAGMENTS][PHASES], result[FRAGMENTS][PHASES];
  bool any[FRAGMENTS];
  float biases[PAIRS][BIASES];  // scaled for the activation
  word taps[REACH][PARTS][PAIRS];
  const word none = blockIdx.y, also_none = blockIdx.z, one = gridDim.y;  // 0, 0 and 1, but the compiler does not know
  float sums[RING][FRAGMENTS][PAIRS][4];

  __device__ __forceinline__ toeplitz_lane(Copies& copies, const toeplitz_work& mine, const char* bias_of) {
    copies.begin();
    const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, warp = threadIdx.x / 32;
    const int first = warp % GROUPS * CHANNELS_OF_WARP;
    const int first_line = warp / GROUPS * FRAGMENTS * (8 / TH) + g / TH;
#pragma unroll
    for (int t = 0; t < FRAGMENTS; ++t) {
      any[t] = FULL || first_line + t * (8 / TH) < WALKS * LINES;
      const int line = any[t] ? first_line + t * (8 / TH) : WALKS * LINES - 1;
      const int walk = line / LINES, column = line % LINES * 8 + g % TH * TW;
#pragma unroll
      for (int k = 0; k < PHASES; ++k) {
        operand[t][k] = Copies::input_place(walk, column * STRIDE + q + 4 * k, first);
        result[t][k] = Copies::output_place(walk, q / TW, column + q % TW + 4 * k, first);
        asm volatile("" : "+r"(operand[t][k]), "+r"(result[t][k]));  // or they would be computed anew in each step
      }
    }
    if (HAS_BIAS) {
      word packed[PAIRS];
      wait_for_launch();
      element_fetch<CHANNELS_OF_WARP * SIZE>(packed, bias_of + (mine.channel + first) * SIZE, mine.channel + first < C);
#pragma unroll
      for (int k = 0; k < PAIRS * BIASES; ++k) {
        const float bias = EPILOGUE_SCALE * element_at(&packed[k / BIASES], k % 2);
        // Two of four are the same. They would be copied for each tile if the compiler knew.
        biases[k / BIASES][k % BIASES] = k % BIASES < 2 ? bias : __uint_as_float(__float_as_uint(bias) | none);
      }
    }
#pragma unroll
    for (int turn = 0; turn < RING; ++turn) begin_tile(turn);
    copies.await_weights();
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
            taps[row][part][pair] = ((const unsigned short*)copies.weights)[at + pair * (2 * KERNEL)] * scale;
        }
  }

  // Begins the sums of the tile whose first input row is in this step.
  __device__ __forceinline__ void begin_tile(int turn) {
#pragma unroll
    for (int k = 0; k < FRAGMENTS * PAIRS * 4; ++k)
      sums[turn][k / 4 / PAIRS][k / 4 % PAIRS][k % 4] = BEGINS_WITH_BIASES ? biases[k / 4 % PAIRS][k % BIASES] : 0.0f;
  }

  // Adds row `i` of a step to the tiles that began from `least` steps before it on, and less than `most`.
  __device__ __forceinline__ void multiply(const char* from, int i, int turn, int least, int most) {
    word a[FRAGMENTS][READ][PAIRS];
#pragma unroll
    for (int t = 0; t < FRAGMENTS; ++t)
#pragma unroll
      for (int part = 0; part < READ; ++part)
        element_read<4 * PAIRS>(a[t][part], from + operand[t][part % PHASES] +
                                                Copies::input_place(0, part / PHASES * PHASES * 4, 0));
    // An operand is arranged once and then multiplied for all tiles, so tiles are the innermost loop. Each word goes to its
    // register by an operation whose result the compiler does not know, or it would copy all four for each product. If two
    // of the four are the same word, their operations differ, or it would compute one result and copy that. In the
    // ring half of them multiply, which other units do.
    constexpr bool MULTIPLIES = !HELD;
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
          for (int k = 0; k < 4; ++k)
            all[k] = MULTIPLIES && k % 2 == 1 ? all[k] * one : all[k] | (k == 2 ? also_none : none);
#pragma unroll
          for (int behind = least; behind < most; ++behind) {
            const int row = i + behind * DOWN;
            if (row < REACH && toeplitz_meets(row)) {
              float(&sum)[4] = sums[(turn - behind + RING) % RING][t][pair];
              if (part + 1 < PARTS) halves_multiply(sum, all, taps[row][part][pair], taps[row][next][pair]);
              else halves_multiply_half(sum, all[0], all[1], taps[row][part][pair]);
            }
          }
        }
  }

  // Writes the results of the tile whose last input row is in this step, over its residuals.
  __device__ __forceinline__ void finish(char* to, int turn) const {
#pragma unroll
    for (int t = 0; t < FRAGMENTS; ++t)
      if (any[t])
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          char* const place = to + result[t][half % PHASES] + half / PHASES * Copies::output_place(0, 0, 4, 0);
          word packed[PAIRS], added[PAIRS];
          if (HAS_RESIDUAL) element_read<4 * PAIRS>(added, place);
#pragma unroll
          for (int pair = 0; pair < PAIRS; ++pair) {
            float v[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              v[e] = sums[(turn + 1) % RING][t][pair][2 * half + e];
              if (HAS_RESIDUAL) v[e] += element_at(&added[pair], e);
              v[e] = HAS_BIAS && !BEGINS_WITH_BIASES ? fmaf(EPILOGUE_SCALE, v[e], biases[pair][e]) : EPILOGUE_SCALE * v[e];
            }
            packed[pair] = epilogue_pack_scaled(v[0], v[1]);
          }
          toeplitz_write(place, packed);
        }
  }
};

// Computes all outputs of a block whose input goes through the ring.
template <class Copies>
__device__ __forceinline__ void toeplitz_ring(Copies& copies, const toeplitz_work& mine, const char* bias_of) {
  toeplitz_lane<Copies> lane(copies, mine, bias_of);
#pragma unroll 1
  for (int begin = mine.first; begin < mine.steps; begin += RING)
#pragma unroll
    for (int turn = 0; turn < RING; ++turn) {
      const int step = begin + turn;
      if (step >= mine.steps) break;
      const char* const from = copies.await(turn);
      if (NEXT && step + 1 == mine.steps) begin_next_launch();
      copies.advance(step, turn);

      if (PADDED) lane.begin_tile(turn);
      if (mine.top + step * DOWN > -DOWN && mine.top + step * DOWN < H) {  // some row is in the plane
        if (!PADDED) lane.begin_tile(turn);
#pragma unroll
        for (int i = 0; i < DOWN; ++i) lane.multiply(from + i * Copies::INPUT_ROW, i, turn, 0, RING);
      }

      if (!Copies::LEAVES_FIRST && step >= RING) copies.leave(step - 1, turn - 1);  // while the products are in flight
      if (step >= RING - 1) {
        lane.finish(copies.outputs(step, turn), turn);
        copies.publish();
      }
    }
  __syncthreads();
  copies.leave(mine.steps - 1, (mine.steps - 1 - mine.first) % RING);
  copies.end();
}

// Computes all outputs of a block that holds whole planes.
template <class Copies>
__device__ __forceinline__ void toeplitz_held(Copies& copies, const toeplitz_work& mine, const char* bias_of) {
  toeplitz_lane<Copies> lane(copies, mine, bias_of);
  const char* from = nullptr;
  char* to = nullptr;
#pragma unroll
  for (int step = ABOVE < RING - 1 ? ABOVE : RING - 1; step < STEPS; ++step) {
    const int turn = step % RING, tile = step - (RING - 1);
    lane.begin_tile(turn);
    if (step >= ABOVE && step < BELOW) {
      if ((step - ABOVE) % PIECE == 0) from = copies.await_input((step - ABOVE) / PIECE);
      if (NEXT && step + 1 == BELOW) begin_next_launch();
#pragma unroll
      for (int i = 0; i < DOWN; ++i)
        if (step * DOWN + i >= TOP && step * DOWN + i < H + TOP)
          lane.multiply(from + ((step - ABOVE) % PIECE * DOWN + i) * Copies::INPUT_ROW, i, turn,
                        step < TILES ? 0 : step - TILES + 1, step < RING ? step + 1 : RING);
    }
    if (tile >= 0) {
      if (tile % PIECE == 0) to = copies.await_residuals(tile / PIECE);
      lane.finish(to + tile % PIECE * TH * Copies::OUTPUT_ROW, turn);
      if (tile % PIECE == PIECE - 1 || tile == TILES - 1) {
        copies.publish();
        copies.await_room();
        __syncthreads();
        copies.leave_piece(tile / PIECE);
      }
    }
  }
  copies.end();
}

// Computes all outputs of a block by the copies that `given` makes, or one by one if a tensor is not aligned to a vector.
template <class Copies, class... Given>
__device__ __forceinline__ void toeplitz_block(const char* x, const char* w, const char* bias, const char* residual,
                                               char* y, Given... given) {
  const toeplitz_work mine = toeplitz_mine();
  if ((((size_t)x | (size_t)w | (size_t)y | (size_t)bias | (size_t)residual) & 15) != 0) {
    wait_for_launch();
    toeplitz_plain(x, w, bias, residual, y, mine);
    return;
  }
  Copies copies(mine, given...);
  if constexpr (HELD) toeplitz_held(copies, mine, bias);
  else toeplitz_ring(copies, mine, bias);
}
