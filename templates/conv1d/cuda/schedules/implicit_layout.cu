// Layout of shared memory in the implicit products: rows of 16 bytes of the signal, and weights. If steps are along
// channels, a row is eight channels of one sample. If they are along taps, a row is the samples of one channel that
// eight taps meet. A tap is then a distance in rows, and every row is aligned for ldmatrix. float32 is split into a
// high and a low half, each of which has rows and weights of its own.
constexpr bool ALONG_TAPS = @ALONG_TAPS@;
constexpr int WC = @CHANNELS@, WT = @TAPS@, STAGES = @STAGES@, TILES = @TILES@, HELD = @HELD@;
constexpr int STREAMED = @STREAMED@;  // taps whose weights are streamed at a time, or 0 if weights are staged
constexpr int STREAM_STAGES = @STREAM_STAGES@, STREAM_CHUNKS = STREAMED > 0 ? (N + STREAMED - 1) / STREAMED : 0;
constexpr int STREAM_PITCH = STREAMED + 8;  // so that the pairs of four filters are in different banks
constexpr int MF = OWN / 16, FILTERS = OWN * WARPS_F, SPAN = TILE * TILES, PATCHES = (L + SLACK + SPAN - 1) / SPAN;
constexpr int STREAM_WORDS = FILTERS * STREAM_PITCH;
constexpr int HALVES = @PRODUCTS@ == 3 ? 2 : 1, QUAD = 16 / SIZE;  // QUAD: elements in 16 bytes
constexpr int TAP_CHUNKS = (N + WT - 1) / WT, CHUNKS = (C + WC - 1) / WC * TAP_CHUNKS;

// Position i meets distance t in row (t * FAR % NEAR) * LENGTH + t * FAR / NEAR + i. Each of the NEAR remainders has
// LENGTH rows of its own, so that neighbouring positions have neighbouring rows at any stride. If taps are few or far
// apart (APART), each tap has rows of its own.
constexpr int INNER = ALONG_TAPS ? (WT + 15) / 16 : WT;  // steps of 16 along k in one channel, or in 16 along channels
constexpr int REACH = ALONG_TAPS ? 8 * DILATION : DILATION, DISTANCES = ALONG_TAPS ? 2 * INNER : WT;
constexpr int UNIT = implicit_divisor(STRIDE, REACH), NEAR = STRIDE / UNIT, FAR = REACH / UNIT;
constexpr int POSITIONS = TILE + SLACK;
constexpr long long SHARED_LENGTH = POSITIONS + (long long)(DISTANCES - 1) * FAR / NEAR;
constexpr bool APART = (long long)DISTANCES * POSITIONS <= NEAR * SHARED_LENGTH;
constexpr int PHASES = APART ? DISTANCES : NEAR, LENGTH = APART ? POSITIONS : (int)SHARED_LENGTH;
constexpr int ROWS = PHASES * LENGTH, GROUPS = ALONG_TAPS ? WC : WC / 8, ITEMS = GROUPS * ROWS;
constexpr int STEPS = (ALONG_TAPS ? WC : WC / 16) * INNER;
constexpr int BATCH = ITEMS > 3 * THREADS ? 4 : (ITEMS + THREADS - 1) / THREADS;  // rows that a thread fetches at once
// Whether a row's elements are neighbours in memory and begin at a multiple of 16 bytes, and every 16 bytes of them are
// either all inside the signal or all outside.
constexpr bool WIDE_TAPS = DILATION == 1 && (!CHANNELS_LAST || C == 1) && STRIDE % QUAD == 0 && M % QUAD == 0 &&
                           LEFT % QUAD == 0 && (TAP_CHUNKS == 1 || WT % QUAD == 0);
constexpr bool WIDE_ROWS = ALONG_TAPS ? WIDE_TAPS : CHANNELS_LAST && C % 8 == 0;

// Along taps, weights are loaded as eight neighbours. Along channels, they are copied in the order of memory, and then
// packed in pairs of channels. The pitch keeps the filters and pairs that a warp reads in different banks.
typedef @ELEMENT@ element;  // the bits of an element
constexpr int PIECE = WC * WT;
constexpr int implicit_pitch(int pitch) { return pitch % 32 == 16 ? pitch : implicit_pitch(pitch + 8); }
constexpr int PITCH = implicit_pitch((PIECE + 7) / 8 * 8);
constexpr bool WIDE_WEIGHTS = ALONG_TAPS || WT < N ? N % QUAD == 0 && WT % QUAD == 0
                                                   : C * (long long)N % QUAD == 0 && PIECE % QUAD == 0;
constexpr int WEIGHT_ITEMS = FILTERS * STEPS * 2;  // items of eight taps
constexpr int PARTS = @WEIGHT_PARTS@, PART = FILTERS / PARTS;  // of a block's filters, staged one after the other
constexpr int PACKED_HALF = FILTERS * STEPS * 8;
constexpr int PACKED_WORDS = STREAMED > 0 ? STREAM_STAGES * STREAM_WORDS : HALVES * PACKED_HALF;
constexpr int WINDOW_WORDS = HALVES * 4 * ITEMS, RAW_WORDS = ALONG_TAPS ? 0 : PART * PITCH * SIZE / 4;
constexpr int LARGER_WORDS = WINDOW_WORDS > RAW_WORDS ? WINDOW_WORDS : RAW_WORDS;
constexpr int BESIDE_WORDS = CHUNKS > 1 ? WINDOW_WORDS + RAW_WORDS : LARGER_WORDS;
static_assert(CHUNKS == 1 || PARTS == 1, "parts are for weights that stay");
static_assert(STAGES * (PACKED_WORDS + BESIDE_WORDS) == @WORDS@, "the template's estimate of shared memory");

// Packs eight elements, each in a word of its own, in the form in which a wide load returns them.
__device__ __forceinline__ void implicit_pack_row(word (&v)[8]) {
#pragma unroll
  for (int e = 0; e < 4 && !IS_FLOAT; ++e) v[e] = v[2 * e] | v[2 * e + 1] << 16;
}

// Writes eight elements as halves. PACKED says that a word has two elements, not one. float32 is scaled and split, and
// its low halves are written `behind` rows further on.
template <bool PACKED>
__device__ __forceinline__ void implicit_put_row(uint4* to, int behind, const word (&v)[8], float scale) {
  word high[4], low[4];
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (IS_FLOAT)
      halves_split(__uint_as_float(v[2 * e]) * scale, __uint_as_float(v[2 * e + 1]) * scale, high[e], low[e]);
    else high[e] = PACKED ? v[e] : v[2 * e] | v[2 * e + 1] << 16;
  to[0] = {high[0], high[1], high[2], high[3]};
  if (HALVES == 2) to[behind] = {low[0], low[1], low[2], low[3]};
}

// Returns the row in which position 0 meets distance t.
__device__ __forceinline__ int implicit_row(int t) {
  return APART ? t * LENGTH : t * FAR % NEAR * LENGTH + t * FAR / NEAR;
}
