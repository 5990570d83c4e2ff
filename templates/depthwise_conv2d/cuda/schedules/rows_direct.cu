// Rows that are read directly from global memory.
constexpr int AHEAD = @AHEAD@, THREADS = @THREADS@;
constexpr bool NEXT = @NEXT@;
constexpr int GROUPS = (WO + V - 1) / V;
constexpr int RIGHT = LEFT >= STRIDE ? LEFT - STRIDE + 1 : 0;  // columns to the right of the V * STRIDE in the middle

// Returns the longest vector, in elements, that divides a plane's rows and a thread's columns.
constexpr int depthwise_vector(int width, int columns) {
  int n = 16 / SIZE;
  while (width % n != 0 || columns % n != 0) n /= 2;
  return n;
}

// Returns the least power of two that is at least n; 0 for 0.
constexpr int depthwise_power(int n) {
  int power = n > 0;
  while (power < n) power *= 2;
  return power;
}

// A row is loaded in vectors of LOADED elements, and at each end in one vector of LEFT_PART or RIGHT_PART elements,
// which is only as long as needed.
constexpr int LOADED = depthwise_vector(W, V * STRIDE), STORED = depthwise_vector(WO, V);
constexpr int LEFT_WHOLE = LEFT / LOADED * LOADED, LEFT_PART = depthwise_power(LEFT % LOADED);
constexpr int RIGHT_WHOLE = RIGHT / LOADED * LOADED, RIGHT_PART = depthwise_power(RIGHT % LOADED);
constexpr int MIDDLE = LEFT_WHOLE + V * STRIDE + RIGHT_WHOLE, FAR = V * STRIDE + RIGHT_WHOLE;
constexpr int MIDDLE_WORD = element_words(LEFT_PART), VECTOR_WORDS = element_words(LOADED);
constexpr int RIGHT_WORD = MIDDLE_WORD + MIDDLE / LOADED * VECTOR_WORDS;
constexpr int WORDS = RIGHT_WORD + element_words(RIGHT_PART);
static_assert(WORDS == @ROW_WORDS@, "the template's estimate of registers");

// Computes the outputs of a thread one by one, for tensors that are not aligned to a vector.
__device__ __forceinline__ void depthwise_plain(const char* x, const char* w, const char* residual, char* y, float bias,
                                                int channel, int row, int column) {
#pragma unroll 1
  for (int r = row; r < min(row + R, HO); ++r)
#pragma unroll 1
    for (int c = column; c < min(column + V, WO); ++c) {
      float sum = 0.0f;
#pragma unroll 1
      for (int t = 0; t < TAPS; ++t) {
        const int h = r * STRIDE + t / TAPS_W - TOP, v = c * STRIDE + t % TAPS_W - LEFT;
        if (h >= 0 && h < H && v >= 0 && v < W)
          sum = fmaf(element_load(x, h * W + v), element_load(w, depthwise_tap(channel, depthwise_met(t))), sum);
      }
      epilogue_finish<1>(&sum, bias, residual + (r * WO + c) * SIZE);
      element_store<1>(y + (r * WO + c) * SIZE, &sum);
    }
}

__device__ __forceinline__ void depthwise_rows(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                               void* __restrict__ y, word*) {
  if (!NEXT) wait_for_launch();
  const int id = blockIdx.x * THREADS + threadIdx.x;
  if (PLANES * STRIPS * GROUPS % THREADS != 0 && id >= PLANES * STRIPS * GROUPS) return;
  const int group = id % GROUPS, strip = id / GROUPS % STRIPS, plane = id / (GROUPS * STRIPS);
  const int channel = depthwise_channel(plane);
  const int column = group * (V * STRIDE), top = strip * (R * STRIDE) - TOP;
  const char* const x_plane = (const char*)x + (long long)plane * (H * W) * SIZE;
  const long long begin = (long long)plane * (HO * WO) * SIZE;
  char* const y_plane = (char*)y + begin;
  const char* const residual_of = HAS_RESIDUAL ? (const char*)@RESIDUAL@ + begin : nullptr;
  const char* const origin = x_plane + ((long long)top * W + column) * SIZE;
  const int start = (strip * R * WO + group * V) * SIZE;
  // The addresses of this thread are aligned as the tensors are. If launches begin early, a branch asks for them, so they
  // are computed before the wait. If not, the launch before has ended, and no load should wait for all addresses.
  const size_t from = NEXT ? (size_t)origin : (size_t)x, to = NEXT ? (size_t)(y_plane + start) : (size_t)y;
  if ((LOADED > 1 && (from & (LOADED * SIZE - 1)) != 0) ||
      (STORED > 1 && ((to | (size_t)@RESIDUAL@) & (STORED * SIZE - 1)) != 0)) {
    if (NEXT) wait_for_launch();
    depthwise_plain(x_plane, (const char*)w, residual_of, y_plane, epilogue_bias(@BIAS@, channel), channel, strip * R,
                    group * V);
    return;
  }
  if (NEXT) wait_for_launch();
  const float bias_of = epilogue_bias(@BIAS@, channel);

  auto padding = [](int i) { return STRIPS == 1 && (i < TOP || i >= H + TOP); };  // known at compile time
  // Loads row i of the strip. Conditions that can't fail are left out at compile time.
  auto fetch = [&](int i, word (&row)[WORDS]) {
    if (padding(i)) return;
    const bool inside = (i >= TOP || top + i >= 0) &&
                        ((STRIPS - 1) * R * STRIDE - TOP + i < H || top + i < H);
    const char* const from = origin + (long long)i * (W * SIZE);
    if constexpr (LEFT_PART > 0)
      element_fetch<LEFT_PART * SIZE>(row, from - (LEFT_WHOLE + LEFT_PART) * SIZE,
                                        inside && column >= LEFT_WHOLE + LEFT_PART);
#pragma unroll
    for (int q = 0; q < MIDDLE; q += LOADED) {
      const int at = q - LEFT_WHOLE;
      element_fetch<LOADED * SIZE>(
          row + MIDDLE_WORD + q / LOADED * VECTOR_WORDS, from + at * SIZE,
          inside && (at >= 0 || column + at >= 0) && ((GROUPS - 1) * V * STRIDE + at < W || column + at < W));
    }
    if constexpr (RIGHT_PART > 0)
      element_fetch<RIGHT_PART * SIZE>(row + RIGHT_WORD, from + FAR * SIZE, inside && column + FAR < W);
  };
  // Returns the element of a loaded row at a column, from -LEFT on.
  auto element = [&](const word (&row)[WORDS], int at) {
    if (at < -LEFT_WHOLE) return element_at(row, at + LEFT_WHOLE + LEFT_PART);
    if (at >= FAR) return element_at(row + RIGHT_WORD, at - FAR);
    const int q = at + LEFT_WHOLE;
    return element_at(row + MIDDLE_WORD + q / LOADED * VECTOR_WORDS, q % LOADED);
  };

  word rows[AHEAD + 1][WORDS];
#pragma unroll
  for (int i = 0; i < AHEAD && i < ROWS; ++i) fetch(i, rows[i]);
  float weight[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; ++t) weight[t] = element_load((const char*)w, depthwise_tap(channel, depthwise_met(t)));
  if (NEXT) begin_next_launch();
  float sum[R][V] = {};
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    if (i + AHEAD < ROWS) fetch(i + AHEAD, rows[(i + AHEAD) % (AHEAD + 1)]);
    float row[(V - 1) * STRIDE + TAPS_W];
    if (!padding(i))
#pragma unroll
      for (int e = 0; e < (V - 1) * STRIDE + TAPS_W; ++e) row[e] = element(rows[i % (AHEAD + 1)], e - LEFT);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int ky = i - r * STRIDE;
      if (!padding(i) && ky >= 0 && ky < TAPS_H)
#pragma unroll
        for (int kx = 0; kx < TAPS_W; ++kx)
#pragma unroll
          for (int c = 0; c < V; ++c)
            sum[r][c] = fmaf(row[c * STRIDE + kx], weight[ky * TAPS_W + kx], sum[r][c]);
      if (ky == TAPS_H - 1 && (HO % R == 0 || strip * R + r < HO))
#pragma unroll
        for (int c = 0; c < V; c += STORED)
          if ((GROUPS - 1) * V + c < WO || group * V + c < WO) {
            const int place = start + (r * WO + c) * SIZE;
            epilogue_finish<STORED>(&sum[r][c], bias_of, residual_of + place);
            element_store<STORED>(y_plane + place, &sum[r][c]);
          }
    }
  }
}
