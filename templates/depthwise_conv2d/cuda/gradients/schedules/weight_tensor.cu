// The sums of the weight's gradient on tensor cores, from rows in shared memory. A line is eight neighbouring outputs.
// For a channel, D[a, b] is the sum over 16 lines of X[line, a] times G[line, b]. b is one of the line's outputs, and a
// one of the 16 input columns that they meet; with a stride these are taken phase by phase. The gradient of a tap is
// the sum of all D[a, b] with the same distance a - b. A warp has OWN channels of 16 lines, and a matrix D for each row
// of taps, because an input row meets a ring of rows of the gradient.
//
// WIDEST is the largest distance of a tap. If it leaves the last input column free, that column is filled with ones in
// one phase. Its sums in the row of taps BIAS_TAP are the bias's gradient, because all rows of the gradient meet that
// row of taps. BIAS_TAP is -1 if there is no such row; then the bias has a matrix of its own.
constexpr int OWN = @OWN@, LINES = IMAGES * GROUPS, SETS = (LINES + 15) / 16, PIECES = SETS;
constexpr int MATRICES = STRIDE * OWN * 128, SUM_WORDS = SHARED_WORDS - THREADS / 32 * MATRICES;  // MATRICES: of a warp
constexpr int LINE_X = weight_x(V * STRIDE), LINE_G = weight_g(V);
constexpr int WIDEST = (TC - 1) * DILATION / STRIDE, BIAS_TAP = @BIAS_TAP@;
constexpr bool HAS_ONES = HAS_BIAS && BIAS_TAP >= 0, HAS_MATRIX = HAS_BIAS && !HAS_ONES;
constexpr word ONES = IS_BF16 ? 0x3f803f80u : 0x3c003c00u;
static_assert(V == 8 && !IS_FLOAT && !HAS_DERIVATIVE && WIDEST + HAS_ONES <= 8, "what a matrix holds");
static_assert(CHANNELS / OWN * SETS * 32 == THREADS, "a warp for so many channels of 16 lines");

struct weight_sums {
  float taps[TR][STRIDE][OWN][4], bias[OWN][4];
};

// Returns whether any column of taps has this phase.
constexpr __device__ bool weight_has_phase(int phase) {
  for (int u = 0; u < TC; ++u)
    if (u * DILATION % STRIDE == phase) return true;
  return false;
}

// Reads the channels of two lines at one column. Each word has one channel of both lines, as operands need it.
__device__ __forceinline__ void weight_pair(word (&v)[OWN], shared_place first, shared_place second) {
  word a[OWN / 2], b[OWN / 2];
  weight_read<OWN * SIZE>(a, first);
  weight_read<OWN * SIZE>(b, second);
#pragma unroll
  for (int c = 0; c < OWN; ++c) v[c] = __byte_perm(a[c / 2], b[c / 2], c % 2 ? 0x7632 : 0x5410);
}

__device__ __forceinline__ void weight_sum(weight_sums& sum, const char* x, const char* g, const char* z, int first,
                                           int part, int, int, char* shared) {
  const int start = weight_begin(part), end = weight_begin(part + 1), steps = weight_steps(start, end);
  weight_clear(shared);
  const shared_place all = weight_place_of(shared);
  weight_copying copying = {weight_copies_of(threadIdx.x), weight_first(start, end), steps};
#pragma unroll 1
  for (int stage = 0; stage < STAGES - 1; ++stage) weight_fetch(copying, all, x, g, z, first);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, q = lane % 4;
  const int own = warp % (CHANNELS / OWN) * (OWN * SIZE), set = warp / (CHANNELS / OWN);
  // This lane's lines: 2 q, the next one, and those eight lines on. Lines that do not exist get a gradient of zero.
  int image[4];
  shared_place of_x[4], of_g[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int line = set * 16 + k / 2 * 8 + 2 * q + k % 2, held = line < LINES ? line : 0;
    image[k] = line < LINES ? line / GROUPS : B;
    of_x[k] = all + held / GROUPS * STRIDE * X_ROW + held % GROUPS * LINE_X + row * STRIDE * X_PITCH + own;
    of_g[k] = all + IMAGES * STRIDE * X_ROW + held / GROUPS * G_ROW + held % GROUPS * LINE_G + row * G_PITCH + own;
  }
  weight_turn turn = weight_first(start, end);
  word kept[RING][2][OWN] = {};
#pragma unroll 1
  for (int begin = 0; begin < steps; begin += RING)
#pragma unroll
    for (int slot = 0; slot < RING; ++slot) {
      const int step = begin + slot;
      if (step >= steps) break;
      if (step % COPIED_STEPS == 0) {
        weight_await();
        __syncthreads();
        weight_fetch(copying, all, x, g, z, first);
      }
      const int held = turn.held * STEP;
      const bool given = weight_is_given(turn);
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        word mask = 0;
        if (given && turn.image + image[2 * k] < B) mask |= 0xffffu;
        if (given && turn.image + image[2 * k + 1] < B) mask |= 0xffff0000u;
        weight_pair(kept[slot][k], of_g[2 * k] + held, of_g[2 * k + 1] + held);
#pragma unroll
        for (int c = 0; c < OWN; ++c) kept[slot][k][c] &= mask;
      }
      if (HAS_MATRIX) {
        const word ones[4] = {ONES, ONES, ONES, ONES};
#pragma unroll
        for (int c = 0; c < OWN; ++c) halves_multiply(sum.bias[c], ones, kept[slot][0][c], kept[slot][1][c]);
      }
#pragma unroll
      for (int s = 0; s < STRIDE; ++s)
        if (weight_meets_row(s) && (word)(turn.row * STRIDE + s - TOP) < (word)H)
#pragma unroll
          for (int phase = 0; phase < STRIDE; ++phase)
            if (weight_has_phase(phase)) {
              word in[4][OWN];
#pragma unroll
              for (int k = 0; k < 4; ++k) {  // bit 0: the next eight columns; bit 1: the next eight lines
                const int at = held + s * X_ROW + phase * X_PITCH + k % 2 * LINE_X;
                weight_pair(in[k], of_x[k / 2 * 2] + at, of_x[k / 2 * 2 + 1] + at);
#pragma unroll
                for (int c = 0; c < OWN; ++c)
                  if (HAS_ONES && phase == 0 && k % 2 == 1 && row == 7) in[k][c] = ONES;
              }
#pragma unroll
              for (int c = 0; c < OWN; ++c) {
                const word a[4] = {in[0][c], in[1][c], in[2][c], in[3][c]};
#pragma unroll
                for (int behind = 0; behind < RING; ++behind) {
                  const int t = weight_met(behind * STRIDE + s, TR), slot_of = (slot - behind + RING) % RING;
                  if (t >= 0) halves_multiply(sum.taps[t][phase][c], a, kept[slot_of][0][c], kept[slot_of][1][c]);
                }
              }
            }
      weight_advance(turn);
    }
  __syncthreads();
}

// Stores the sums of row t of taps of this warp's lines, or of the bias if t is TR, for the block to add up. They lie
// from word `at` on; sets of lines are `pitch` words apart.
__device__ __forceinline__ void weight_give(const weight_sums& sum, int t, float* all, int at, int pitch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, q = lane % 4;
  const int own = warp % (CHANNELS / OWN) * OWN, set = warp / (CHANNELS / OWN), width = t < TR ? TC : 1;
  constexpr int OF_BIAS = HAS_ONES ? 15 : 0;  // the row of a matrix that has the bias's sums
  float* const matrices = all + SUM_WORDS + warp * MATRICES;
#pragma unroll
  for (int phase = 0; phase < STRIDE; ++phase)
#pragma unroll
    for (int c = 0; c < OWN; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        matrices[(phase * OWN + c) * 128 + (row + e / 2 * 8) * 8 + 2 * q + e % 2] =
            t < TR || HAS_ONES ? sum.taps[t < TR ? t : BIAS_TAP][phase][c][e] : sum.bias[c][e];
  __syncwarp();
  for (int i = lane; i < width * OWN; i += 32) {
    const int u = i / OWN, c = i % OWN, phase = u * DILATION % STRIDE, apart = u * DILATION / STRIDE;
    float total = 0.0f;
#pragma unroll
    for (int b = 0; b < 8; ++b) total += matrices[(phase * OWN + c) * 128 + (t < TR ? b + apart : OF_BIAS) * 8 + b];
    all[at + set * pitch + u * CHANNELS + own + c] = total;
  }
  __syncwarp();
}
