// Applies a function for one signal to all rows of the output. Each row is computed from one row of the input and one
// kernel, by ROW_BLOCKS blocks.
constexpr int ALL_ROWS = @ROWS@, FILTERS_OF_ALL = @F@, FILTERS_OF_ONE = @SEVERAL@;
constexpr int ROW_BLOCKS = @BLOCKS@;
constexpr long long ROW_OF_X = @ROW_OF_X@, ROW_OF_W = @ROW_OF_W@, ROW_OF_Y = @ROW_OF_Y@;

// Returns the number of the block in its row.
__device__ __forceinline__ int conv1d_block() { return ALL_ROWS == 1 ? blockIdx.x : blockIdx.x % ROW_BLOCKS; }

// Computes a block's part of a row. All arguments are those of the row.
__device__ __forceinline__ void conv1d_@NAME@(const void* __restrict__ x, const void* __restrict__ w, float bias,
                                              const char* residual, void* __restrict__ y, word* shared);

__device__ __forceinline__ void conv1d_rows(const void* __restrict__ x, const void* __restrict__ w, @ADDED@
                                            void* __restrict__ y, word* shared) {
  const int row = ALL_ROWS == 1 ? 0 : blockIdx.x / ROW_BLOCKS;
  conv1d_@NAME@((const char*)x + row / FILTERS_OF_ONE * ROW_OF_X, (const char*)w + row % FILTERS_OF_ALL * ROW_OF_W,
                epilogue_bias(@BIAS@, row % FILTERS_OF_ALL), (const char*)@RESIDUAL@ + row * ROW_OF_Y,
                (char*)y + row * ROW_OF_Y, shared);
}
