// Depthwise convolution, channels last. A thread sums R rows by V columns of outputs of N neighbouring channels. A
// block has ACROSS vectors of N channels at each of POINTS places; neighbouring lanes have neighbouring vectors. If a
// plane is no whole number of strips or groups, the last ones overlap those before them, and some outputs are stored
// twice.
//
// With weights in registers (channels_registers.cu), a thread slides down the input rows. It reads each row once, AHEAD
// rows before its use, and adds it to all output rows that it reaches.
//
// With weights in shared memory (channels_shared.cu), for large kernels, a block goes through the kernel row by row. R
// is 1, and a thread reads one input row for each row of taps.
constexpr int C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@, STRIDE = @STRIDE@, DILATION = @DILATION@;
constexpr int KERNEL = @KERNEL@, KW = @KW@;  // taps of a channel, and of a row of them
constexpr int TAPS_H = @TAPS_H@, TAPS_W = @TAPS_W@, FIRST = @FIRST@;  // used taps: those that meet the input somewhere
constexpr int TOP = @TOP@, LEFT = @LEFT@;  // rows and columns from the first used tap to the output's own element
constexpr int N = @CHANNELS@, R = @R@, V = @COLUMNS@, THREADS = @THREADS@, ACROSS = @LANES@;
constexpr int GROUPS = (WO + V - 1) / V, STRIPS = (HO + R - 1) / R, PLACES = @B@ * STRIPS * GROUPS;
constexpr int CHANNELS = ACROSS * N, POINTS = THREADS / ACROSS;  // of a block
constexpr int COLUMNS = (V - 1) * STRIDE + (TAPS_W - 1) * DILATION + 1, WORDS = element_words(N);
constexpr bool FLIP = @FLIP@;
static_assert(C % CHANNELS == 0 && R <= HO && V <= WO && POINTS > 0, "whole vectors, strips and groups");

// Returns the index of a used tap among all taps of its channel.
constexpr int channels_tap(int ky, int kx) {
  const int tap = FIRST + ky * KW + kx;
  return FLIP ? KERNEL - 1 - tap : tap;
}

// The work of a thread: its first output, and the block's first channel. `any` is false for a thread without work.
struct channels_work {
  int first, channel, image, row, column;
  bool any;
};

__device__ __forceinline__ channels_work channels_mine() {
  const int thread = threadIdx.x, block = blockIdx.x, point = block / (C / CHANNELS) * POINTS + thread / ACROSS;
  channels_work mine;
  mine.first = block % (C / CHANNELS) * CHANNELS;
  mine.channel = mine.first + thread % ACROSS * N;
  mine.image = point / (GROUPS * STRIPS);
  mine.row = min(point / GROUPS % STRIPS * R, HO - R);
  mine.column = min(point % GROUPS * V, WO - V);
  mine.any = (THREADS % ACROSS == 0 || thread < POINTS * ACROSS) && (PLACES % POINTS == 0 || point < PLACES);
  return mine;
}

// Returns whether an input row or column, counted from the first one of `outputs` outputs, meets a tap of any of them.
constexpr bool channels_meets(int at, int outputs, int taps) {
  for (int output = 0; output < outputs; ++output)
    if (at >= output * STRIDE && (at - output * STRIDE) % DILATION == 0 && (at - output * STRIDE) / DILATION < taps)
      return true;
  return false;
}

// Returns whether an input column is padding for every thread.
constexpr bool channels_outside(int column) { return GROUPS == 1 && (column < LEFT || column - LEFT >= W); }

// Loads the columns of an input row. Conditions that can't fail are left out at compile time.
__device__ __forceinline__ void channels_fetch(word (&v)[COLUMNS][WORDS], const char* from, int left, bool inside) {
#pragma unroll
  for (int e = 0; e < COLUMNS; ++e)
    if (channels_meets(e, V, TAPS_W) && !channels_outside(e))
      element_fetch<N * SIZE>(v[e], from + e * (C * SIZE),
                              inside && (e >= LEFT || left + e >= 0) &&
                                  ((WO - V) * STRIDE - LEFT + e < W || left + e < W));
}

// Sets the sums of a row to the bias, or to 0.
__device__ __forceinline__ void channels_begin(float (&sum)[V][N], const word (&biases)[WORDS]) {
#pragma unroll
  for (int c = 0; c < V; ++c)
#pragma unroll
    for (int n = 0; n < N; ++n) sum[c][n] = HAS_BIAS ? element_at(biases, n) : 0.0f;
}

// Stores the sums of a row after the epilogue. `place` is the index of the first one in the output.
__device__ __forceinline__ void channels_leave(const float (&sum)[V][N], const char* residual, char* y,
                                               long long place) {
#pragma unroll
  for (int c = 0; c < V; ++c) {
    const long long at = (place + c * C) * SIZE;
    epilogue_store<N>(y + at, sum[c], residual + at);
  }
}

// Computes all outputs of a thread one by one, for tensors that are not aligned to a vector.
__device__ __forceinline__ void channels_plain(const char* x, const char* w, const char* bias, const char* residual,
                                               char* y, const channels_work& mine) {
#pragma unroll 1
  for (int each = 0; each < R * V * N; ++each) {
    const int c = mine.channel + each % N, j = mine.column + each / N % V, i = mine.row + each / (N * V);
    const int place = ((mine.image * HO + i) * WO + j) * C + c;
    float sum = 0.0f;
#pragma unroll 1
    for (int t = 0; t < TAPS_H * TAPS_W; ++t) {
      const int h = i * STRIDE + t / TAPS_W * DILATION - TOP, v = j * STRIDE + t % TAPS_W * DILATION - LEFT;
      if (h >= 0 && h < H && v >= 0 && v < W)
        sum = fmaf(element_load(x, ((mine.image * H + h) * W + v) * C + c),
                   element_load(w, c * KERNEL + channels_tap(t / TAPS_W, t % TAPS_W)), sum);
    }
    if (HAS_BIAS) sum += element_load(bias, c);
    if (HAS_RESIDUAL) sum += element_load(residual, place);
    sum = epilogue_activation(sum);
    element_store<1>(y + (long long)place * SIZE, &sum);
  }
}

