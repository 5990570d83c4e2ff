// Depthwise convolution by direct sums in registers. A thread has a patch of ROWS by COLUMNS outputs of one plane. It
// goes over the input rows inside the plane, so padding above and below costs nothing. A row of the patch is unrolled.
// With exact edges, each place of a patch along a row has code of its own, which has only the multiply-adds of inputs
// that exist. With padded edges, rows are padded with zeros in shared memory, and all patches share their code.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, K = @K@, STRIDE = @STRIDE@;
constexpr int OUT_H = (H - 1) / STRIDE + 1, OUT_W = (W - 1) / STRIDE + 1;
constexpr int KH = @KH@, KW = @KW@, TOP = KH / 2, LEFT = KW / 2;  // KH, KW: used taps; others only meet padding
constexpr int IMAGES = @IMAGES@, CHANNELS = @CHANNELS@, PLANES = IMAGES * CHANNELS;
constexpr int ROWS = @ROWS_PER_THREAD@, COLUMNS = @COLUMNS_PER_THREAD@;          // of a patch
constexpr int DOWN = @PATCHES_DOWN@, ACROSS = @PATCHES_ACROSS@;            // patches of a tile
constexpr bool PADDED = @PADDED@, ALONG = @ALONG@;         // ALONG: neighbouring lanes have neighbours along a row
constexpr bool UNROLLED = @UNROLLED@, W_KEPT = @W_KEPT@, ROW_SUMS = @ROW_SUMS@, OUT_STAGED = @OUT_STAGED@;
constexpr int TILES_X = (OUT_W + ACROSS * COLUMNS - 1) / (ACROSS * COLUMNS);
constexpr int TILES_Y = (OUT_H + DOWN * ROWS - 1) / (DOWN * ROWS);
constexpr int PATCHES = (OUT_W + COLUMNS - 1) / COLUMNS;   // of a row
constexpr int SECTION = (PLANES * DOWN + 31) / 32 * 32;    // threads at one place along the row: whole warps
constexpr int THREADS = ALONG ? (PLANES * DOWN * ACROSS + 31) / 32 * 32 : ACROSS * SECTION;

// Shared memory. Pitches are odd multiples of 16 bytes, so that lanes on neighbouring rows or planes use different
// banks.
constexpr bool WHOLE_ROWS = !PADDED && TILES_X == 1;
constexpr int MARGIN = WHOLE_ROWS ? 0 : (LEFT + 3) / 4 * 4;  // columns left of a tile's first output
constexpr int X_QUADS = WHOLE_ROWS ? (W + 3) / 4 : (MARGIN + (ACROSS * COLUMNS - 1) * STRIDE + LEFT + 4) / 4;
constexpr int X_SPAN = (DOWN * ROWS - 1) * STRIDE + KH, X_ROWS = X_SPAN < H ? X_SPAN : H;
constexpr int X_PITCH = 4 * (X_QUADS | 1), X_PLANE = 4 * ((X_ROWS * X_PITCH / 4) | 1);
constexpr int W_PITCH = 4 * (((KW + 3) / 4) | 1), W_PLANE = KH * W_PITCH;
constexpr int Y_ROWS = DOWN * ROWS < OUT_H ? DOWN * ROWS : OUT_H;
constexpr int Y_PITCH = 4 * ((ACROSS * COLUMNS / 4) | 1), Y_PLANE = 4 * ((Y_ROWS * Y_PITCH / 4) | 1);
constexpr int STAGE = PLANES * (OUT_STAGED && Y_PLANE > X_PLANE ? Y_PLANE : X_PLANE);
static_assert(STAGE + CHANNELS * W_PLANE == @WORDS@, "the template's estimate of shared memory");
static_assert(THREADS == @THREADS@, "the template's number of threads");

// Shares out COUNT planes of HEIGHT rows of GROUPS groups among the block's threads, and calls visit(plane, row,
// group). A thread keeps its group, and its row too if there are threads for a whole plane, so that the loops need no
// division.
template <int COUNT, int HEIGHT, int GROUPS, typename Visit>
__device__ __forceinline__ void patch_share(Visit visit) {
  const int thread = threadIdx.x;
  if constexpr (HEIGHT * GROUPS <= THREADS) {
    constexpr int TOGETHER = THREADS / (HEIGHT * GROUPS);  // planes at a time
    const int group = thread % GROUPS, r = thread / GROUPS % HEIGHT;
    if (thread < TOGETHER * HEIGHT * GROUPS)
#pragma unroll 4
      for (int p = thread / (HEIGHT * GROUPS); p < COUNT; p += TOGETHER) visit(p, r, group);
  } else if constexpr (GROUPS <= THREADS) {
    constexpr int TOGETHER = THREADS / GROUPS;  // rows at a time
    const int group = thread % GROUPS;
    if (thread < TOGETHER * GROUPS)
#pragma unroll 1
      for (int p = 0; p < COUNT; ++p)
#pragma unroll 4
        for (int r = thread / GROUPS; r < HEIGHT; r += TOGETHER) visit(p, r, group);
  } else {
#pragma unroll 1
    for (int p = 0; p < COUNT; ++p)
#pragma unroll 1
      for (int r = 0; r < HEIGHT; ++r)
#pragma unroll 4
        for (int group = thread; group < GROUPS; group += THREADS) visit(p, r, group);
  }
}

// Stages the input rows of the block's tile. All of them are inside the plane.
template <int V>
__device__ __forceinline__ void patch_stage(float* xs, const patch_element* x, int image, int channel, int row,
                                            int column) {
  patch_share<PLANES, X_ROWS, (WHOLE_ROWS ? W / V : 4 * X_QUADS / V)>([&](int p, int r, int group) {
    const int b = image + p % IMAGES, c = channel + p / IMAGES, v = group * V;
    if ((B % IMAGES != 0 && b >= B) || (C % CHANNELS != 0 && c >= C)) return;
    float* const to = xs + p * X_PLANE + r * X_PITCH + v;
    if (WHOLE_ROWS || (unsigned int)(column + v) < W) {
      patch_fetch<V>(to, x + ((b * C + c) * H + row + r) * W + column + v);
    } else if (PADDED) {
#pragma unroll
      for (int e = 0; e < V; ++e) to[e] = 0.0f;
    }
  });
}

// The product of one input row and one row of weights, which are both in shared memory. Columns FIRST to LAST of the
// input are counted from the patch's first output. The shorter of both rows is kept in registers, and always the input
// row if several output rows share it; the other one is read piece by piece.
template <int FIRST, int LAST, int OUTPUTS>
struct patch_row {
  static constexpr int START = FIRST >= 0 ? FIRST / 4 * 4 : -((3 - FIRST) / 4 * 4);
  static constexpr int QUADS = LAST < START ? 0 : (LAST - START) / 4 + 1;
  static constexpr bool KEEPS_INPUT = ROWS > 1 || 4 * QUADS <= KW + 3;
  static constexpr int KEPT = KEEPS_INPUT ? (QUADS > 0 ? QUADS : 1) : (KW + 3) / 4;

  static __device__ __forceinline__ void load(float4 (&kept)[KEPT], const float* xs) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) kept[q] = ((const float4*)xs)[q];
  }

  static __device__ __forceinline__ float element(const float4& quad, int e) {
    return e == 0 ? quad.x : e == 1 ? quad.y : e == 2 ? quad.z : quad.w;
  }

  static __device__ __forceinline__ void add(float (&sum)[COLUMNS], const float4 (&kept)[KEPT], const float4* taps) {
    float part[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) part[j] = ROW_SUMS ? 0.0f : sum[j];
#pragma unroll
    for (int q = 0; q < (KW + 3) / 4; ++q) {
      const float4 quad = taps[q];
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int j = 0; j < OUTPUTS; ++j) {
          const int tap = 4 * q + e, v = j * STRIDE + tap - LEFT;
          if (tap < KW && v >= FIRST && v <= LAST)
            part[j] = fmaf(element(kept[(v - START) / 4], (v - START) % 4), element(quad, e), part[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) sum[j] = ROW_SUMS ? sum[j] + part[j] : part[j];
  }

  static __device__ __forceinline__ void stream(float (&sum)[COLUMNS], const float* xs, const float* ws) {
    float4 taps[(KW + 3) / 4];
#pragma unroll
    for (int q = 0; q < (KW + 3) / 4; ++q) taps[q] = ((const float4*)ws)[q];
    float part[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) part[j] = ROW_SUMS ? 0.0f : sum[j];
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
      const float4 quad = ((const float4*)xs)[q];
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int j = 0; j < OUTPUTS; ++j) {
          const int v = START + 4 * q + e, tap = v - j * STRIDE + LEFT;
          if (tap >= 0 && tap < KW && v >= FIRST && v <= LAST)
            part[j] = fmaf(element(quad, e), element(taps[tap / 4], tap % 4), part[j]);
        }
#pragma unroll
      for (int j = 0; j < OUTPUTS; ++j) {
        const int end = j * STRIDE - LEFT + KW - 1 < LAST ? j * STRIDE - LEFT + KW - 1 : LAST;  // its last input
        if (ROW_SUMS && end >= START + 4 * q && end < START + 4 * q + 4) sum[j] += part[j];
      }
    }
    if (!ROW_SUMS)
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) sum[j] = part[j];
  }
};

// Adds input row T of a patch and all rows after it, counted from the first row that the patch could meet.
template <class Row, int T>
__device__ __forceinline__ void patch_unrolled(float (&sum)[ROWS][COLUMNS], const float* xs,
                                               const float4 (&taps)[W_KEPT ? W_PLANE / 4 : 1], const float* ws,
                                               int origin) {
  if constexpr (T < (ROWS - 1) * STRIDE + KH) {
    if ((unsigned int)(origin + T) < H) {
      float4 kept[Row::KEPT];
      Row::load(kept, xs + T * X_PITCH);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const int ky = T - r * STRIDE;
        if (ky >= 0 && ky < KH)
          Row::add(sum[r], kept, W_KEPT ? taps + ky * (W_PITCH / 4) : (const float4*)(ws + ky * W_PITCH));
      }
    }
    patch_unrolled<Row, T + 1>(sum, xs, taps, ws, origin);
  }
}

// Sums a patch whose first output row is i. `xs` points to row 0 of its plane, even if that row is not staged, at the
// column of its first output; `ws` points to the plane's weights.
template <int FIRST, int LAST, int OUTPUTS>
__device__ __forceinline__ void patch_sums(float (&sum)[ROWS][COLUMNS], const float* xs, const float* ws, int i) {
  using row = patch_row<FIRST, LAST, OUTPUTS>;
  const int origin = i * STRIDE - TOP;
  xs += row::START;
  if constexpr (UNROLLED) {
    float4 taps[W_KEPT ? W_PLANE / 4 : 1];
    if (W_KEPT)
#pragma unroll
      for (int q = 0; q < W_PLANE / 4; ++q)
        if (q % (W_PITCH / 4) < (KW + 3) / 4) taps[q] = ((const float4*)ws)[q];
    patch_unrolled<row, 0>(sum, xs + origin * X_PITCH, taps, ws, origin);
    return;
  }
  float4 kept[row::KEPT];
  const int rows = OUT_H % ROWS == 0 || i + ROWS <= OUT_H ? ROWS : OUT_H - i;
  const int begin = origin > 0 ? origin : 0, span = origin + (rows - 1) * STRIDE + KH, end = span < H ? span : H;
  int ky = begin - origin;
  xs += begin * X_PITCH, ws += ky * W_PITCH;
#pragma unroll 1
  for (int left = end - begin; left > 0; --left, ++ky, xs += X_PITCH, ws += W_PITCH) {
    if (!row::KEEPS_INPUT) {
      row::stream(sum[0], xs, ws);
    } else {
      row::load(kept, xs);
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (ROWS == 1 || (unsigned int)(ky - r * STRIDE) < KH)
          row::add(sum[r], kept, (const float4*)(ws - r * STRIDE * W_PITCH));
    }
  }
}

// Patches that meet all their taps share their code. Each patch to the left and to the right of them has code of its
// own.
constexpr int patch_min(int a, int b) { return a < b ? a : b; }
constexpr int patch_max(int a, int b) { return a > b ? a : b; }
constexpr int SEE_LEFT = patch_min(PATCHES, (LEFT + COLUMNS * STRIDE - 1) / (COLUMNS * STRIDE));
constexpr int LAST_WHOLE = W - 1 - LEFT - (COLUMNS - 1) * STRIDE;  // the last origin that sees all to its right
constexpr int WHOLE = LAST_WHOLE < 0 ? 0 : patch_min(OUT_W / COLUMNS, LAST_WHOLE / (COLUMNS * STRIDE) + 1);
constexpr int SEE_RIGHT = patch_max(SEE_LEFT, WHOLE);

template <int PLACE>
__device__ __forceinline__ void patch_at(int place, float (&sum)[ROWS][COLUMNS], const float* xs, const float* ws,
                                         int i) {
  constexpr int ORIGIN = PLACE * COLUMNS * STRIDE;
  constexpr bool SHARED = PADDED || (PLACE == SEE_LEFT && SEE_LEFT < SEE_RIGHT);
  constexpr int NEXT = SHARED ? (PADDED ? PATCHES : SEE_RIGHT) : PLACE + 1;
  constexpr int OUTPUTS = PADDED ? COLUMNS : patch_min(COLUMNS, OUT_W - PLACE * COLUMNS);
  constexpr int FIRST = PADDED ? -LEFT : patch_max(-LEFT, -ORIGIN);
  constexpr int LAST = PADDED ? (COLUMNS - 1) * STRIDE + LEFT
                              : patch_min((OUTPUTS - 1) * STRIDE + LEFT, W - 1 - ORIGIN);
  if (NEXT >= PATCHES || place < NEXT)
    patch_sums<FIRST, LAST, OUTPUTS>(sum, xs, ws, i);
  else if constexpr (NEXT < PATCHES)
    patch_at<NEXT>(place, sum, xs, ws, i);
}

// Stores V neighbouring results from registers or shared memory.
template <int V>
__device__ __forceinline__ void patch_put(patch_element* to, const float* from) {
  patch_vector<V> v;
#pragma unroll
  for (int e = 0; e < V; ++e) v.e[e] = patch_narrow(from[e]);
  *(patch_vector<V>*)to = v;
}

template <int V>
__device__ __forceinline__ void patch_put_sums(patch_element* y, const float (&sum)[ROWS][COLUMNS], int i, int j) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int q = 0; q < COLUMNS; q += V)
      if (i + r < OUT_H && j + q < OUT_W) patch_put<V>(y + (i + r) * OUT_W + j + q, &sum[r][q]);
}

template <int V>
__device__ __forceinline__ void patch_put_tile(patch_element* y, const float* ys, const void* bias,
                                               const char* residual, int image, int channel, int i, int j) {
  patch_share<PLANES, Y_ROWS, (TILES_X == 1 ? OUT_W : ACROSS * COLUMNS) / V>([&](int p, int r, int group) {
    const int b = image + p % IMAGES, c = channel + p / IMAGES, q = group * V;
    if (b < B && c < C && i + r < OUT_H && j + q < OUT_W) {
      patch_floats<V> v = *(const patch_floats<V>*)(ys + p * Y_PLANE + r * Y_PITCH + q);
      patch_element* const to = y + ((b * C + c) * OUT_H + i + r) * OUT_W + j + q;
      if (HAS_EPILOGUE)
        epilogue_finish_runs<V, 1>(v.e, epilogue_bias(bias, c), residual,
                                   [&](int) -> epilogue_run { return {to - y, V}; });
      patch_put<V>(to, v.e);
    }
  });
}

// Returns the rows from the top and from the bottom in turn. Both meet equally few taps, so the lanes of a warp end at
// the same time.
__device__ __forceinline__ int patch_mirrored(int r, int count) {
  constexpr int GROUP = PLANES >= 8 ? 1 : 8 / PLANES;  // eight lanes have neighbouring rows, for different banks
  const int turn = r / (2 * GROUP), place = r % (2 * GROUP), low = turn * GROUP;
  if ((turn + 1) * 2 * GROUP > count || place < GROUP) return low + place;
  return count - 1 - (low + place - GROUP);
}

__device__ __forceinline__ void depthwise_conv2d_patch(const void* __restrict__ input,
                                                       const void* __restrict__ weight, @ADDED@
                                                       void* __restrict__ output, void* shared) {
  const patch_element* const x = (const patch_element*)input;
  const patch_element* const w = (const patch_element*)weight;
  patch_element* const y = (patch_element*)output;
  const char* const residual_of = (const char*)@RESIDUAL@;
  float* const xs = (float*)shared;
  float* const ws = xs + STAGE;
  const int thread = threadIdx.x;
  int block = blockIdx.x;
  const int tile_x = block % TILES_X * ACROSS;  // the first patch of the tile
  block /= TILES_X;
  const int tile_y = block % TILES_Y * DOWN;
  block /= TILES_Y;
  const int channel = block % ((C + CHANNELS - 1) / CHANNELS) * CHANNELS;
  const int image = block / ((C + CHANNELS - 1) / CHANNELS) * IMAGES;
  const int column = tile_x * COLUMNS * STRIDE - MARGIN;
  const int above = tile_y * ROWS * STRIDE - TOP;
  const int row = above < 0 ? 0 : above < H - X_ROWS ? above : H - X_ROWS;  // the first row that is staged

  if (W % 4 == 0 && patch_aligned<4>(x))
    patch_stage<W % 4 == 0 ? 4 : 1>(xs, x, image, channel, row, column);
  else if (W % 2 == 0 && patch_aligned<2>(x))
    patch_stage<W % 2 == 0 ? 2 : 1>(xs, x, image, channel, row, column);
  else
    patch_stage<1>(xs, x, image, channel, row, column);
  patch_share<CHANNELS, KH, KW>([&](int c, int ky, int kx) {
    const int tap = (ky + K / 2 - TOP) * K + kx + K / 2 - LEFT;
    if (C % CHANNELS == 0 || channel + c < C)
      patch_fetch<1>(ws + c * W_PLANE + ky * W_PITCH + kx,
                     w + (channel + c) * K * K + (@FLIP@ ? K * K - 1 - tap : tap));
  });
  patch_arrived();

  const int within = thread % SECTION;
  const int place = ALONG ? thread % ACROSS : thread / SECTION;
  const int plane = ALONG ? thread / (ACROSS * DOWN) : within % PLANES;
  const int patches_y = patch_min(DOWN, (OUT_H + ROWS - 1) / ROWS - tile_y);
  int patch_y = ALONG ? thread / ACROSS % DOWN : within / PLANES;
  const int b = image + plane % IMAGES, c = channel + plane / IMAGES;
  const bool active = plane < PLANES && b < B && c < C && patch_y < patches_y && tile_x + place < PATCHES;
  if (DOWN == 1)
    patch_y = 0;  // every active thread has 0; as a constant it tells the compiler the rows of a patch
  else if (!ALONG)
    patch_y = patch_mirrored(patch_y, patches_y);
  const int i = (tile_y + patch_y) * ROWS, j = (tile_x + place) * COLUMNS;

  float sum[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int q = 0; q < COLUMNS; ++q) sum[r][q] = 0.0f;
  if (active)
    patch_at<0>(tile_x + place, sum, xs + plane * X_PLANE - row * X_PITCH + MARGIN + place * COLUMNS * STRIDE,
                ws + plane / IMAGES * W_PLANE, i);

  if (OUT_STAGED) {
    __syncthreads();
    if (active) {
      float* const ys = xs + plane * Y_PLANE + patch_y * ROWS * Y_PITCH + place * COLUMNS;
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int q = 0; q < COLUMNS; q += 4)
          if (OUT_H % ROWS == 0 || i + r < OUT_H)
            *(float4*)(ys + r * Y_PITCH + q) = make_float4(sum[r][q], sum[r][q + 1], sum[r][q + 2], sum[r][q + 3]);
    }
    __syncthreads();
    const int first_i = tile_y * ROWS, first_j = tile_x * COLUMNS;
    if (OUT_W % 4 == 0 && patch_aligned<4>(y))
      patch_put_tile<OUT_W % 4 == 0 ? 4 : 1>(y, xs, @BIAS@, residual_of, image, channel, first_i, first_j);
    else if (OUT_W % 2 == 0 && patch_aligned<2>(y))
      patch_put_tile<OUT_W % 2 == 0 ? 2 : 1>(y, xs, @BIAS@, residual_of, image, channel, first_i, first_j);
    else
      patch_put_tile<1>(y, xs, @BIAS@, residual_of, image, channel, first_i, first_j);
  } else if (active) {
    if (HAS_EPILOGUE) {
      constexpr int V = OUT_W % 4 == 0 ? 4 : OUT_W % 2 == 0 ? 2 : 1;
      epilogue_finish_runs<V, ROWS * COLUMNS / V>(
          sum[0], epilogue_bias(@BIAS@, c), residual_of, [&](int run) -> epilogue_run {
            const int h = i + run * V / COLUMNS, v = j + run * V % COLUMNS;
            return {((b * C + c) * OUT_H + h) * OUT_W + v, h < OUT_H && v < OUT_W ? V : 0};
          });
    }
    patch_element* const to = y + (b * C + c) * OUT_H * OUT_W;
    if (OUT_W % 4 == 0 && patch_aligned<4>(y))
      patch_put_sums<OUT_W % 4 == 0 ? 4 : 1>(to, sum, i, j);
    else if (OUT_W % 2 == 0 && patch_aligned<2>(y))
      patch_put_sums<OUT_W % 2 == 0 ? 2 : 1>(to, sum, i, j);
    else
      patch_put_sums<1>(to, sum, i, j);
  }
}
