// A tile of a product: ROWS lines of its left factor by COLUMNS lines of its right factor, summed over a range of
// depths. Both factors come through shared memory, DEPTH depths at a time, while the next depths are loaded to
// registers. OWN_ROWS by OWN_COLUMNS of the tile are computed by a warp on tensor cores (TENSOR, 16 bits), or by a
// thread.
constexpr bool TENSOR = @TENSOR@;
constexpr int ROWS = @ROWS@, COLUMNS = @COLUMNS@, DEPTH = @DEPTH@, OWN_ROWS = @OWN_ROWS@, OWN_COLUMNS = @OWN_COLUMNS@;
constexpr int ACROSS = COLUMNS / OWN_COLUMNS, THREADS = ROWS / OWN_ROWS * ACROSS * (TENSOR ? 32 : 1);
constexpr int QUADS = OWN_ROWS * OWN_COLUMNS / (TENSOR ? 128 : 4);  // quads of a thread's sums
constexpr int AT_ONCE = 512 / DEPTH > 0 ? 512 / DEPTH : 1;          // stages whose products are one sum
constexpr int RIGHT_PLACE = TENSOR ? ROWS * DEPTH / 2 : DEPTH * (ROWS + 1);
static_assert(RIGHT_PLACE + (TENSOR ? COLUMNS * DEPTH / 2 : DEPTH * (COLUMNS + 1)) == @WORDS@, "the template's estimate");

// A thread's share of LINES lines of a factor, in words. A word is an element, or two neighbours along the depth for
// tensor cores. Neighbouring threads have neighbours along the depth if ALONG, else neighbouring lines.
template <int LINES, bool ALONG>
struct products_factor {
  static constexpr int DEEP = TENSOR ? DEPTH / 2 : DEPTH, ITEMS = LINES * DEEP, EACH = (ITEMS + THREADS - 1) / THREADS;
  word held[EACH];

  static __device__ __forceinline__ int line(int item) { return ALONG ? item / DEEP : item % LINES; }
  static __device__ __forceinline__ int deep(int item) { return ALONG ? item % DEEP : item / LINES; }

  template <typename Element>
  __device__ __forceinline__ void fetch(int from, int to, Element element) {
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      const int item = k * THREADS + (int)threadIdx.x;
      if (ITEMS % THREADS > 0 && item >= ITEMS) continue;
      const int at = from + deep(item) * (TENSOR ? 2 : 1);
      const float first = at < to ? element(line(item), at) : 0.0f;
      if constexpr (TENSOR) held[k] = element_pack(first, at + 1 < to ? element(line(item), at + 1) : 0.0f);
      else held[k] = __float_as_uint(first);
    }
  }
  __device__ __forceinline__ void put(word* to) const {
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
      const int item = k * THREADS + (int)threadIdx.x, l = line(item), d = deep(item);
      if (ITEMS % THREADS > 0 && item >= ITEMS) continue;
      // The halves of a line's 32 bytes are swapped in every other four lines, so that ldmatrix uses all banks.
      if (TENSOR) to[(d / 8 * LINES + l) * 8 + (d / 4 % 2 ^ l / 4 % 2) * 4 + d % 4] = held[k];
      else to[d * (LINES + 1) + l] = held[k];
    }
  }
};
