// By way of shared memory, where the rows of COPIED_STEPS steps come together by asynchronous copies, STAGES - 1 times as
// many steps before they are used. Columns outside the plane are zeros there.
constexpr int STAGES = @STAGES@, COPIED_STEPS = @COPIED_STEPS@, HELD = STAGES * COPIED_STEPS, VECTORS = CHANNELS * SIZE / 16;  // of a position
constexpr int COPIED = HAS_DERIVATIVE ? 2 : 1;                    // the gradient, and the sums
static_assert(DOWN * ASIDE == 1 && CHANNELS * SIZE % 16 == 0, "one tile of taps, whole vectors");

// Bytes from a position to the next: for tensor cores an odd number of vectors, and lines of eight outputs are two more
// apart; else so that neighbouring places of a warp are in different banks, if that can be.
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
__device__ __forceinline__ void weight_copy(shared_place to, const char* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
#else
  const uint4 v = *(const uint4*)from;
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
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
inline void weight_copy(shared_place to, const char* from) { __builtin_memcpy(to, from, 16); }
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

// A step: its item, and in that the images, the strip and the row of the gradient, and where the step is held.
struct weight_turn {
  int item, image, strip, row, held;
};

__device__ __forceinline__ void weight_enter(weight_turn& turn) {
  turn.image = turn.item / STRIPS * IMAGES, turn.strip = turn.item % STRIPS * R, turn.row = turn.strip;
}
__device__ __forceinline__ weight_turn weight_first(int part) {
  weight_turn turn;
  turn.item = part * WALKS, turn.held = 0;
  weight_enter(turn);
  return turn;
}
__device__ __forceinline__ void weight_advance(weight_turn& turn) {
  turn.held = turn.held + 1 == HELD ? 0 : turn.held + 1;
  if (++turn.row == turn.strip + STEPS) {
    ++turn.item;
    weight_enter(turn);
  }
}
// Whether the strip has that row, or is followed by rows without any.
__device__ __forceinline__ bool weight_is_given(const weight_turn& turn) {
  return turn.row < min(turn.strip + R, HO);
}

__device__ __forceinline__ void weight_clear(char* shared) {
#pragma unroll 1
  for (int v = threadIdx.x; v < HELD * STEP / 16; v += THREADS) ((uint4*)shared)[v] = make_uint4(0, 0, 0, 0);
  __syncthreads();
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
  int left;
};

// The rows of the next COPIED_STEPS steps.
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
