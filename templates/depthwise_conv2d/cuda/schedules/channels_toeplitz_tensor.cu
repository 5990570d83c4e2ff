// Copies of channels_toeplitz.cu as tensor copies, which the first thread starts. A block has as many channels as a
// swizzle spans. So a quarter of a warp that reads operands of neighbouring columns uses all banks, as it does if tiles
// have two or four rows and strides are 1 or 2. A block's last channels may be outside the tensor. Their weights are then
// whatever shared memory held; they only reach outputs that are not stored.
constexpr int SPAN = CHANNELS * SIZE;
constexpr int up(int bytes, int step) { return (bytes + step - 1) / step * step; }
constexpr int WIDE = up(USED, 8), INPUT_WALK = DOWN * WIDE * SPAN, INPUT_STEP = WALKS * INPUT_WALK;
constexpr int OUTPUT_ROW = 8 * LINES * SPAN, OUTPUT_STEP = WALKS * TH * OUTPUT_ROW;
constexpr int HEAD = up(WEIGHT_BYTES + 8 * (STAGES + 1), 8 * SPAN);  // the weights and the barriers
static_assert(SPAN == 32 || SPAN == 64 || SPAN == 128, "a span of a swizzle");
static_assert((HEAD + STAGES * INPUT_STEP + OUTPUTS * OUTPUT_STEP) / 4 == @WORDS@,
              "the template's estimate of shared memory");

struct toeplitz_tensor {
  static constexpr int PHASES = 2, INPUT_ROW = WIDE * SPAN;
  static constexpr bool LEAVES_FIRST = true;  // await() then waits less for them
  static constexpr __device__ int input_place(int walk, int column, int channel) {
    return tensor_swizzled<SPAN>(walk * INPUT_WALK + column * SPAN + channel * SIZE);
  }
  static constexpr __device__ int output_place(int walk, int row, int column, int channel) {
    return tensor_swizzled<SPAN>((walk * TH + row) * OUTPUT_ROW + column * SPAN + channel * SIZE);
  }

  const toeplitz_work mine;
  const tensor_map x, residual, y;
  const char* const w;
  char *const weights, *const barriers, *const inputs, *const results;  // the weights' barrier is the last one
  int stage = STAGES - 1, before = 0;  // of this step and of the last
  int parity = 1;                      // of the barrier of this step's stage

  __device__ __forceinline__ toeplitz_tensor(const toeplitz_work& mine, tensor_map x, const char* w,
                                             tensor_map residual, tensor_map y, char* shared)
      : mine(mine), x(x), residual(residual), y(y), w(w), weights(shared), barriers(shared + WEIGHT_BYTES),
        inputs(shared + HEAD), results(inputs + STAGES * INPUT_STEP) {}

  __device__ __forceinline__ char* outputs(int step) const { return results + step % OUTPUTS * OUTPUT_STEP; }
  __device__ __forceinline__ int row(int step) const { return mine.row + (step - (RING - 1)) * TH; }

  // Starts to copy the input rows of a step, and its residuals.
  __device__ __forceinline__ void fetch(int step, int to) const {
    char* const barrier = barriers + 8 * to;
    const bool also = HAS_RESIDUAL && step >= RING - 1;
    tensor_expect(barrier, INPUT_STEP + (also ? OUTPUT_STEP : 0));
    tensor_fetch(inputs + to * INPUT_STEP, x, mine.channel, mine.left, mine.top + step * DOWN, mine.image, barrier);
    if (also) tensor_fetch(outputs(step), residual, mine.channel, mine.column, row(step), mine.image, barrier);
  }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      for (int each = 0; each <= STAGES; ++each) tensor_barrier(barriers + 8 * each);
      const int bytes = min(CHANNELS, C - mine.channel) * (KERNEL * SIZE);
      tensor_expect(barriers + 8 * STAGES, bytes);
      tensor_fetch_bytes(weights, w + (long long)mine.channel * (KERNEL * SIZE), bytes, barriers + 8 * STAGES);
#pragma unroll 1
      for (int step = 0; step < STAGES - 1; ++step)
        if (step < mine.steps) fetch(step, step);
    }
  }

  __device__ __forceinline__ void await_weights() const {
    __syncthreads();
    tensor_await(barriers + 8 * STAGES, 0);
  }

  __device__ __forceinline__ const char* await() {
    before = stage;
    if (++stage == STAGES) stage = 0, parity ^= 1;
    tensor_await(barriers + 8 * stage, parity);
    if (threadIdx.x == 0) tensor_await_reads();  // of results in whose place others will be
    __syncthreads();
    return inputs + stage * INPUT_STEP;
  }

  __device__ __forceinline__ void advance(int step) const {
    if (threadIdx.x == 0 && step + STAGES - 1 < mine.steps) fetch(step + STAGES - 1, before);
  }

  __device__ __forceinline__ void publish() const { tensor_publish(); }

  __device__ __forceinline__ void leave(int step) const {
    if (threadIdx.x == 0) tensor_leave(outputs(step), y, mine.channel, mine.column, row(step), mine.image);
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
