// Copies of channels_toeplitz.cu by all threads. A thread copies the same vectors of each step, so that it computes
// their places once.
//
// Positions in shared memory are an odd number of vectors apart. If neighbouring rows of a fragment belong to different
// lines, each line begins another 64 bytes on. So a quarter of a warp uses all banks.
constexpr int VECTORS = CHANNELS / 8;
constexpr int PITCH = (VECTORS | 1) * 16, SKEW = TW == 4 ? 64 : 0;
constexpr int place_of(int column, int line) { return column * PITCH + column / line * SKEW; }
constexpr int apart(int bytes, int banks) { return (bytes + 127 - banks) / 128 * 128 + banks; }
constexpr int FROM = ACROSS > 1 || LEFT < 0 ? 0 : LEFT < USED ? LEFT : USED;  // the first column that may be inside
constexpr int TO = ACROSS > 1 || W + LEFT > USED ? USED : W + LEFT > FROM ? W + LEFT : FROM;
constexpr int INPUT_WALK = apart(place_of(USED - 1, 8 * STRIDE) + PITCH, 64), INPUT_STEP = DOWN * WALKS * INPUT_WALK;
constexpr int INPUT_PIECE = PIECE * INPUT_STEP;
constexpr int COLUMNS = ACROSS > 1 ? 8 * LINES : WO;  // output columns that are stored
constexpr int OUTPUT_WALK = apart(place_of(8 * LINES - 1, 8) + PITCH, 64);
constexpr int OUTPUT_ROW = apart(WALKS * OUTPUT_WALK, 128 / TH % 128), OUTPUT_PIECE = PIECE * TH * OUTPUT_ROW;
static_assert(C % CHANNELS == 0, "whole blocks of channels");
static_assert((WEIGHT_BYTES + INPUTS * INPUT_PIECE + OUTPUTS * OUTPUT_PIECE) / 4 == @WORDS@,
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
    constexpr int TO_ROW = I * (WALKS * INPUT_WALK), FROM_ROW = I * (W * C * SIZE);
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
// Waits for a piece of input, of which the compiler knows the number.
template <int PIECE_NUMBER = 0>
__device__ __forceinline__ void toeplitz_await_piece(int piece) {
  if (piece == PIECE_NUMBER) toeplitz_await<INPUTS - 1 - PIECE_NUMBER>();
  else if constexpr (PIECE_NUMBER + 1 < INPUTS) toeplitz_await_piece<PIECE_NUMBER + 1>(piece);
}

struct toeplitz_threads {
  static constexpr int PHASES = 1, INPUT_ROW = WALKS * INPUT_WALK, OUTPUT_ROW = ::OUTPUT_ROW;
  static constexpr bool LEAVES_FIRST = false;
  static constexpr __device__ int input_place(int walk, int column, int channel) {
    return walk * INPUT_WALK + place_of(column, 8 * STRIDE) + channel * SIZE;
  }
  static constexpr __device__ int output_place(int walk, int row, int column, int channel) {
    return row * OUTPUT_ROW + walk * OUTPUT_WALK + place_of(column, 8) + channel * SIZE;
  }
  static constexpr int WIDE = TO > FROM ? TO - FROM : 1, FETCHED = (WALKS * WIDE * VECTORS + THREADS - 1) / THREADS;
  static constexpr int STORED = (WALKS * COLUMNS * VECTORS + THREADS - 1) / THREADS;

  const toeplitz_work mine;
  const char *const w, *const residual_of;
  char* const y;
  char *const weights, *const inputs, *const results;
  int stage = INPUTS - 1, before = 0;  // of this step and of the last
  const char* upcoming;                // the next step's first row of image 0
  // The vectors of an input row that this thread copies: the offset in bytes in the tensor, from the row of image 0,
  // and in shared memory; the latter is -1 if there is no such vector. Then the same for an output row.
  word input_at[FETCHED], output_at[STORED];
  int input_to[FETCHED], output_from[STORED];

  __device__ __forceinline__ toeplitz_threads(const toeplitz_work& mine, const char* x, const char* w,
                                              const char* residual, char* y, char* shared)
      : mine(mine), w(w), residual_of(residual), y(y), weights(shared), inputs(shared + WEIGHT_BYTES),
        results(inputs + INPUTS * INPUT_PIECE),
        upcoming(x + (long long)(mine.top + mine.first * DOWN) * (W * C * SIZE)) {
#pragma unroll
    for (int k = 0; k < FETCHED; ++k) {
      const int v = k * THREADS + threadIdx.x, walk = WALKS == 1 ? 0 : v / VECTORS / WIDE;
      const int column = FROM + v / VECTORS - walk * WIDE;
      const bool any = TO > FROM && walk < WALKS && column < FROM + WIDE &&
                       (ACROSS == 1 || (word)(mine.left + column) < (word)W);
      const int image = WALKS == 1 ? mine.image : min(mine.image + walk, B - 1);
      const int place = (image * (H * W) + mine.left + column) * C + mine.channel + v % VECTORS * 8;
      input_at[k] = (word)place * SIZE;
      input_to[k] = any ? input_place(walk, column, v % VECTORS * 8) : -1;
    }
#pragma unroll
    for (int k = 0; k < STORED; ++k) {
      const int v = k * THREADS + threadIdx.x, walk = WALKS == 1 ? 0 : v / VECTORS / COLUMNS;
      const int column = v / VECTORS - walk * COLUMNS;
      const bool any = walk < min(WALKS, B - mine.image) && column < COLUMNS &&
                       (ACROSS == 1 || mine.column + column < WO);
      const int place = ((mine.image + walk) * (HO * WO) + mine.column + column) * C + mine.channel + v % VECTORS * 8;
      output_at[k] = (word)place * SIZE;
      output_from[k] = any ? output_place(walk, 0, column, v % VECTORS * 8) : -1;
    }
  }

  // Returns where the results of a step, or of a piece, lie.
  __device__ __forceinline__ char* outputs(int step, int turn) const {
    return results + toeplitz_place(step, turn) * OUTPUT_PIECE;
  }
  __device__ __forceinline__ char* outputs(int piece) const { return results + piece % OUTPUTS * OUTPUT_PIECE; }
  // Returns the first output row of a step of the ring.
  __device__ __forceinline__ int row(int step) const { return mine.row + (step - (RING - 1)) * TH; }

  // Calls use(place in shared memory, place in the tensor) for each vector of outputs that this thread copies. They lie
  // in shared memory from `results_at` on, and in the tensor from a row on.
  template <class Tensor, class Use>
  __device__ __forceinline__ void each_output(char* results_at, int row, Tensor tensor, Use use) const {
    const auto first = tensor + (long long)row * (WO * C * SIZE);
#pragma unroll
    for (int k = 0; k < STORED; ++k) {
      if (output_from[k] < 0) continue;
      const auto at = first + output_at[k];
#pragma unroll
      for (int i = 0; i < PIECE * TH; ++i)
        if (row + i < mine.last) use(results_at + i * OUTPUT_ROW + output_from[k], at + i * (WO * C * SIZE));
    }
  }
  __device__ __forceinline__ void fetch_residuals(char* to, int row) const {
    if (HAS_RESIDUAL) each_output(to, row, residual_of, [](char* place, const char* at) { toeplitz_copy(place, at); });
  }
  __device__ __forceinline__ void store(char* from, int row) const {
    each_output(from, row, y, [](char* place, char* at) {
      const uint4 v = *(const uint4*)place;
      const word packed[4] = {v.x, v.y, v.z, v.w};
      element_put<16>(at, packed);
    });
  }

  // Starts to copy the input rows of a step. Calls must be for consecutive steps.
  __device__ __forceinline__ void fetch_rows(int step, char* to) {
    int bytes[DOWN];
#pragma unroll
    for (int i = 0; i < DOWN; ++i) bytes[i] = (word)(mine.top + step * DOWN + i) < (word)H ? 16 : 0;
#pragma unroll
    for (int k = 0; k < FETCHED; ++k)
      if (input_to[k] >= 0) toeplitz_copy_rows(to + input_to[k], upcoming + input_at[k], bytes);
    upcoming += DOWN * W * C * SIZE;
  }

  // Does the same in the ring, with the step's residuals.
  __device__ __forceinline__ void fetch(int step, int turn, int to) {
    fetch_rows(step, inputs + to * INPUT_STEP);
    if (step >= RING - 1) fetch_residuals(outputs(step, turn), row(step));
  }

  // Starts to copy all input. The residuals come with the weights.
  __device__ __forceinline__ void fetch_all() {
#pragma unroll 1
    for (int piece = 0; piece < RESULTS; ++piece) fetch_residuals(outputs(piece), piece * PIECE * TH);
    toeplitz_commit();
#pragma unroll 1
    for (int piece = 0; piece < INPUTS; ++piece) {
#pragma unroll 1
      for (int step = 0; step < PIECE; ++step)
        fetch_rows(ABOVE + piece * PIECE + step, inputs + piece * INPUT_PIECE + step * INPUT_STEP);
      toeplitz_commit();
    }
  }

  __device__ __forceinline__ void begin() {
    wait_for_launch();
    for (int i = threadIdx.x; i < WEIGHT_BYTES / 16; i += THREADS)
      toeplitz_copy(weights + 16 * i, w + (long long)mine.channel * (KERNEL * SIZE) + 16 * i);
    if (HELD) {
      fetch_all();
    } else {
      toeplitz_commit();
#pragma unroll 1
      for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (mine.first + stage < mine.steps) fetch(mine.first + stage, stage, stage);
        toeplitz_commit();
      }
    }
    // Clear the columns outside the plane. They stay zero, because no input is copied there.
    constexpr int BESIDE = ACROSS > 1 ? USED : USED - (TO - FROM);
    if constexpr (BESIDE > 0)
#pragma unroll 1
      for (int v = threadIdx.x; v < INPUTS * PIECE * DOWN * WALKS * BESIDE * VECTORS; v += THREADS) {
        const int beside = v / VECTORS % BESIDE, row = v / VECTORS / BESIDE;
        const int column = ACROSS > 1 || beside < FROM ? beside : beside + (TO - FROM);
        if (ACROSS == 1 || (word)(mine.left + column) >= (word)W)
          *(uint4*)(inputs + row * INPUT_WALK + input_place(0, column, v % VECTORS * 8)) = make_uint4(0, 0, 0, 0);
      }
  }

  __device__ __forceinline__ void await_weights() const {
    toeplitz_await<HELD ? INPUTS : STAGES - 1>();
    __syncthreads();
  }

  __device__ __forceinline__ const char* await(int turn) {
    before = stage;
    stage = toeplitz_next_stage(stage, turn);
    toeplitz_await<HELD ? 0 : STAGES - 2>();
    __syncthreads();
    return inputs + stage * INPUT_STEP;
  }

  __device__ __forceinline__ const char* await_input(int piece) const {
    toeplitz_await_piece(piece);
    __syncthreads();
    return inputs + piece * INPUT_PIECE;
  }

  __device__ __forceinline__ char* await_residuals(int piece) const { return outputs(piece); }
  __device__ __forceinline__ void await_room() const {}

  __device__ __forceinline__ void advance(int step, int turn) {
    if (step + STAGES - 1 < mine.steps) fetch(step + STAGES - 1, turn + STAGES - 1, before);
    toeplitz_commit();
  }

  __device__ __forceinline__ void publish() const {}

  __device__ __forceinline__ void leave(int step, int turn) const { store(outputs(step, turn), row(step)); }
  __device__ __forceinline__ void leave_piece(int piece) const { store(outputs(piece), piece * PIECE * TH); }
  __device__ __forceinline__ void end() const {}
};

__device__ __forceinline__ void depthwise_channels_toeplitz(const void* __restrict__ x_any,
                                                            const void* __restrict__ w_any, @ADDED@
                                                            void* __restrict__ y_any, word* shared) {
  const char *const x = (const char*)x_any, *const w = (const char*)w_any;
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  char* const y = (char*)y_any;
  toeplitz_block<toeplitz_threads>(x, w, bias_of, residual_of, y, x, w, residual_of, y, (char*)shared);
}
