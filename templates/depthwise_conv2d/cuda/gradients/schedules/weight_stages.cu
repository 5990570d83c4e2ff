// By way of shared memory, where the rows of COPIED_STEPS steps come together by asynchronous copies, STAGES - 1 times as
// many steps before they are used. Rows and columns outside the plane are zeros there, as are rows of the gradient that a
// strip does not have. The loop over HELD steps is unrolled, so that their places are numbers in the instructions.
constexpr int STAGES = @STAGES@, COPIED_STEPS = @COPIED_STEPS@, HELD = STAGES * COPIED_STEPS;
constexpr int VECTORS = CHANNELS * SIZE / 16;   // of a position
constexpr int COPIED = HAS_DERIVATIVE ? 2 : 1;  // the gradient, and the sums
static_assert(HELD % RING == 0, "a step's place in the ring is a number too");
static_assert(DOWN * ASIDE == 1 && CHANNELS * SIZE % 16 == 0, "one tile of taps, whole vectors");

// Bytes from a position to the next: for tensor cores an odd number of vectors, and lines of eight outputs are one more
// apart; else so that neighbouring places of a warp are in different banks, if that can be.
constexpr int SKEW = TENSOR ? 16 : 0;
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
constexpr int STEPS = R + RING - 1;  // of a strip
static_assert(HELD * STEP / 4 <= @WORDS@, "the template's estimate of shared memory");

// Places in shared memory are numbers: the compiler would make a pointer anew for each load.
#ifdef __CUDA_ARCH__
typedef word shared_place;
__device__ __forceinline__ shared_place weight_place_of(char* shared) {
  word place = (word)__cvta_generic_to_shared(shared);
  asm volatile("mov.b32 %0, %0;" : "+r"(place));
  return place;
}
// 16 bytes, or zeros.
__device__ __forceinline__ void weight_copy(shared_place to, const char* from, bool any) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(any ? 16 : 0) : "memory");
#else
  const uint4 v = any ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}
__device__ __forceinline__ void weight_store_zeros(shared_place to) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(to), "r"(0) : "memory");
}
// BYTES from there.
template <int BYTES>
__device__ __forceinline__ void weight_read(word* v, shared_place from) {
  if constexpr (BYTES == 16)
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(from));
  else if constexpr (BYTES == 8)
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(from));
  else if constexpr (BYTES == 4)
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v[0]) : "r"(from));
  else
    asm volatile("{.reg .u16 h; ld.shared.u16 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(v[0]) : "r"(from));
}
#else
typedef char* shared_place;
inline shared_place weight_place_of(char* shared) { return shared; }
inline void weight_copy(shared_place to, const char* from, bool any) {
  if (any) __builtin_memcpy(to, from, 16);
  else __builtin_memset(to, 0, 16);
}
inline void weight_store_zeros(shared_place to) { __builtin_memset(to, 0, 16); }
template <int BYTES>
void weight_read(word* v, shared_place from) {
  __builtin_memcpy(v, from, BYTES);
}
#endif

// Ends a group of copies.
__device__ __forceinline__ void weight_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until the copies of the next COPIED_STEPS steps have come.
__device__ __forceinline__ void weight_await() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
#endif
}

// A step that is copied: its item, the first of its images, its row of the gradient, which of the strip's `row` to `end`
// are given, and where in the tensors its rows begin.
struct weight_turn {
  int item, image, row, given, end;
  long long x, g;
};

__device__ __forceinline__ void weight_enter(weight_turn& turn, int first) {
  turn.image = turn.item / STRIPS * IMAGES, turn.row = turn.item % STRIPS * R;
  turn.given = min(turn.row + R, HO), turn.end = turn.row + STEPS;
  turn.x = ((long long)(turn.image * H + turn.row * STRIDE - TOP) * (W * C) + first) * SIZE;
  turn.g = ((long long)(turn.image * HO + turn.row) * (WO * C) + first) * SIZE;
}
__device__ __forceinline__ void weight_advance(weight_turn& turn, int first) {
  turn.x += (long long)STRIDE * W * C * SIZE, turn.g += (long long)WO * C * SIZE;
  if (++turn.row == turn.end) {
    ++turn.item;
    weight_enter(turn, first);
  }
}

// Zeros in the columns that no copy reaches, on both sides of the input's and behind the gradient's.
constexpr __device__ int weight_column(int at) { return at < 0 ? 0 : at < X_WIDTH ? at : X_WIDTH; }
constexpr int X_FROM = weight_column(LEFT), X_TO = weight_column(LEFT + W);
constexpr int X_BESIDE = X_FROM + X_WIDTH - X_TO, G_BESIDE = GROUPS * V - WO;
constexpr int BESIDE = STRIDE * X_BESIDE + COPIED * G_BESIDE;  // of an image
__device__ __forceinline__ void weight_clear(shared_place shared) {
#pragma unroll 1
  for (int v = threadIdx.x; v < HELD * IMAGES * BESIDE * VECTORS; v += THREADS) {
    const int at = v / VECTORS % max(1, BESIDE), image = v / VECTORS / max(1, BESIDE) % IMAGES;
    const shared_place step = shared + v / VECTORS / max(1, BESIDE) / IMAGES * STEP + v % VECTORS * 16;
    if (at < STRIDE * X_BESIDE) {
      const int k = at % max(1, X_BESIDE), column = k < X_FROM ? k : X_TO + k - X_FROM;
      weight_store_zeros(step + (image * STRIDE + at / max(1, X_BESIDE)) * X_ROW + weight_x(column));
    } else {
      const int k = at - STRIDE * X_BESIDE, column = WO + k % max(1, G_BESIDE);
      weight_store_zeros(step + IMAGES * STRIDE * X_ROW + (image * COPIED + k / max(1, G_BESIDE)) * G_ROW + weight_g(column));
    }
  }
}

// What a thread copies of a step: places in shared memory from its step on, none: -1, and in the tensors from its row on.
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

// What is on its way: the next step to copy, and how many are left.
struct weight_copying {
  weight_copies mine;
  weight_turn turn;
  int left, first;
};

__device__ __forceinline__ weight_copying weight_begin(int part, int steps, int first) {
  weight_copying copying = {weight_copies_of(threadIdx.x)};
  copying.turn.item = part * WALKS, copying.left = steps, copying.first = first;
  weight_enter(copying.turn, first);
  return copying;
}

// The rows of the next COPIED_STEPS steps, if there are any, to places from `slot` on; zeros after the last step.
__device__ __forceinline__ void weight_fetch(weight_copying& copying, shared_place shared, const char* x, const char* g,
                                             const char* z, int slot) {
  const weight_copies& mine = copying.mine;
  if (copying.left > 0)
#pragma unroll
    for (int n = 0; n < COPIED_STEPS; ++n) {
      const weight_turn& turn = copying.turn;
      const shared_place to = shared + (slot + n) % HELD * STEP;
      const bool any = copying.left > 0, given = any && turn.row < turn.given;
      const int images = B - turn.image;
#pragma unroll
      for (int s = 0; s < STRIDE; ++s)
        if (weight_meets_row(s)) {
          const bool inside = any && (word)(turn.row * STRIDE + s - TOP) < (word)H;
          const char* const from = x + turn.x + s * (W * C * SIZE);
#pragma unroll
          for (int k = 0; k < X_COPIES; ++k)
            if (mine.x_to[k] >= 0)
              weight_copy(to + s * X_ROW + mine.x_to[k], from + mine.x_from[k],
                          inside && (B % IMAGES == 0 || k * THREADS + (int)threadIdx.x < images * (W * VECTORS)));
        }
#pragma unroll
      for (int k = 0; k < G_COPIES; ++k)
        if (mine.g_to[k] >= 0) {
          const shared_place there = to + IMAGES * STRIDE * X_ROW + mine.g_to[k];
          const bool is_there = given && (B % IMAGES == 0 || k * THREADS + (int)threadIdx.x < images * (WO * VECTORS));
          weight_copy(there, g + turn.g + mine.g_from[k], is_there);
          if (HAS_DERIVATIVE) weight_copy(there + G_ROW, z + turn.g + mine.g_from[k], is_there);
        }
      weight_advance(copying.turn, copying.first);
      --copying.left;
    }
  weight_commit();
}
