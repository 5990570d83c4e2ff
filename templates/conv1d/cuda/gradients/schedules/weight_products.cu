// The weight's gradient of dense channels as a product: filters by channels and taps, summed over all outputs. A block
// has a tile and one of PARTS ranges of the outputs. If there are several ranges, a second launch adds up their sums.
// Both add in a fixed order. If there is a bias, a column of ones follows the taps.
constexpr bool LAST = @LAST@, FLIP = @FLIP@, HAS_BIAS = @HAS_BIAS@;
constexpr int B = @B@, C = @C@, M = @M@, F = @F@, L = @L@, N = @N@, STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int PARTS = @PARTS@, TAPS = C * N, SUMS = F * (TAPS + HAS_BIAS);
constexpr int DEPTHS = B * L, STAGES = (DEPTHS + DEPTH - 1) / DEPTH;
constexpr int ROW_TILES = (F + ROWS - 1) / ROWS, COLUMN_TILES = (TAPS + HAS_BIAS + COLUMNS - 1) / COLUMNS;

// Returns the first stage of a part.
__device__ __forceinline__ int weight_begin(int part) { return part * (STAGES / PARTS) + min(part, STAGES % PARTS); }

__device__ __forceinline__ void conv1d_weight_products(const void* __restrict__ x_any, const void* __restrict__ g_any,
                                                       @GIVEN@ void* __restrict__ y, @WORKSPACE@ word* shared) {
  const char *const x = (const char*)x_any, *const g = (const char*)g_any, *const z = (const char*)@SUMS@;
  const int block = blockIdx.x, part = block / (ROW_TILES * COLUMN_TILES);
  const int first_row = block / COLUMN_TILES % ROW_TILES * ROWS, first_column = block % COLUMN_TILES * COLUMNS;
  const int from = weight_begin(part) * DEPTH, to = min(weight_begin(part + 1) * DEPTH, DEPTHS);

  auto left = [&](int line, int depth) {
    const int f = first_row + line, b = depth / L, i = depth % L;
    if (f >= F) return 0.0f;
    return products_gradient(g, z, LAST ? (long long)depth * F + f : ((long long)b * F + f) * L + i);
  };
  auto right = [&](int line, int depth) {
    const int column = first_column + line, b = depth / L, i = depth % L;
    if (column >= TAPS) return HAS_BIAS && column == TAPS ? 1.0f : 0.0f;
    const int c = LAST ? column % C : column / N, t = LAST ? column / C : column % N;
    const int place = i * STRIDE + t * DILATION - LEFT;
    if ((word)place >= (word)M) return 0.0f;
    return element_load(x, LAST ? ((long long)b * M + place) * C + c : ((long long)b * C + c) * M + place);
  };
  auto store = [&](int row, int line, float total) {
    const int f = first_row + row, column = first_column + line;
    if (f >= F || column >= TAPS + HAS_BIAS) return;
    const int c = LAST ? column % C : column / N, t = LAST ? column / C : column % N;
    const long long at = column == TAPS ? (long long)F * TAPS + f : ((long long)f * C + c) * N + (FLIP ? N - 1 - t : t);
    if (PARTS == 1) element_store<1>((char*)y + at * SIZE, &total);
    else ((float*)@PARTS_OF@)[(long long)part * SUMS + at] = total;
  };
  products_tile<!LAST, !LAST>(shared, from, to, left, right, store);
}

// Adds up the parts. A thread has one of the sums.
__device__ __forceinline__ void conv1d_weight_total(const void* __restrict__ x, const void* __restrict__ g, @GIVEN@
                                                    void* __restrict__ y, @WORKSPACE@ word* shared) {
  const long long n = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (n >= SUMS) return;
  float total = 0.0f;
#pragma unroll 8
  for (int part = 0; part < PARTS; ++part) total += ((const float*)@PARTS_OF@)[(long long)part * SUMS + n];
  element_store<1>((char*)y + n * SIZE, &total);
}
