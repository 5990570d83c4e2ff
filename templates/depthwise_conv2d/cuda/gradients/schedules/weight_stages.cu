// Rows in shared memory. The rows of COPIED_STEPS steps are copied together and asynchronously, STAGES - 1 times as
// many steps before their use. Columns outside the plane are zeros in shared memory.
constexpr int COPIED_STEPS = @COPIED_STEPS@, HELD = STAGES * COPIED_STEPS, VECTORS = CHANNELS * SIZE / 16;  // of a position
static_assert(DOWN * ASIDE == 1 && CHANNELS * SIZE % 16 == 0, "one tile of taps, whole vectors");

// Returns the bytes from a position to the next. For tensor cores it is an odd number of vectors, and lines of eight
// outputs are two vectors further apart (SKEW). Otherwise neighbouring places of a warp are in different banks, if
// padding of up to 112 bytes can do it.
constexpr int SKEW = TENSOR ? 32 : 0;
constexpr int weight_pitch(int positions) {
  if (TENSOR) return (VECTORS | 1) * 16;
  for (int pad = 0; pad < 8; ++pad)
    if ((positions * (CHANNELS * SIZE + 16 * pad) - CHANNELS * SIZE) % 128 == 0) return CHANNELS * SIZE + 16 * pad;
  return CHANNELS * SIZE;
}
constexpr int X_PITCH = weight_pitch(V * STRIDE), G_PITCH = weight_pitch(V);
constexpr int weight_x(int column) { return column * X_PITCH + column / (V * STRIDE) * SKEW; }
constexpr int weight_g(int column) { return column * G_PITCH + column / V * SKEW; }
constexpr int X_WIDTH = TENSOR ? (GROUPS + 1) * V * STRIDE : (GROUPS - 1) * V * STRIDE + COLUMNS;
constexpr int X_ROW = weight_x(X_WIDTH), G_ROW = weight_g(GROUPS * V);
constexpr int STEP = IMAGES * (STRIDE * X_ROW + COPIED * G_ROW);
static_assert(HELD * STEP / 4 <= SHARED_WORDS, "the template's estimate of shared memory");

// A step of a range: its first image, its row of the gradient, the row after the range's last one in these images,
// which of the HELD steps in shared memory it is, and where the range ends.
struct weight_turn {
  int image, row, to, held, end;
};

__device__ __forceinline__ void weight_enter(weight_turn& turn, int at) {
  const weight_piece piece = weight_piece_at(at, turn.end);
  turn.image = piece.image, turn.row = piece.from, turn.to = piece.to;
}
__device__ __forceinline__ weight_turn weight_first(int start, int end) {
  weight_turn turn;
  turn.held = 0, turn.end = end;
  weight_enter(turn, start);
  return turn;
}
__device__ __forceinline__ void weight_advance(weight_turn& turn) {
  turn.held = turn.held + 1 == HELD ? 0 : turn.held + 1;
  if (++turn.row == turn.to + RING - 1) weight_enter(turn, turn.image / IMAGES * HO + turn.to);
}
// Returns whether the step's row of the gradient is one of the range. Otherwise the step only has input rows.
__device__ __forceinline__ bool weight_is_given(const weight_turn& turn) { return turn.row < turn.to; }

// Clears the columns outside the plane, for all steps that shared memory holds.
constexpr int X_FROM = LEFT < 0 ? 0 : LEFT < X_WIDTH ? LEFT : X_WIDTH;
constexpr int X_TO = LEFT + W < X_FROM ? X_FROM : LEFT + W < X_WIDTH ? LEFT + W : X_WIDTH;
constexpr int X_OUTSIDE = X_WIDTH - (X_TO - X_FROM), G_OUTSIDE = GROUPS * V - WO;
__device__ __forceinline__ void weight_clear(char* shared) {
  const uint4 zero = make_uint4(0, 0, 0, 0);
  if (TENSOR && B % IMAGES != 0) {  // products include images that do not exist: they must not be NaN, and meet zeros
#pragma unroll 1
    for (int v = threadIdx.x; v < HELD * STEP / 16; v += THREADS) ((uint4*)shared)[v] = zero;
    __syncthreads();
    return;
  }
#pragma unroll 1
  for (int v = threadIdx.x; v < HELD * IMAGES * STRIDE * X_OUTSIDE * VECTORS; v += THREADS) {
    const int outside = v / VECTORS % max(1, X_OUTSIDE), row = v / VECTORS / max(1, X_OUTSIDE);
    const int column = outside < X_FROM ? outside : outside + X_TO - X_FROM, held = row / (IMAGES * STRIDE);
    *(uint4*)(shared + held * STEP + row % (IMAGES * STRIDE) * X_ROW + weight_x(column) + v % VECTORS * 16) = zero;
  }
#pragma unroll 1
  for (int v = threadIdx.x; v < HELD * IMAGES * COPIED * G_OUTSIDE * VECTORS; v += THREADS) {
    const int column = WO + v / VECTORS % max(1, G_OUTSIDE), row = v / VECTORS / max(1, G_OUTSIDE);
    const int at = row / (IMAGES * COPIED) * STEP + IMAGES * STRIDE * X_ROW + row % (IMAGES * COPIED) * G_ROW;
    *(uint4*)(shared + at + weight_g(column) + v % VECTORS * 16) = zero;
  }
  __syncthreads();
}

// The vectors that a thread copies in each step, of the input and the gradient: offsets in bytes in shared memory, from
// the step's beginning, or -1 if there is no such vector; and in the tensors, from the row's beginning.
constexpr int X_VECTORS = IMAGES * W * VECTORS, G_VECTORS = IMAGES * WO * VECTORS;
constexpr int X_COPIES = (X_VECTORS + THREADS - 1) / THREADS, G_COPIES = (G_VECTORS + THREADS - 1) / THREADS;
struct weight_copies {
  int x_to[X_COPIES], x_from[X_COPIES], g_to[G_COPIES], g_from[G_COPIES];
};

__device__ __forceinline__ weight_copies weight_copies_of(int thread) {
  weight_copies mine;
#pragma unroll
  for (int k = 0; k < X_COPIES; ++k) {
    const int v = k * THREADS + thread, column = v / VECTORS % W, image = v / VECTORS / W, at = column + LEFT;
    const bool any = v < X_VECTORS && at >= 0 && at < X_WIDTH;
    mine.x_to[k] = any ? image * STRIDE * X_ROW + weight_x(at) + v % VECTORS * 16 : -1;
    mine.x_from[k] = (image * (H * W * C) + column * C) * SIZE + v % VECTORS * 16;
  }
#pragma unroll
  for (int k = 0; k < G_COPIES; ++k) {
    const int v = k * THREADS + thread, column = v / VECTORS % WO, image = v / VECTORS / WO;
    mine.g_to[k] = v < G_VECTORS ? image * COPIED * G_ROW + weight_g(column) + v % VECTORS * 16 : -1;
    mine.g_from[k] = (image * (HO * WO * C) + column * C) * SIZE + v % VECTORS * 16;
  }
  return mine;
}

// The state of a thread's copies: its vectors, the next step to copy, and how many steps are left.
struct weight_copying {
  weight_copies mine;
  weight_turn turn;
  int left;
};

// Starts to copy the rows of the next COPIED_STEPS steps.
__device__ __forceinline__ void weight_fetch(weight_copying& copying, shared_place shared, const char* x, const char* g,
                                             const char* z, int first) {
  const weight_copies& mine = copying.mine;
#pragma unroll 1
  for (int n = min(COPIED_STEPS, copying.left); n > 0; --n) {
    const weight_turn& turn = copying.turn;
    const shared_place to = shared + turn.held * STEP;
    const int images = B % IMAGES == 0 ? IMAGES : min(IMAGES, B - turn.image);
#pragma unroll
    for (int s = 0; s < STRIDE; ++s) {
      const int xr = turn.row * STRIDE + s - TOP;
      if (weight_meets_row(s) && (word)xr < (word)H) {
        const char* const from = x + ((long long)(turn.image * H + xr) * (W * C) + first) * SIZE;
#pragma unroll
        for (int k = 0; k < X_COPIES; ++k)
          if (mine.x_to[k] >= 0 && (B % IMAGES == 0 || k * THREADS + (int)threadIdx.x < images * (W * VECTORS)))
            weight_copy(to + s * X_ROW + mine.x_to[k], from + mine.x_from[k]);
      }
    }
    if (weight_is_given(turn)) {
      const long long at = ((long long)(turn.image * HO + turn.row) * (WO * C) + first) * SIZE;
#pragma unroll
      for (int k = 0; k < G_COPIES; ++k)
        if (mine.g_to[k] >= 0 && (B % IMAGES == 0 || k * THREADS + (int)threadIdx.x < images * (WO * VECTORS))) {
          const shared_place there = to + IMAGES * STRIDE * X_ROW + mine.g_to[k];
          weight_copy(there, g + at + mine.g_from[k]);
          if (HAS_DERIVATIVE) weight_copy(there + G_ROW, z + at + mine.g_from[k]);
        }
    }
    weight_advance(copying.turn);
    --copying.left;
  }
  weight_commit();
}
