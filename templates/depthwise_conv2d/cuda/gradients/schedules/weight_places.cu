// The gradient of the weight, in two launches.
//
// In the first launch a thread has N neighbouring channels and a tile of TR by TC taps, whose sums are in registers. It
// goes down rows of V columns of the output's gradient. It reads each input row once and multiplies it with the rows of
// the gradient that meet it, which are a ring in registers. The rows of all images follow one another and are cut into
// RANGES ranges, whose lengths differ by one row at most. A block has ACROSS vectors of N channels at each of POINTS
// places; neighbouring lanes have neighbouring vectors. The block adds up the sums of its places and stores a part of
// the result in the workspace. The second launch adds up the parts. Both launches add in a fixed order.
//
// PLANES: channels are first, and a thread has one channel. Otherwise channels are last.
//
// STAGED: rows come by way of shared memory. The places of a block are all columns of a range, in each of IMAGES images
// that go down side by side.
constexpr bool HAS_BIAS = @HAS_BIAS@, FLIP = @FLIP@;
constexpr int C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@, STRIDE = @STRIDE@, DILATION = @DILATION@;
constexpr int SEVERAL = @SEVERAL@, X_CHANNELS = C / SEVERAL;  // kernels of each input channel, and input channels
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST_H = @FIRST_H@, FIRST_W = @FIRST_W@;  // used taps
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int N = @N@, TR = @TR@, TC = @TC@, V = @V@, THREADS = @THREADS@, ACROSS = @ACROSS@;
constexpr int SHARED_WORDS = @WORDS@;
constexpr int B = @B@, GROUPS = (WO + V - 1) / V, RANGES = @RANGES@;
constexpr int DOWN = (TAPS_H + TR - 1) / TR, ASIDE = (TAPS_W + TC - 1) / TC;  // tiles of taps
constexpr int CHANNELS = ACROSS * N;                                          // of a block
constexpr bool PLANES = @PLANES@, STAGED = @STAGED@, TENSOR = @TENSOR@;
constexpr int COLUMN = PLANES ? 1 : C, X_COLUMN = PLANES ? 1 : X_CHANNELS;  // elements from a column to the next
constexpr int IMAGES = @IMAGES@, POINTS = STAGED ? IMAGES * GROUPS : THREADS / ACROSS;
constexpr int ROWS = (B + IMAGES - 1) / IMAGES * HO;  // of all images, or of all sets of IMAGES images
constexpr int PARTS = STAGED ? RANGES : (RANGES * GROUPS + POINTS - 1) / POINTS;
constexpr int SUMS = TAPS_H * TAPS_W + HAS_BIAS;  // sums of a channel
constexpr int COLUMNS = (V - 1) * STRIDE + (TC - 1) * DILATION + 1, WORDS = element_words(N);
constexpr int RING = ((TR - 1) * DILATION + STRIDE) / STRIDE;  // rows of the gradient that an input row meets
constexpr int SLICES = @SLICES@;                               // slices of the parts in the second launch
static_assert(!PLANES || (N == 1 && ACROSS == 1 && !STAGED), "one channel");
static_assert(SEVERAL == 1 || (N == 1 && !STAGED), "neighbours of one kernel have the same channel of the input");
static_assert(C % CHANNELS == 0 && POINTS > 0 && (TENSOR || POINTS * ACROSS <= THREADS), "whole vectors");

// Returns which of a tile's rows or columns of taps meets an input row or column. `at` is the latter's distance from
// the one that the first tap meets. Returns -1 if none does.
constexpr __device__ int weight_met(int at, int taps) {
  return at >= 0 && at % DILATION == 0 && at / DILATION < taps ? at / DILATION : -1;
}
// Returns whether an input column meets any tap of the tile.
constexpr __device__ bool weight_meets(int column) {
  for (int v = 0; v < V; ++v)
    if (weight_met(column - v * STRIDE, TC) >= 0) return true;
  return false;
}
// Returns whether input row `row` of a step, which has STRIDE of them, meets any tap of the tile.
constexpr __device__ bool weight_meets_row(int row) {
  for (int behind = 0; behind < RING; ++behind)
    if (weight_met(behind * STRIDE + row, TR) >= 0) return true;
  return false;
}

// Returns the index of an element in a tensor of this many channels, rows and columns.
__device__ __forceinline__ long long weight_element(int image, int channel, int row, int column, int channels, int rows,
                                                    int columns) {
  if (PLANES) return (((long long)image * channels + channel) * rows + row) * columns + column;
  return (((long long)image * rows + row) * columns + column) * channels + channel;
}
// Return the index of an element of the input that a channel of the gradient meets, and of an element of the gradient.
__device__ __forceinline__ long long weight_input(int image, int channel, int row, int column) {
  return weight_element(image, channel / SEVERAL, row, column, X_CHANNELS, H, W);
}
__device__ __forceinline__ long long weight_output(int image, int channel, int row, int column) {
  return weight_element(image, channel, row, column, C, HO, WO);
}

// A place of the output's gradient: V columns, from `column` on, of a range of rows. The tile's first tap meets the
// input `above` rows before the output's own row, and at column `left` for the place's first column. `any` is false if
// there is no such place.
struct weight_place {
  int range, image, column, above, left;
  bool any;
};

__device__ __forceinline__ weight_place weight_at(int part, int point, int down, int aside) {
  const int at = STAGED ? part * GROUPS + point % GROUPS : part * POINTS + point;
  weight_place place;
  place.range = at / GROUPS, place.image = STAGED ? point / GROUPS : 0;
  place.column = at % GROUPS * V;
  place.above = TOP - down * TR * DILATION;
  place.left = place.column * STRIDE - LEFT + aside * TC * DILATION;
  place.any = place.range < RANGES && point < POINTS;
  return place;
}

// Returns the first row of a range, counted through all images.
__device__ __forceinline__ int weight_begin(int range) { return range * (ROWS / RANGES) + min(range, ROWS % RANGES); }

// The rows that a range has of an image: from row `from` to the one before row `to`.
struct weight_piece {
  int image, from, to;
};

__device__ __forceinline__ weight_piece weight_piece_at(int at, int end) {
  weight_piece piece;
  piece.image = at / HO * IMAGES, piece.from = at % HO;
  piece.to = min(HO, piece.from + end - at);
  return piece;
}
// Returns how many steps a range has: a step for each row, and in each image RING - 1 more, for input rows after them.
__device__ __forceinline__ int weight_steps(int begin, int end) {
  return end - begin + ((end - 1) / HO - begin / HO + 1) * (RING - 1);
}
