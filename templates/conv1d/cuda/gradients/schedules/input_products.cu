// The input's gradient of dense channels as a product: samples by channels, summed over filters and taps. A phase is
// the samples with the same remainder modulo the stride. They meet the same taps: every APART-th from `first` on. The
// lines of the left factor are the samples of a phase in all signals, those of the right factor are channels.
constexpr bool LAST = @LAST@, FLIP = @FLIP@;
constexpr int B = @B@, C = @C@, M = @M@, F = @F@, L = @L@, N = @N@, STRIDE = @STRIDE@, DILATION = @DILATION@, LEFT = @LEFT@;
constexpr int COMMON = @COMMON@, APART = STRIDE / COMMON;  // COMMON: gcd(STRIDE, DILATION)
constexpr int INVERSE = @INVERSE@;  // inverse of DILATION / COMMON modulo APART
constexpr int EACH = (M + STRIDE - 1) / STRIDE;  // samples of a phase in a signal, at most
constexpr int ROW_TILES = (B * EACH + ROWS - 1) / ROWS, COLUMN_TILES = (C + COLUMNS - 1) / COLUMNS;

__device__ __forceinline__ void conv1d_input_products(const void* __restrict__ g_any, const void* __restrict__ w_any,
                                                      @GIVEN@ void* __restrict__ y_any, word* shared) {
  const char *const g = (const char*)g_any, *const w = (const char*)w_any, *const z = (const char*)@SUMS@;
  char* const y = (char*)y_any;
  const int block = blockIdx.x, phase = block / (ROW_TILES * COLUMN_TILES);
  const int first_row = block / COLUMN_TILES % ROW_TILES * ROWS, first_column = block % COLUMN_TILES * COLUMNS;
  const int behind = (phase + LEFT) % STRIDE;  // remainder of the distances of taps that meet the phase
  const int first = behind % COMMON == 0 ? (int)((long long)(behind / COMMON) * INVERSE % APART) : N;
  const int taps = first < N ? (N - 1 - first) / APART + 1 : 0;

  auto left = [&](int line, int depth) {
    const int row = first_row + line, b = row / EACH, each = row % EACH, f = depth % F;
    const int place = (phase + LEFT) / STRIDE + each - (first + depth / F * APART) * DILATION / STRIDE;
    if (row >= B * EACH || (word)place >= (word)L) return 0.0f;
    return products_gradient(g, z, LAST ? ((long long)b * L + place) * F + f : ((long long)b * F + f) * L + place);
  };
  auto right = [&](int line, int depth) {
    const int c = first_column + line, f = depth % F, t = first + depth / F * APART;
    return c < C ? element_load(w, ((long long)f * C + c) * N + (FLIP ? N - 1 - t : t)) : 0.0f;
  };
  auto store = [&](int line, int column, float total) {
    const int row = first_row + line, b = row / EACH, m = phase + row % EACH * STRIDE, c = first_column + column;
    if (row >= B * EACH || m >= M || c >= C) return;
    element_store<1>(y + (LAST ? ((long long)b * M + m) * C + c : ((long long)b * C + c) * M + m) * SIZE, &total);
  };
  products_tile<LAST, false>(shared, 0, taps * F, left, right, store);
}
