// The gradient of the input. A thread sums a patch of R rows by V columns of N neighbouring channels. Patches begin at
// multiples of the stride, so the taps that meet each element of a patch are known at compile time. With stride 2, for
// example, there are four kinds of elements, and each kind meets a quarter of the taps. A block has ACROSS vectors of N
// channels of POINTS patches; neighbouring lanes have neighbouring vectors. Its taps are in shared memory, as floats. A
// thread goes through the rows of taps, and for each row of its patch reads the row of the gradient that the taps meet.
// If a channel has several kernels, it goes through all of them.
//
// PLANES: channels are first. A thread has one channel, and neighbouring threads have neighbouring patches.
constexpr int B = @B@, C = @C@, H = @H@, W = @W@, HO = @HO@, WO = @WO@, STRIDE = @STRIDE@, DILATION = @DILATION@;
constexpr bool PLANES = @PLANES@, FLIP = @FLIP@;
constexpr int SEVERAL = @SEVERAL@, F = C * SEVERAL;  // kernels of each channel, and channels of the gradient
constexpr int KH = @KH@, KW = @KW@, KERNEL = KH * KW, TOP = @TOP@, LEFT = @LEFT@;
constexpr int N = @CHANNELS@, R = @ROWS@, V = @COLUMNS@, THREADS = @THREADS@, ACROSS = @LANES@;
constexpr int ABOVE = TOP % STRIDE, BEFORE = PLANES ? 0 : LEFT % STRIDE;  // of the first patch beyond the plane
constexpr int BEHIND = LEFT % STRIDE - BEFORE;  // columns from an output's own element to the first one of a patch
constexpr int COLUMN = PLANES ? 1 : F;          // elements of the gradient from a column to the next
constexpr int STRIPS = (H + ABOVE + R - 1) / R, GROUPS = (W + BEFORE + V - 1) / V, PLACES = B * STRIPS * GROUPS;
constexpr int CHANNELS = ACROSS * N, POINTS = THREADS / ACROSS, WORDS = element_words(N);  // of a block
constexpr int LOWEST = -((KW - 1) * DILATION / STRIDE);  // first gradient column that a patch meets, from its own on
constexpr int COLUMNS = (V - 1 + BEHIND) / STRIDE - LOWEST + 1;
constexpr bool WHOLE = PLANES && V > 1 && W % V == 0 && V * SIZE <= 16 && (V & (V - 1)) == 0;  // a row is one vector
static_assert(!PLANES || N == 1, "one channel");
static_assert(SEVERAL == 1 || N == 1, "neighbours of one kernel are not neighbours in the gradient");
static_assert(C % CHANNELS == 0 && R % STRIDE == 0 && V % STRIDE == 0 && POINTS > 0, "whole vectors and patches");
static_assert(KERNEL * CHANNELS == @WORDS@, "the template's estimate of shared memory");

// Return whether column kx of taps meets column v of a patch, and in which column of the gradient, counted from the
// patch's own one.
constexpr __device__ bool input_meets(int v, int kx) {
  return (v + BEHIND + KW * DILATION * STRIDE - kx * DILATION) % STRIDE == 0;
}
constexpr __device__ int input_at(int v, int kx) {
  return (v + BEHIND - kx * DILATION + KW * DILATION * STRIDE) / STRIDE - KW * DILATION;
}
// Returns the index of an element in a tensor of this many channels, rows and columns.
__device__ __forceinline__ long long input_element(int image, int channel, int row, int column, int channels, int rows,
                                                   int columns) {
  if (PLANES) return (((long long)image * channels + channel) * rows + row) * columns + column;
  return (((long long)image * rows + row) * columns + column) * channels + channel;
}
// Returns whether any tap of a row reaches this column of the gradient from any column of a patch.
constexpr __device__ bool input_reads(int column) {
  for (int v = 0; v < V; ++v)
    for (int kx = 0; kx < KW; ++kx)
      if (input_meets(v, kx) && input_at(v, kx) == column) return true;
  return false;
}

// Computes one output, for tensors that are not aligned to a vector.
__device__ __noinline__ float input_plain(const char* g, const char* w, const char* z, int image, int c, int h, int v) {
  float sum = 0.0f;
#pragma unroll 1
  for (int f = c * SEVERAL; f < (c + 1) * SEVERAL; ++f)
#pragma unroll 1
    for (int tap = 0; tap < KERNEL; ++tap) {
      const int y = h + TOP - tap / KW * DILATION, x = v + LEFT - tap % KW * DILATION;
      if (y < 0 || x < 0 || y % STRIDE > 0 || x % STRIDE > 0 || y / STRIDE >= HO || x / STRIDE >= WO) continue;
      const long long at = input_element(image, f, y / STRIDE, x / STRIDE, F, HO, WO);
      float gradient = element_load(g, at);
      if (HAS_DERIVATIVE) gradient *= derivative_activation(element_load(z, at));
      sum = fmaf(gradient, element_load(w, (long long)f * KERNEL + (FLIP ? KERNEL - 1 - tap : tap)), sum);
    }
  return sum;
}

__device__ __forceinline__ void depthwise_input_channels(const void* __restrict__ g_any, const void* __restrict__ w_any,
                                                         @GIVEN@ void* __restrict__ y_any, word* shared) {
  const char *const g = (const char*)g_any, *const w = (const char*)w_any, *const z = (const char*)@SUMS@;
  char* const y = (char*)y_any;
  const int thread = threadIdx.x, lane = PLANES ? thread / POINTS : thread % ACROSS, block = blockIdx.x;
  const int point = PLANES ? thread % POINTS : thread / ACROSS;
  const int place = block / (C / CHANNELS) * POINTS + point, first = block % (C / CHANNELS) * CHANNELS;
  const int channel = first + lane * N, image = place / GROUPS / STRIPS;
  const int row = place / GROUPS % STRIPS * R - ABOVE, column = place % GROUPS * V - BEFORE;
  float* const taps = (float*)shared;
  const bool any = thread < POINTS * ACROSS && place < PLACES;
  const bool aligned = (((size_t)g | (size_t)y | (size_t)z) & (N * SIZE - 1)) == 0;
  float sum[R][V][N] = {};
  const int own_row = (row + TOP) / STRIDE, own_column = (column + LEFT) / STRIDE;
#pragma unroll 1
  for (int kernel = 0; kernel < SEVERAL; ++kernel) {
    if (kernel > 0) __syncthreads();
#pragma unroll 4
    for (int i = thread; i < KERNEL * CHANNELS; i += THREADS) {
      const int tap = FLIP ? KERNEL - 1 - i % KERNEL : i % KERNEL;
      const int among = SEVERAL == 1 ? i : (i / KERNEL * SEVERAL + kernel) * KERNEL + i % KERNEL;
      taps[tap * CHANNELS + i / KERNEL] = element_load(w, (long long)first * (SEVERAL * KERNEL) + among);
    }
    __syncthreads();
    if (SEVERAL == 1 && !any) return;
    const long long origin = input_element(image, channel * SEVERAL + kernel, 0, own_column, F, HO, WO);
#pragma unroll @UNROLLED@
    for (int m = 0; any && aligned && m < (KH + STRIDE - 1) / STRIDE; ++m)
#pragma unroll
      for (int e = 0; e < STRIDE; ++e)
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const int ky = m * STRIDE + e;
          if ((r + STRIDE * DILATION - e * DILATION) % STRIDE > 0) continue;
          const int i = own_row - m * DILATION + (r + STRIDE * DILATION - e * DILATION) / STRIDE - DILATION;
          if (ky >= KH || (word)i >= (word)HO) continue;
          float in[COLUMNS][N];
#pragma unroll
          for (int k = 0; k < COLUMNS; ++k)
            if (input_reads(k + LOWEST)) {
              const long long at = (origin + ((long long)i * WO + k + LOWEST) * COLUMN) * SIZE;
              const bool inside = (word)(own_column + k + LOWEST) < (word)WO;
              word packed[WORDS], before[WORDS];
              element_fetch<N * SIZE>(packed, g + at, inside);
              if (HAS_DERIVATIVE) element_fetch<N * SIZE>(before, z + at, inside);
#pragma unroll
              for (int n = 0; n < N; ++n) {
                in[k][n] = element_at(packed, n);
                if (HAS_DERIVATIVE) in[k][n] *= derivative_activation(element_at(before, n));
              }
            }
#pragma unroll
          for (int kx = 0; kx < KW; ++kx) {
            float tap[N];
#pragma unroll
            for (int n = 0; n < N; ++n) tap[n] = taps[(ky * KW + kx) * CHANNELS + lane * N + n];
#pragma unroll
            for (int v = 0; v < V; ++v)
              if (input_meets(v, kx))
#pragma unroll
                for (int n = 0; n < N; ++n)
                  sum[r][v][n] = fmaf(in[input_at(v, kx) - LOWEST][n], tap[n], sum[r][v][n]);
          }
        }
  }

  if (!any) return;
  if constexpr (WHOLE) {
    if (((size_t)y & (V * SIZE - 1)) == 0) {
#pragma unroll
      for (int r = 0; r < R; ++r)
        if ((word)(row + r) < (word)H)
          element_store<V>(y + input_element(image, channel, row + r, column, C, H, W) * SIZE, sum[r][0]);
      return;
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if ((word)(row + r) < (word)H && (word)(column + v) < (word)W) {
        const long long at = PLANES ? (((long long)image * C + channel) * H + row + r) * W + column + v
                                    : (((long long)image * H + row + r) * W + column + v) * C + channel;
        if (aligned) {
          element_store<N>(y + at * SIZE, sum[r][v]);
        } else {
#pragma unroll 1
          for (int n = 0; n < N; ++n) {
            const float one = input_plain(g, w, z, image, channel + n, row + r, column + v);
            element_store<1>(y + (at + n) * SIZE, &one);
          }
        }
      }
}
