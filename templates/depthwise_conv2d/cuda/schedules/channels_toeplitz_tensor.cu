// Copies of channels_toeplitz.cu as tensor copies, which the first thread starts. A block has as many channels as a
// swizzle spans. So a quarter of a warp that reads operands of neighbouring columns uses all banks, as it does if tiles
// have two or four rows and strides are 1 or 2. A block's last channels may be outside the tensor. Their weights are then
// whatever shared memory held; they only reach outputs that are not stored.
constexpr int SPAN = CHANNELS * SIZE;
constexpr int up(int bytes, int step) { return (bytes + step - 1) / step * step; }
constexpr int WIDE = up(USED, 8), INPUT_WALK = PIECE * DOWN * WIDE * SPAN, INPUT_PIECE = WALKS * INPUT_WALK;
constexpr int OUTPUT_WALK = PIECE * TH * 8 * LINES * SPAN, OUTPUT_PIECE = WALKS * OUTPUT_WALK;
constexpr int RESIDUALS = HELD && HAS_RESIDUAL ? OUTPUTS : 0;  // pieces that have their own barriers
// The barriers come first: up to 16 are then on one side of a multiple of 128 bytes. On both, layers took up to 7 % longer.
constexpr int BARRIER_BYTES = up(8 * (INPUTS + 1 + RESIDUALS), 128);
constexpr int HEAD = up(BARRIER_BYTES + WEIGHT_BYTES, 8 * SPAN);
static_assert(SPAN == 32 || SPAN == 64 || SPAN == 128, "a span of a swizzle");
static_assert((HEAD + INPUTS * INPUT_PIECE + OUTPUTS * OUTPUT_PIECE) / 4 == @WORDS@,
              "the template's estimate of shared memory");

struct toeplitz_tensor {
  static constexpr int PHASES = 2, INPUT_ROW = WIDE * SPAN, OUTPUT_ROW = 8 * LINES * SPAN;
  static constexpr bool LEAVES_FIRST = true;  // a thread decides only once in a step whether it is the one that copies
  static constexpr __device__ int input_place(int walk, int column, int channel) {
    return tensor_swizzled<SPAN>(walk * INPUT_WALK + column * SPAN + channel * SIZE);
  }
  static constexpr __device__ int output_place(int walk, int row, int column, int channel) {
    return tensor_swizzled<SPAN>(walk * OUTPUT_WALK + row * OUTPUT_ROW + column * SPAN + channel * SIZE);
  }

  const toeplitz_work mine;
  const tensor_map x, residual, y;
  const char* const w;
  char *const weights, *const barriers, *const inputs, *const results;  // barriers of inputs, weights, residuals
  int stage = INPUTS - 1, before = 0;  // of this step and of the last
  int parity = 1;                      // of the barrier of this step's stage

  __device__ __forceinline__ toeplitz_tensor(const toeplitz_work& mine, tensor_map x, const char* w,
                                             tensor_map residual, tensor_map y, char* shared)
      : mine(mine), x(x), residual(residual), y(y), w(w), weights(shared + BARRIER_BYTES), barriers(shared),
        inputs(shared + HEAD), results(inputs + INPUTS * INPUT_PIECE) {}

  // Returns where the results of a step, or of a piece, lie.
  __device__ __forceinline__ char* outputs(int step, int turn) const {
    return results + toeplitz_place(step, turn) * OUTPUT_PIECE;
  }
  __device__ __forceinline__ char* outputs(int piece) const { return results + piece % OUTPUTS * OUTPUT_PIECE; }
  __device__ __forceinline__ int row(int step) const { return mine.row + (step - (RING - 1)) * TH; }

  // Starts to copy the input rows from one of the plane on, to the place `to`.
  __device__ __forceinline__ void fetch_input(int row, int to) const {
    tensor_fetch(inputs + to * INPUT_PIECE, x, mine.channel, mine.left, row, mine.image, barriers + 8 * to);
  }

  // Starts to copy the input rows of a step of the ring, and its residuals.
  __device__ __forceinline__ void fetch(int step, int turn, int to) const {
    const bool also = HAS_RESIDUAL && step >= RING - 1;
    tensor_expect(barriers + 8 * to, INPUT_PIECE + (also ? OUTPUT_PIECE : 0));
    fetch_input(mine.top + step * DOWN, to);
    if (also)
      tensor_fetch(outputs(step, turn), residual, mine.channel, mine.column, row(step), mine.image, barriers + 8 * to);
  }

  // Starts to copy all input and all residuals.
  __device__ __forceinline__ void fetch_all() const {
#pragma unroll 1
    for (int piece = 0; piece < INPUTS; ++piece) {
      tensor_expect(barriers + 8 * piece, INPUT_PIECE);
      fetch_input(mine.top + (ABOVE + piece * PIECE) * DOWN, piece);
    }
#pragma unroll 1
    for (int piece = 0; piece < RESIDUALS; ++piece) {
      char* const barrier = barriers + 8 * (INPUTS + 1 + piece);
      tensor_expect(barrier, OUTPUT_PIECE);
      tensor_fetch(outputs(piece), residual, mine.channel, mine.column, piece * PIECE * TH, mine.image, barrier);
    }
  }

  // Only the thread that copies waits for the launch before. The others meet it before they read what it copied.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      for (int each = 0; each <= INPUTS + RESIDUALS; ++each) tensor_barrier(barriers + 8 * each);
      tensor_prefetch(x), tensor_prefetch(y);
      wait_for_launch();
      const int bytes = min(CHANNELS, C - mine.channel) * (KERNEL * SIZE);
      tensor_expect(barriers + 8 * INPUTS, bytes);
      tensor_fetch_bytes(weights, w + (long long)mine.channel * (KERNEL * SIZE), bytes, barriers + 8 * INPUTS);
      if (HELD) {
        fetch_all();
      } else {
#pragma unroll 1
        for (int stage = 0; stage < STAGES - 1; ++stage)
          if (mine.first + stage < mine.steps) fetch(mine.first + stage, stage, stage);
      }
    }
  }

  __device__ __forceinline__ void await_weights() const {
    __syncthreads();
    tensor_await(barriers + 8 * INPUTS, 0);
  }

  __device__ __forceinline__ const char* await(int turn) {
    before = stage;
    stage = toeplitz_next_stage(stage, turn);
    if (stage == 0) parity ^= 1;
    tensor_await(barriers + 8 * stage, parity);
    __syncthreads();
    return inputs + stage * INPUT_PIECE;
  }

  __device__ __forceinline__ const char* await_input(int piece) const {
    tensor_await(barriers + 8 * piece, 0);
    return inputs + piece * INPUT_PIECE;
  }

  __device__ __forceinline__ char* await_residuals(int piece) const {
    if (RESIDUALS > 0) tensor_await(barriers + 8 * (INPUTS + 1 + piece), 0);
    return outputs(piece);
  }

  // Also waits until results have been read in whose place others will be: residuals that this thread copies now, or
  // what all threads write after they next meet.
  __device__ __forceinline__ void advance(int step, int turn) const {
    if (threadIdx.x != 0) return;
    if (HAS_RESIDUAL) tensor_await_reads<0>();
    if (step + STAGES - 1 < mine.steps) fetch(step + STAGES - 1, turn + STAGES - 1, before);
    if (step >= RING) leave(step - 1, turn - 1);
    if (!HAS_RESIDUAL) tensor_await_reads<OUTPUTS - 2>();
  }

  __device__ __forceinline__ void publish() const { tensor_publish(); }

  __device__ __forceinline__ void leave(int step, int turn) const {
    if (threadIdx.x == 0) tensor_leave(outputs(step, turn), y, mine.channel, mine.column, row(step), mine.image);
  }

  __device__ __forceinline__ void await_room() const {
    if (OUTPUTS < RESULTS && threadIdx.x == 0) tensor_await_reads<OUTPUTS - 2>();
  }

  __device__ __forceinline__ void leave_piece(int piece) const {
    if (threadIdx.x == 0)
      tensor_leave(outputs(piece), y, mine.channel, mine.column, piece * PIECE * TH, mine.image);
  }

  __device__ __forceinline__ void end() const {
    if (threadIdx.x == 0) tensor_await_writes();
  }
};

__device__ __forceinline__ void depthwise_channels_toeplitz(@MAPS@const void* __restrict__ x_any,
                                                            const void* __restrict__ w_any, @ADDED@
                                                            void* __restrict__ y_any, word* shared) {
  const char *const x = (const char*)x_any, *const w = (const char*)w_any;
  const char *const bias_of = (const char*)@BIAS@, *const residual_of = (const char*)@RESIDUAL@;
  char* const y = (char*)y_any;
  toeplitz_block<toeplitz_tensor>(x, w, bias_of, residual_of, y, x_map, w, @RESIDUAL_MAP@, y_map, (char*)shared);
}
