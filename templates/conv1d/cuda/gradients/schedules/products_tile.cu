// Computes a tile. `left` and `right` return the element of a line at a depth, zero beyond the lines. `store` takes the
// sum of two lines. About 512 products are added up in one sum, which is then added to the total: a longer sum would
// lose its last digits.
template <bool LEFT_ALONG, bool RIGHT_ALONG, typename Left, typename Right, typename Store>
__device__ __forceinline__ void products_tile(word* shared, int from, int to, Left left, Right right, Store store) {
  products_factor<ROWS, LEFT_ALONG> a;
  products_factor<COLUMNS, RIGHT_ALONG> b;
  float total[QUADS][4] = {};
  a.fetch(from, to, left);
  b.fetch(from, to, right);
#pragma unroll 1
  while (from < to) {
    float sum[QUADS][4] = {};
#pragma unroll 1
    for (int stage = 0; stage < AT_ONCE && from < to; ++stage) {
      __syncthreads();
      a.put(shared);
      b.put(shared + RIGHT_PLACE);
      __syncthreads();
      from += DEPTH;
      a.fetch(from, to, left);
      b.fetch(from, to, right);
      products_multiply(sum, shared);
    }
#pragma unroll
    for (int i = 0; i < QUADS * 4; ++i) total[i / 4][i % 4] += sum[i / 4][i % 4];
  }
  const int thread = threadIdx.x, lane = thread % 32, own = TENSOR ? thread / 32 : thread;
#pragma unroll
  for (int i = 0; i < QUADS * 4; ++i) {
    const int row = TENSOR ? i / (OWN_COLUMNS / 2) * 16 + lane / 4 + i % 4 / 2 * 8 : i / OWN_COLUMNS;
    const int column = TENSOR ? own % ACROSS * OWN_COLUMNS + i / 4 * 8 % OWN_COLUMNS + lane % 4 * 2 + i % 2
                              : own % ACROSS + i % OWN_COLUMNS * ACROSS;
    store(own / ACROSS * OWN_ROWS + row, column, total[i / 4][i % 4]);
  }
}

// Returns the gradient of the sum at index `at`.
__device__ __forceinline__ float products_gradient(const char* g, const char* z, long long at) {
  const float v = element_load(g, at);
  return HAS_DERIVATIVE ? v * derivative_activation(element_load(z, at)) : v;
}
